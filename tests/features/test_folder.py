"""Features on disk: saves are atomic, other files are never replaced, and damage gives a clear error."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from nonneg.codes import dense as as_dense
from nonneg.durable import folder_lock
from nonneg.errors import InputError
from nonneg.features import Features, verify
from nonneg.manifest import with_checksum

HERE = Path(__file__).parent


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, str(HERE / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr[-2000:]}"
    return result.stdout


def test_existing_features_are_replaced_only_with_overwrite(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    other = Features(np.ones((2, 2), np.float32))
    with pytest.raises(InputError, match="overwrite=True"):
        other.save(folder)
    assert Features.load(folder).shape == (30, 6)
    other.save(folder, overwrite=True)
    assert Features.load(folder).shape == (2, 2)
    assert sorted(p.suffix for p in folder.iterdir()) == [".json", ".jsonl", ".npy"]  # the old arrays are removed


def test_a_folder_with_other_files_is_never_written_to(features, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex"):
        features.save(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        features.save(tmp_path / "thesis.tex", overwrite=True)


def test_the_meta_json_of_another_program_is_never_replaced(features, tmp_path):
    (tmp_path / "meta.json").write_text('{"my": "thesis"}')
    with pytest.raises(InputError, match=r"holds other files \(meta.json"):
        features.save(tmp_path, overwrite=True)
    assert (tmp_path / "meta.json").read_text() == '{"my": "thesis"}'


def test_a_damaged_features_folder_can_be_overwritten(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    (folder / "meta.json").write_text("{")
    with pytest.raises(InputError, match="overwrite=True"):
        features.save(folder)
    features.save(folder, overwrite=True)
    assert repr(verify(folder)) == repr(features)


def test_a_failed_save_leaves_the_old_features_and_no_temporary_files(features, tmp_path):
    import resource

    folder = features.save(tmp_path / "x.features")
    before = sorted(path.name for path in folder.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # fails like a full disk
    try:
        with pytest.raises(InputError, match="cannot be written: file too large"):
            Features(np.ones((2000, 6), np.float32), media=[b"x" * 900] * 2000).save(folder, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert repr(verify(folder)) == repr(features)


def test_a_failed_save_into_a_damaged_folder_removes_nothing(features, tmp_path):
    import resource

    folder = features.save(tmp_path / "x.features")
    (folder / "meta.json").write_text("{")
    payloads = {path.name for path in folder.iterdir() if "-" in path.name}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(InputError, match="cannot be written"):
            Features(np.ones((2000, 60), np.float32)).save(folder, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name for path in folder.iterdir() if "-" in path.name} == payloads


def test_loaded_features_stay_readable_after_their_replacement(features, tmp_path, dense):
    folder = features.save(tmp_path / "x.features")
    opened = Features.load(folder)
    Features(np.ones((2, 2), np.float32)).save(folder, overwrite=True)
    np.testing.assert_array_equal(as_dense(opened.codes), dense)


@pytest.mark.parametrize(
    "foreign", ["nothing", "empty", "a file", "not json", "nested", "another format", "newer", "altered", "pipe"]
)
def test_loading_anything_else_gives_an_error_in_one_line(foreign, features, tmp_path):
    folder = tmp_path / "x.features"
    if foreign == "a file":
        folder.write_text("x")
    elif foreign != "nothing":
        folder.mkdir()
    if foreign in ("newer", "altered"):
        features.save(folder)
        meta = json.loads((folder / "meta.json").read_text())
        meta["version" if foreign == "newer" else "label_names"] = "9\n9"
        (folder / "meta.json").write_text(json.dumps(meta))
    elif foreign == "pipe":
        os.mkfifo(folder / "meta.json")
    elif foreign in ("not json", "nested", "another format"):
        text = {"not json": "{", "nested": "[" * 100_000, "another format": '{"format": "other"}'}[foreign]
        (folder / "meta.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(str(folder))) as error:
        Features.load(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("files", {"codes": {"file": "../../secret.npy", "bytes": 1, "sha256": ""}}),
        ("shape", [30, 10**30]),
        ("shape", [30, -6]),
        ("shape", [30.0, 6]),
        ("shape", 7),
        ("label_names", [1, 2, 3]),
        ("layout", "coo"),
        ("files", {}),
    ],
)
def test_a_hostile_meta_with_a_valid_hash_is_rejected(field, value, features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    content = json.loads((folder / "meta.json").read_text())
    content.pop("sha256")
    content[field] = value
    (folder / "meta.json").write_bytes(with_checksum(content))
    with pytest.raises(InputError, match=r"meta\.json is damaged: its fields"):
        Features.load(folder)


def test_columns_that_no_file_holds_are_rejected(tmp_path):
    folder = Features(sp.csr_array(np.eye(3, dtype=np.float32))).save(tmp_path / "x.features")
    content = json.loads((folder / "meta.json").read_text())
    content.pop("sha256")
    content["shape"] = [3, 2**31 - 1]
    (folder / "meta.json").write_bytes(with_checksum(content))
    with pytest.raises(InputError, match=r"meta\.json is damaged"):
        Features.load(folder)
    with pytest.raises(InputError, match="features are 2,147,483,647"):
        Features(sp.csr_array((3, 2**31 - 1), dtype=np.float32)).save(tmp_path / "y.features")
    assert not (tmp_path / "y.features").exists()


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_the_meta_json_is_not_waited_for(features, tmp_path):
    os.mkfifo(tmp_path / "meta.json")
    with pytest.raises(InputError, match="overwrite=True"):
        features.save(tmp_path)


def test_a_compressed_table_of_samples_is_rejected_before_it_takes_memory(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    meta = json.loads((folder / "meta.json").read_text())
    meta.pop("sha256")
    entry = meta["files"]["samples"]
    row = pa.table({"text": pa.array(["x" * 2_000_000], pa.large_string())})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(folder / entry["file"]), "wb") as file,
        pa.ipc.new_file(file, row.schema, options=options) as new,
    ):
        new.write_table(pa.concat_tables([row] * 30))  # 60 MB, of which only 2 MB are in memory now
    entry["bytes"] = (folder / entry["file"]).stat().st_size
    assert entry["bytes"] < 100_000
    (folder / "meta.json").write_bytes(with_checksum(meta))
    peak = pa.default_memory_pool().max_memory()
    with pytest.raises(InputError, match=f"{entry['file']} is damaged: .*compressed"):
        Features.load(folder)
    assert pa.default_memory_pool().max_memory() == peak


def test_a_second_writer_is_rejected(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    with folder_lock(folder), pytest.raises(InputError, match=f"{folder} is being written"):
        features.save(folder, overwrite=True)


@pytest.mark.parametrize("seed", ["0", "1"])
def test_damage_gives_an_error_and_never_a_crash(seed):
    assert "rejected" in run_script("damage.py", seed)


def test_a_million_rows_open_in_a_second_and_in_little_memory(tmp_path):
    rows, features, active = 1_000_000, 1024, 32
    rng = np.random.default_rng(0)
    columns = np.arange(active, dtype=np.int32) * (features // active) + rng.integers(0, 32, (rows, active), np.int32)
    codes = sp.csr_array(
        (np.ones(rows * active, np.float32), columns.ravel(), np.arange(rows + 1, dtype=np.int32) * active),
        shape=(rows, features),
    )
    Features(codes, ids=[str(i) for i in range(rows)], labels=np.zeros(rows, int)).save(tmp_path / "big.features")
    program = """
import re, sys, time
from nonneg.features import Features
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before, start = anonymous(), time.perf_counter()
features = Features.load(sys.argv[1])
seconds = time.perf_counter() - start
print(seconds, anonymous() - before, features.id(999_999))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "big.features")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert float(out[0]) < 1
    assert float(out[1]) < 50
    assert out[2] == "999999"
