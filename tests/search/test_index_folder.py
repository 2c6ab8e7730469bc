"""An index on disk: whole or not at all, one writer, many readers, damage said in one sentence."""

import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from nonneg import Features, InputError
from nonneg.features import journal
from nonneg.payload import single_writer
from nonneg.search import Index
from tests.search.parity import check

HERE = Path(__file__).parent


@pytest.fixture
def folder(features, tmp_path):
    return Index.build(features).save(tmp_path / "x.index")


def test_a_kill_leaves_the_old_index_or_the_new_one():
    done = subprocess.run([sys.executable, HERE / "kill_during_change.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_second_writer_is_refused(folder, codes):
    first, second = Index.open(folder), Index.open(folder)
    with single_writer(folder), pytest.raises(InputError, match="is being written by another process; try again"):
        second.add(codes[:1], ["a"])
    second.add(codes[:1], ["a"])
    first.add(codes[:1], ["b"])  # opened before the other's change, which stays
    assert Index.open(folder).ids([300, 301]) == ["a", "b"] and first.row("a") == 300


def test_a_writer_of_an_index_that_was_replaced_is_refused(folder, codes):
    writer = Index.open(folder)
    Index.build(Features(codes[:5])).save(folder, overwrite=True)
    with pytest.raises(InputError, match="was replaced by another index since it was opened; open it again"):
        writer.add(codes[:1], ["a"])
    assert len(Index.open(folder)) == 5


def test_readers_keep_what_they_opened(folder, codes, queries, features):
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
            except Exception as error:  # whatever it is, the test fails by it
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


def test_it_remembers_the_features_it_was_built_from(features, folder, tmp_path):
    assert Index.open(folder).fingerprint == journal(features.save(tmp_path / "x.features")).codes
    other = Features(features.codes * 2)
    assert Index.build(other).fingerprint != Index.open(folder).fingerprint


def test_damage_is_said_in_one_sentence_or_harmless(folder, tmp_path, queries):
    rng, refused, caught = random.Random(0), 0, 0
    for _ in range(150):
        bad = tmp_path / "bad.index"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(folder, bad)
        path = rng.choice(sorted(p for p in bad.iterdir() if p.name != ".lock"))
        content = bytearray(path.read_bytes())
        place = rng.randrange(len(content))
        if rng.random() < 0.3:
            content = content[:place]
        else:
            content[place] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            index = Index.open(bad)
            index.query(queries, 300)
            index.ids(range(300))
            with pytest.raises(InputError, match="is damaged: it is not what was saved"):
                index.verify()
            caught += 1
        except InputError as error:
            assert str(bad) in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 30 and caught > 10


def test_a_damaged_index_can_be_built_anew(folder, features, codes, queries):
    (folder / "meta.json").write_text("{")
    with pytest.raises(InputError, match=r"meta\.json is damaged: it is not JSON"):
        Index.open(folder)
    Index.build(features).save(folder, overwrite=True)
    check(Index.open(folder), codes, queries)


def test_a_damaged_file_of_seismic_is_not_given_to_it(features, tmp_path):
    pytest.importorskip("seismic")
    folder = Index.build(features, "seismic").save(tmp_path / "s.index")
    (path,) = folder.glob("*.seismic")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged: it is not what was saved"):
        Index.open(folder)


def test_milvus_lite_serves_one_process(features, tmp_path):
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


def test_other_peoples_files_are_left_alone(features, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\), expected an empty folder"):
        Index.build(features).save(theirs, overwrite=True)
    own = features.save(tmp_path / "x.features")
    with pytest.raises(InputError, match="holds other files"):
        Index.build(features).save(own, overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file is a file, expected a folder for the index"):
        Index.build(features).save(tmp_path / "file")
    folder = Index.build(features).save(tmp_path / "x.index")
    with pytest.raises(InputError, match="holds an index already; overwrite it"):
        Index.build(features).save(folder)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_what_is_no_index_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="is not an index: "):
        Index.open(tmp_path / name)


def test_values_can_be_found_only_where_they_are(folder):
    index = Index.open(folder)
    assert np.array_equal(index.code(5), index.code(6)) and not index.code(3).any()
