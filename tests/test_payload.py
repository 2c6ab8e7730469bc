"""Arrays and tables in files: what was written is read back, and damaged or hostile files are rejected cheaply."""

import io
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from nonneg.errors import InputError
from nonneg.payload import checked_content, open_array, open_table, write_array, write_table

COLUMNS = {"id": pa.string(), "text": pa.large_string()}


def write_arrow(path, table, **options):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, **options) as writer:
        writer.write_table(table)
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": ""}


@pytest.mark.parametrize("rows", [0, 1, 200_000])
def test_a_table_is_read_back(rows, tmp_path):
    table = pa.table({"id": [str(i) for i in range(rows)], "text": pa.array([None] * rows, pa.large_string())})
    entry = write_table(tmp_path, "samples", table.cast(pa.schema(COLUMNS)))
    assert open_table(tmp_path, entry, COLUMNS, rows).to_pydict() == table.to_pydict()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_table_is_rejected_before_it_is_decompressed(compression, tmp_path):
    table = pa.concat_tables([pa.table({"id": ["x" * 1_000_000]})] * 50)  # 50 MB, of which only 1 MB is in memory now
    entry = write_arrow(tmp_path / "a", table, options=pa.ipc.IpcWriteOptions(compression=compression))
    before = pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()
    with pytest.raises(InputError, match=r"/a is damaged: .*compressed"):
        open_table(tmp_path, entry, COLUMNS, 50)
    assert (pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()) == before


def first_batch(content):
    """The position of the footer's 24 bytes about the first of the file's record batches."""
    footer = len(content) - 10 - int.from_bytes(content[-10:-6], "little")
    messages = [match.start() for match in re.finditer(b"\xff\xff\xff\xff", content) if match.start() % 8 == 0]
    return content.index(messages[1].to_bytes(8, "little"), footer)  # the first message is the schema


def test_record_batches_that_share_their_bytes_are_rejected(tmp_path):
    path = tmp_path / "a"
    entry = write_arrow(path, pa.concat_tables([pa.table({"id": [text]}) for text in ("x" * 10_000, "y", "z")]))
    content = path.read_bytes()
    place = first_batch(content)
    path.write_bytes(content[: place + 24] + content[place : place + 24] * 2 + content[place + 72 :])
    assert pa.ipc.open_file(path).read_all()["id"].to_pylist() == ["x" * 10_000] * 3
    with pytest.raises(InputError, match=r"/a is damaged: .*share"):
        open_table(tmp_path, entry, COLUMNS, 3)


@pytest.mark.parametrize("offset", [2**63 - 1, 2**40, -(2**40), -(2**63)])
def test_a_record_batch_outside_the_file_is_rejected(offset, tmp_path):
    path = tmp_path / "a"
    entry = write_arrow(path, pa.table({"id": ["x"]}))
    content = path.read_bytes()
    place = first_batch(content)
    path.write_bytes(content[:place] + offset.to_bytes(8, "little", signed=True) + content[place + 8 :])
    with pytest.raises(InputError, match="/a is damaged"):
        open_table(tmp_path, entry, COLUMNS, 1)


def test_a_table_of_other_columns_or_rows_is_rejected(tmp_path):
    entry = write_arrow(tmp_path / "a", pa.table({"id": ["x"]}))
    with pytest.raises(InputError, match=r"1 rows .*expected 2"):
        open_table(tmp_path, entry, COLUMNS, 2)
    with pytest.raises(InputError, match=r"id \(string\), expected text"):
        open_table(tmp_path, entry, {"text": pa.large_string()}, 1)
    entry = write_arrow(tmp_path / "b", pa.table([pa.array(["x"])] * 2, names=["id", "id"]))
    with pytest.raises(InputError, match=r"id \(string\), id \(string\)"):
        open_table(tmp_path, entry, COLUMNS, 1)
    entry = write_arrow(tmp_path / "c", pa.table({"id": pa.array(["x"]).dictionary_encode()}))
    with pytest.raises(InputError, match="dictionary"):
        open_table(tmp_path, entry, COLUMNS, 1)


def test_none_in_a_shape_matches_any_length(tmp_path):
    entry = write_array(tmp_path, "pixels", np.zeros((2, 3, 4), np.uint8))
    assert open_array(tmp_path, entry, ("uint8",), (2, None, 4)).shape == (2, 3, 4)
    for shape in [(2, None), (3, None, 4), (2, None, 4, None)]:
        with pytest.raises(InputError, match=r"shape \(2, 3, 4\), expected uint8 of shape"):
            open_array(tmp_path, entry, ("uint8",), shape)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("<U50000000", (3,)), ("<U50000000", ()), ("<U50000000", (0,)), ("<i8", (10**12,)), ("|O", (3,))],
)
def test_an_array_that_claims_to_be_larger_than_its_file_costs_no_memory(dtype, shape, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    (tmp_path / "a").write_bytes(header.getvalue() + bytes(24))
    program = """
import sys, resource
from pathlib import Path
from nonneg.errors import InputError
from nonneg.payload import open_array
resource.setrlimit(resource.RLIMIT_DATA, (2**29, 2**29))
try:
    open_array(Path(sys.argv[1]), {"file": "a", "bytes": int(sys.argv[2])}, ("int64",), (3,))
except InputError as error:
    print(error)
"""
    size = (tmp_path / "a").stat().st_size
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path), str(size)], capture_output=True, text=True)
    assert "/a is damaged" in done.stdout, done.stderr


def test_a_changed_byte_is_found_by_the_hash(tmp_path):
    entry = write_array(tmp_path, "codes", np.zeros(8, np.float32))
    assert checked_content(tmp_path, entry).name == entry["file"]
    with (tmp_path / entry["file"]).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(InputError, match=f"{entry['file']} is damaged: .*SHA-256"):
        checked_content(tmp_path, entry)
