"""An index on disk: atomic changes, one writer, many readers, damage reported in one sentence."""

import json
import random
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError
from nonneg.durable import folder_lock
from nonneg.features import journal
from nonneg.manifest import with_checksum
from nonneg.search import Index, index_folder, verify
from tests.search.parity import check


@pytest.fixture
def folder(features, tmp_path):
    return Index.build(features).save(tmp_path / "x.index")


def test_a_second_writer_is_an_error(folder, codes):
    first, second = Index.open(folder), Index.open(folder)
    with folder_lock(folder), pytest.raises(InputError, match="being written by another process"):
        second.add(codes[:1], ["a"])
    second.add(codes[:1], ["a"])
    first.add(codes[:1], ["b"])  # opened before the other's change, which must remain
    assert Index.open(folder).ids([300, 301]) == ["a", "b"] and first.row("a") == 300


def test_changing_an_index_that_was_replaced_is_an_error(folder, codes):
    writer = Index.open(folder)
    Index.build(Features(codes[:5])).save(folder, overwrite=True)
    with pytest.raises(InputError, match="was replaced by another index"):
        writer.add(codes[:1], ["a"])
    assert len(Index.open(folder)) == 5


def test_readers_keep_the_version_that_they_opened(folder, codes, queries, features):
    reader, writer = Index.open(folder), Index.open(folder)
    writer.delete([f"s{row}" for row in range(200)])
    writer.add(codes[:150], [f"n{row}" for row in range(150)])
    Index.build(Features(codes[:5])).save(folder, overwrite=True)
    check(reader, codes, queries)
    assert len(Index.open(folder)) == 5


def test_readers_open_while_a_writer_writes(folder, codes):
    stop, failures = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                index = Index.open(folder)
                assert len(index) >= 300 and index.query(codes[:1]).rows[0, 0] >= 0
            except Exception as error:  # any error fails the test
                failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    writer = Index.open(folder)
    for place in range(30):
        writer.add(codes[[0, 1]], [f"a{place}", f"b{place}"])
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures and len(Index.open(folder)) == 360


def test_the_fingerprint_identifies_the_features(features, folder, tmp_path):
    assert Index.open(folder).fingerprint == journal(features.save(tmp_path / "x.features")).codes
    other = Features(features.codes * 2)
    assert Index.build(other).fingerprint != Index.open(folder).fingerprint


def damage(path, rng):
    """Flip one bit of a file, or cut it short."""
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content))
    if rng.random() < 0.3:
        content = content[:place]
    else:
        content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


@pytest.mark.parametrize("quantised", [False, True])
def test_every_damaged_byte_of_a_small_index_is_detected_when_it_is_opened(features, tmp_path, quantised):
    folder = Index.build(features, quantised=quantised).save(tmp_path / "x.index")
    with Index.open(folder) as index:
        index.delete(["s7"])
    rng, kinds = random.Random(0), set()
    for _ in range(100):
        bad = tmp_path / "bad.index"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(folder, bad)
        path = rng.choice(sorted(bad.iterdir()))
        damage(path, rng)
        kinds.add(path.name.split("-")[0])
        for opening in (Index.open, verify):
            with pytest.raises(InputError) as caught:
                opening(bad)
            assert str(bad) in str(caught.value) and "\n" not in str(caught.value)
    assert {"ids", "labels", "values", "places", "starts", "deleted"} <= kinds and ("scales" in kinds) == quantised


def test_verify_detects_damage_to_a_large_file(tmp_path):
    codes = np.tile(np.eye(4, dtype=np.float32), (600_000, 1))  # 9.6 MB of values
    folder = Index.build(Features(codes)).save(tmp_path / "x.index")
    verify(folder)
    (path,) = folder.glob("values-*")
    with path.open("r+b") as file:
        file.seek(5_000_000)
        file.write(b"\x01")
    Index.open(folder)  # a large file is not read when it is opened
    with pytest.raises(InputError, match=r"values-.*is damaged"):
        verify(folder)


@pytest.mark.parametrize("left", [[".lock"], [".lock", "values-0123456789abcdef.npy", ".nonneg-tmp-abc"]])
def test_an_interrupted_first_build_is_taken_over(features, tmp_path, left):
    folder = features.save(tmp_path / "x.features")
    (tmp_path / "x.index").mkdir()
    for name in left:
        (tmp_path / "x.index" / name).touch()
    out = index_folder(folder)
    verify(out)
    assert not {"values-0123456789abcdef.npy", ".nonneg-tmp-abc"} & {path.name for path in out.iterdir()}
    with pytest.raises(InputError, match=r"x\.index holds an index already"):
        index_folder(folder)


def test_a_damaged_index_can_be_replaced(folder, features, codes, queries):
    (folder / "meta.json").write_text("{")
    with pytest.raises(InputError, match=r"meta\.json is damaged"):
        Index.open(folder)
    Index.build(features).save(folder, overwrite=True)
    check(Index.open(folder), codes, queries)


def test_a_damaged_file_is_not_passed_to_seismic(features, tmp_path):
    pytest.importorskip("seismic")
    folder = Index.build(features, "seismic").save(tmp_path / "s.index")
    (path,) = folder.glob("*.seismic")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged.*SHA-256"):
        Index.open(folder)


def test_a_second_process_cannot_open_milvus_lite(features, tmp_path):
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    folder = tmp_path / "m.index"
    with Index.build(features, "milvus") as index:
        index.save(folder)
        code = (
            "import sys; from nonneg.search import Index; from nonneg import InputError\n"
            "try: Index.open(sys.argv[1])\n"
            "except InputError as error: print(error); sys.exit(2)"
        )
        other = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True)
    assert other.returncode == 2 and "another process has it open" in other.stdout


def test_other_files_are_never_overwritten(features, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"theirs holds other files \(thesis\.tex\)"):
        Index.build(features).save(theirs, overwrite=True)
    own = features.save(tmp_path / "x.features")
    with pytest.raises(InputError, match="holds other files"):
        Index.build(features).save(own, overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file is a file"):
        Index.build(features).save(tmp_path / "file")
    folder = Index.build(features).save(tmp_path / "x.index")
    with pytest.raises(InputError, match="holds an index already"):
        Index.build(features).save(folder)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_opening_something_else_is_an_error(name, tmp_path):
    with pytest.raises(InputError, match="does not hold an index: "):
        Index.open(tmp_path / name)


def test_codes_are_read_back(folder):
    index = Index.open(folder)
    assert np.array_equal(index.code(5), index.code(6)) and not index.code(3).any()


def claim(folder, change):
    """Change a folder's meta.json as somebody could who wants it to be read."""
    content = json.loads((folder / "meta.json").read_bytes())
    del content["sha256"]
    change(content)
    (folder / "meta.json").write_bytes(with_checksum(content))


def set_part(content, **fields):
    content["parts"][0].update(fields)


HOSTILE = {
    "rows beyond 31 bits": lambda content: content.update(parts=[{"rows": 2**31 - 1, "files": {}}] * 2000),
    "rows without files": lambda content: set_part(content, rows=2**31 - 1, files={}),
    "rows of tiny files": lambda content: set_part(content, rows=2**31 - 1),
    "the same files many times": lambda content: content.update(parts=content["parts"] * 20_000),
    "files that are never opened": lambda content: content.update(
        features=2**31 - 1, files={"more": {"file": "values-0123456789abcdef.npy", "bytes": 2**40, "sha256": ""}}
    ),
    "lists without rows": lambda content: content["parts"][0]["files"].pop("places"),
    "another engine": lambda content: content.update(engine="seismic"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_folder_that_claims_more_than_its_files_hold_is_damaged(features, tmp_path, change):
    folder = Index.build(Features(features.codes)).save(tmp_path / "x.index")
    claim(folder, change)
    for opening in (Index.open, verify):
        with pytest.raises(InputError, match=r"x\.index/.* is damaged"):
            opening(folder)


def test_rows_without_active_features_are_kept(tmp_path):
    codes = sp.csr_array((np.ones(1, np.float32), ([5], [2])), shape=(5_000_000, 3))
    folder = Index.build(Features(codes)).save(tmp_path / "x.index")
    index = Index.open(folder)
    assert len(index) == 5_000_000 and index.ids(index.query([0, 0, 1]).rows[0]) == ["5"]
    assert index.label(0) is None and index.row("4999999") == 4_999_999
