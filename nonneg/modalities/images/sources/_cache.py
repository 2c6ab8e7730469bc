"""The cache of decoded images: one array per collection, decoded once and then opened as a memory map.

A collection has a folder, named after what was opened, with one folder for each state of its content:

    <cache>/cifar10-jpeg-train-1c9f0e6d3b2a/   what was opened, its split and the image size
      .lock
      broken.txt                               images that cannot be decoded and why, if there are any
      5b0c2f6a9d417e83/                        a hash of the names, sizes and times of its files
        images.npy                             (samples, height, width, 3) uint8
        samples.json                           ids, labels, label names, skipped samples and why
        meta.json                              sizes and hashes of the other files; written last, as the commit
"""

import hashlib
import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.cache import cache_folder, locked, writing
from nonneg.durable import TEMPORARY_PREFIX, sealed, unsealed, write_atomically
from nonneg.errors import InputError
from nonneg.messages import one_sentence
from nonneg.modalities._source import Source
from nonneg.modalities.images.sources._build import IMAGES, PROGRESS, Work, build
from nonneg.modalities.images.sources._collection import Collection, Listing

# Part of the key: raise it when the files or the decoded pixels change.
_LAYOUT = 3
_META, _SAMPLES, _BROKEN = "meta.json", "samples.json", "broken.txt"
_NAMED_BROKEN = 5
_HASHED = 2**30  # bytes of images that are compared with their hash when they are opened, in less than a second


@dataclass(frozen=True)
class _Opened:
    source: Source
    broken: list[tuple[str, str]]  # id and reason


def open_cached(
    collection: Collection, image_size: int, skip_broken: bool, show_progress: bool, cache: Path | None
) -> Source:
    """Return the collection's images, from the cache if it has them."""
    place = cache_folder(cache) / _folder_name(collection, image_size)
    fingerprint = collection.fingerprint()
    folder = place / _digest(str(_LAYOUT), fingerprint)[:16]
    found = _open(folder)
    if found is None:
        with locked(place, show_progress):
            found = _open(folder)  # again: another process may have built it meanwhile
            if found is None:
                _build(collection, fingerprint, folder, image_size, skip_broken, show_progress)
                _remove_others(place, folder)
                found = _open(folder)
    if found is None:
        raise InputError(f"the image cache {folder} cannot be read back after writing it")
    listed = _list_broken(found.broken, place)
    if not skip_broken:
        _check_none_broken(found.broken, len(found.source) + len(found.broken), listed)
    return found.source


def _folder_name(collection: Collection, image_size: int) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", collection.title).strip("-.")[:60]
    return f"{readable}-{_digest(collection.place, str(image_size))[:12]}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _build(
    collection: Collection, fingerprint: str, folder: Path, image_size: int, skip_broken: bool, show_progress: bool
) -> None:
    listing = collection.listing()
    with writing(folder):
        if (folder / _META).exists():  # committed but damaged, otherwise it would have been opened
            shutil.rmtree(folder)
        folder.mkdir(exist_ok=True)
    work = build(collection, listing, folder, image_size, show_progress)
    if collection.fingerprint() != fingerprint:  # the decoded images may differ from the listed ones
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{collection.title} changed while it was read; try again")
    broken = [(listing.ids[number], reason) for number, reason in work.broken]
    # Without a commit the work is kept: with skip_broken the next call continues from here.
    if not skip_broken or not work.rows:
        _check_none_broken(broken, work.samples, _list_broken(broken, folder.parent), can_skip=bool(work.rows))
    with writing(folder):
        _commit(collection, listing, folder, work)


def _list_broken(broken: list[tuple[str, str]], place: Path) -> str:
    """Write all broken images to a file, one per line, and return where; without broken images, remove the file."""
    path = place / _BROKEN
    lines = "".join(f"{one_sentence(f'{name}: {reason}')}\n" for name, reason in broken).encode()
    try:
        if not broken:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_bytes() != lines:
            write_atomically(path, lines)
    except (OSError, InputError):  # a read-only cache
        return ""
    return f" (all are listed in {path})"


def _check_none_broken(broken: list[tuple[str, str]], samples: int, listed: str, can_skip: bool = True) -> None:
    if not broken:
        return
    named = ", ".join(f"{name} ({reason})" for name, reason in broken[:_NAMED_BROKEN])
    more = f" and {len(broken) - _NAMED_BROKEN:,} more{listed}" if len(broken) > _NAMED_BROKEN else ""
    advice = "; repair or remove them, or leave them out with --skip-broken" if can_skip else ", expected at least one"
    raise InputError(f"{len(broken):,} of {samples:,} images cannot be decoded: {named}{more}{advice}")


def _commit(collection: Collection, listing: Listing, folder: Path, work: Work) -> None:
    left_out = {number for number, _ in work.broken}
    kept = [number for number in range(len(listing.ids)) if number not in left_out]
    samples = {
        "ids": [listing.ids[number] for number in kept],
        "labels": None if listing.labels is None else [int(listing.labels[number]) for number in kept],
        "label_names": listing.label_names,
        "skipped": [(listing.ids[number], reason) for number, reason in work.broken],
    }
    encoded = json.dumps(samples).encode()
    write_atomically(folder / _SAMPLES, encoded)
    meta = {
        "made_by": "nonneg image cache",
        "name": listing.name,
        "data": collection.place.encode("utf-8", "replace").decode(),
        "shape": [work.rows, *work.shape],
        "bytes": (folder / IMAGES).stat().st_size,
        "skipped": len(work.broken),
        "samples_sha256": hashlib.sha256(encoded).hexdigest(),
        "images_sha256": _images_digest(folder),
    }
    for leftover in folder.glob(f"{TEMPORARY_PREFIX}*"):  # from interrupted writes
        leftover.unlink()
    write_atomically(folder / _META, json.dumps(sealed(meta), indent=1).encode())
    (folder / PROGRESS).unlink(missing_ok=True)


def _open(folder: Path) -> _Opened | None:
    """Return the content of a cache folder, or None if it is missing or damaged."""
    try:
        meta = unsealed(json.loads((folder / _META).read_bytes()))
        encoded = (folder / _SAMPLES).read_bytes()
        is_whole = (
            hashlib.sha256(encoded).hexdigest() == meta["samples_sha256"]
            and (folder / IMAGES).stat().st_size == meta["bytes"]
            and meta.get("images_sha256") in (None, _images_digest(folder))
        )
        images: Any = np.load(folder / IMAGES, mmap_mode="r", allow_pickle=False)
        if not is_whole or images.dtype != np.uint8 or list(images.shape) != meta["shape"]:
            return None
        samples = json.loads(encoded)
        labels = samples["labels"]
        skipped = [(name, reason) for name, reason in samples["skipped"]]
        source = Source(
            meta["name"],
            images,
            tuple(samples["ids"]),
            None if labels is None else np.array(labels, np.int64),
            tuple(samples["label_names"]),
            skipped=tuple(name for name, _ in skipped),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
    return _Opened(source, skipped)


def _images_digest(folder: Path) -> str | None:
    """Return the hash of the images; None if there are too many."""
    if (folder / IMAGES).stat().st_size > _HASHED:
        return None
    with (folder / IMAGES).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_others(place: Path, current: Path) -> None:
    """Remove caches of earlier states of the data; processes that have one open keep it until they close it."""
    with suppress(OSError):
        for path in place.iterdir():
            if path.is_dir() and path != current:
                shutil.rmtree(path, ignore_errors=True)
