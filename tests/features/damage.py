"""Run as a script: damage random files of features folders. Opening them must give an error or still work."""

import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.features import Features, verify


def touch_everything(features: Features) -> None:
    for row in range(len(features)):
        features.id(row), features.text(row), features.media(row), features.take([row]).pixels
    for feature in range(features.shape[1]):
        features.feature(feature)
    np.asarray(features.codes.sum(axis=0))


def same(a: Features, b: Features) -> bool:
    """Whether everything is equal except the names, which are not hashed."""
    parts = [(f.codes.toarray().tolist(), list(f.labels), f.samples, f.label_names, f.provenance) for f in (a, b)]
    return parts[0] == parts[1] and np.array_equal(a.pixels, b.pixels)


def damaged(content: bytes, rng: random.Random) -> bytes:
    kind = rng.choice(["flip", "flip", "truncate", "empty", "extend", "zero"])
    place = rng.randrange(len(content))
    if kind == "truncate":
        return content[:place]
    if kind == "empty":
        return b""
    if kind == "extend":
        return content + b"\0" * 64
    changed = bytearray(content)
    for offset in range(place, min(place + rng.choice([1, 8]), len(content))):
        changed[offset] = 0 if kind == "zero" else changed[offset] ^ (1 << rng.randrange(8))
    return bytes(changed)


def main() -> None:
    rng = random.Random(int(sys.argv[1]))
    warnings.simplefilter("ignore")  # about damaged lines of the journal, which are skipped
    root = Path(tempfile.mkdtemp())
    good = root / "good.features"
    codes = sp.random_array((20, 8), density=0.3, rng=np.random.default_rng(0), dtype=np.float32)
    Features(
        codes,
        ids=[f"id {i}" for i in range(20)],
        texts=["text"] * 20,
        pixels=np.arange(20 * 2 * 2 * 3, dtype=np.uint8).reshape(20, 2, 2, 3),
        labels=np.arange(20) % 3,
        label_names=("a", "b", "c"),
        names={1: "one"},
    ).save(good)
    rejected = opened = caught_by_verify = 0
    whole = verify(good)
    for _ in range(400):
        bad = root / "bad.features"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        path = rng.choice(sorted(bad.iterdir()))
        path.write_bytes(damaged(path.read_bytes(), rng))
        try:
            features = Features.load(bad)
            opened += 1
            touch_everything(features)
            undetected = not same(verify(bad), whole)
            assert path.name == "names.jsonl" or not undetected, f"the damage to {path.name} was not detected"
        except InputError as error:
            assert "\n" not in str(error)
            assert str(bad) in str(error)
            rejected += 1
            caught_by_verify += "SHA-256" in str(error)
    print(f"{rejected} rejected, {opened} opened, {caught_by_verify} found by their hash")
    assert rejected > 200
    assert caught_by_verify > 10


if __name__ == "__main__":
    main()
