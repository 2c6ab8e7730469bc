"""Vectors and columns in files of every format."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import save_file

from nonneg import InputError
from nonneg.durable import check_regular_file, read_bounded
from nonneg.tables import arrow_vectors, ids_within, open_vectors, read_column

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))


ARROW = ("arrow", "arrow stream", "feather")


def written(kind, folder):
    path = folder / f"v.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        np.savez(path, vectors=X, label=np.arange(20))
    elif kind == "safetensors":
        save_file({"vectors": torch.from_numpy(X)}, path)
    elif kind == "csv":
        rows = [f"n{i}," + ",".join(map(repr, map(float, row))) for i, row in enumerate(X)]
        path.write_text("id,a,b,c\n" + "\n".join(rows))
    else:
        lists = pa.array(list(X), pa.list_(pa.float32(), 3) if kind == "parquet" else pa.list_(pa.float32()))
        table = pa.table({"id": [str(i) for i in range(20)], "vectors": lists})
        if kind.startswith("parquet"):
            path = path.with_suffix(".parquet")
            pq.write_table(table, path, row_group_size=6)
        elif kind == "feather":  # compressed
            feather.write_feather(table, path, chunksize=6)
        else:
            path = path.with_suffix(".arrow")
            with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=6)
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "csv", "parquet", "parquet of lists", *ARROW])
def test_vectors_are_read_from_every_format(kind, tmp_path):
    path = written(kind, tmp_path)
    np.testing.assert_allclose(open_vectors(str(path)), X, rtol=1e-6)
    if kind not in ("npy", "csv"):
        np.testing.assert_allclose(open_vectors(f"{path}:vectors"), X, rtol=1e-6)
        with pytest.raises(InputError, match=r"v\..*'nothing'"):
            open_vectors(f"{path}:nothing")


def as_table(kind, path, columns):
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in [columns, *rows]))
    elif kind == "parquet":
        pq.write_table(pa.table(columns), path, row_group_size=6)
    else:
        feather.write_feather(pa.table(columns), path, chunksize=6)


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_columns_that_are_read_beside_the_vectors_are_no_part_of_them(kind, tmp_path):
    path = tmp_path / f"v.{kind}"
    columns = {"a": X[:, 0], "label": np.arange(20), "b": X[:, 1], "text": list(map(str, "abcdefghijklmnopqrst"))}
    as_table(kind, path, {"id": [f"n{i}" for i in range(20)], **columns})
    read = open_vectors(str(path), beside=[f"{path}:label", None, f"{path}:4", "other.csv:a"])
    np.testing.assert_allclose(read, X[:, :2], rtol=1e-6)
    assert ids_within(str(path)) == f"{path}:id"
    with pytest.raises(InputError, match="column text, holds string"):
        open_vectors(str(path), beside=[f"{path}:label"])


def test_numbers_in_columns_of_parquet_are_read_as_those_of_csv(tmp_path):
    index = pd.MultiIndex.from_product([range(4), range(5)])
    for some in (np.arange(20)[::-1], index):
        pd.DataFrame(X, index=some, columns=list("abc")).to_parquet(tmp_path / "v.parquet")
        np.testing.assert_array_equal(open_vectors(f"{tmp_path}/v.parquet"), X)
    pd.DataFrame({"label": X[:, 0]}, index=index).to_parquet(tmp_path / "y.parquet")
    np.testing.assert_array_equal(read_column(f"{tmp_path}/y.parquet"), X[:, 0])
    with pytest.raises(InputError, match=r"v\.parquet .*'a' names no column of vectors"):
        open_vectors(f"{tmp_path}/v.parquet:a")


def test_large_formats_are_memory_mapped(tmp_path):
    for kind in ("npy", "parquet"):
        assert isinstance(open_vectors(str(written(kind, tmp_path))), np.memmap)


def test_a_changed_parquet_file_is_read_again(tmp_path):
    path = written("parquet", tmp_path)
    open_vectors(str(path))
    pq.write_table(pa.table({"vectors": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))}), path)
    assert open_vectors(str(path)).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("content", [b"", b"not an array", None])
def test_a_damaged_copy_in_the_cache_is_made_again(content, tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    path = written("parquet", tmp_path)
    open_vectors(str(path))
    (copy,) = (tmp_path / "cache").rglob("*.npy")
    copy.write_bytes(copy.read_bytes()[:-9] if content is None else content)
    np.testing.assert_allclose(open_vectors(str(path)), X, rtol=1e-6)


def test_columns_are_read_from_every_format(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.csv").write_text('3,"x, y"\n4,"z\nz"\n')
    np.save(tmp_path / "c.npy", np.array([5, 6]))
    pq.write_table(pa.table({"d": ["p", "q"]}), tmp_path / "d.parquet")
    assert read_column(f"{tmp_path}/a.txt").tolist() == ["one", "two"]
    assert read_column(f"{tmp_path}/b.csv:1").tolist() == ["x, y", "z\nz"]
    assert read_column(f"{tmp_path}/b.csv:0").tolist() == [3, 4]
    assert read_column(f"{tmp_path}/c.npy").tolist() == [5, 6]
    assert read_column(f"{tmp_path}/d.parquet").tolist() == ["p", "q"]


def error_of(path):
    with pytest.raises(InputError) as error:
        open_vectors(str(path))
    return str(error.value)


def test_unusable_files_are_named_with_the_reason(tmp_path):
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "pickled Python objects" in error_of(tmp_path / "pickled.npy")
    np.save(tmp_path / "flat.npy", np.arange(5))
    assert "shape (5,)" in error_of(tmp_path / "flat.npy")
    np.savez(tmp_path / "two.npz", a=X, b=X)
    assert "(a, b)" in error_of(tmp_path / "two.npz")
    for kind in ("npy", "npz"):
        (tmp_path / f"plain.{kind}").write_text("1 2 3\n")
        assert f"not a .{kind} file" in error_of(tmp_path / f"plain.{kind}")
        whole = written(kind, tmp_path).read_bytes()
        for length in (40, len(whole) - 20):
            (tmp_path / f"cut.{kind}").write_bytes(whole[:length])
            assert "truncated" in error_of(tmp_path / f"cut.{kind}")
    for kind in ("npy", "npz", "safetensors", "parquet"):
        (tmp_path / f"broken.{kind}").write_bytes(b"not at all")
        assert f"broken.{kind} cannot be read" in error_of(tmp_path / f"broken.{kind}")
    (tmp_path / "words.csv").write_text("a,b\n1,x\n2,y\n")
    assert "column b, holds string" in error_of(tmp_path / "words.csv")
    (tmp_path / "gaps.csv").write_text("a,b\n1,2\n3,\n")
    assert "column b, is empty in row 1" in error_of(tmp_path / "gaps.csv")
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "no.parquet")
    assert "no.parquet, column b, holds string" in error_of(tmp_path / "no.parquet")
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "ids.parquet")
    assert "ids.parquet has no column of vectors besides id" in error_of(tmp_path / "ids.parquet")
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(X))
    assert "sparse.npz holds a SciPy sparse matrix, expected a dense array" in error_of(tmp_path / "sparse.npz")
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]]}), tmp_path / "ragged.parquet")
    assert "row 1, has 1 number, expected 2" in error_of(tmp_path / "ragged.parquet")
    pq.write_table(pa.table({"v": [[1.0], [2.0], [3.0], None]}), tmp_path / "gap.parquet", row_group_size=2)
    assert "gap.parquet, row 3, is missing" in error_of(tmp_path / "gap.parquet")
    (tmp_path / "empty.csv").write_text("")
    assert "empty.csv is empty" in error_of(tmp_path / "empty.csv")
    for header in ("a,b", "a,b\n", "a"):
        (tmp_path / "header.csv").write_text(header)
        assert "header.csv has only a header" in error_of(tmp_path / "header.csv")
    assert "no such file" in error_of(tmp_path / "absent.npy")
    assert "is a folder" in error_of(tmp_path)
    (tmp_path / "a.xyz").write_text("1")
    assert "suffix '.xyz'" in error_of(tmp_path / "a.xyz")


def test_arrow_columns_with_missing_values_are_rejected():
    with pytest.raises(InputError, match="row 1, is missing"):
        arrow_vectors(pa.array([[1.0], None]))
    with pytest.raises(InputError, match="row 2, is missing"):
        arrow_vectors(pa.chunked_array([[[1.0], [2.0]], [None, [1.0]]]))
    with pytest.raises(InputError, match="missing numbers"):
        arrow_vectors(pa.array([[1.0], [None]]))
    with pytest.raises(InputError, match="expected lists of numbers"):
        arrow_vectors(pa.array(["a"]))


@pytest.mark.parametrize("given", ["v.npy:zz", "v.npy:0", "v.csv:a"])
def test_naming_an_array_in_a_file_that_holds_only_one_is_an_error(given, tmp_path):
    written(given.split(":")[0][2:], tmp_path)
    with pytest.raises(InputError, match=f"name {given.split(':')[1]!r}"):
        open_vectors(f"{tmp_path}/{given}")
    (tmp_path / "y.txt").write_text("a\n")
    np.save(tmp_path / "y.npy", np.arange(3))
    for other in ("y.txt:0", "y.npy:3"):
        with pytest.raises(InputError, match=f"name {other[-1]!r}"):
            read_column(f"{tmp_path}/{other}")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"\xef\xbb\xbfone\ntwo", ["one", "two"]),
        (b"one\n\ntwo\n\n", ["one", "", "two", ""]),
        ("é\x0bü\u2028\n".encode(), ["é\x0bü\u2028"]),
        (b"", []),
    ],
)
def test_lines_are_split_at_line_ends_only(written, expected, tmp_path):
    (tmp_path / "a.txt").write_bytes(written)
    assert read_column(f"{tmp_path}/a.txt").tolist() == expected


@pytest.mark.parametrize("kind", ["txt", "csv"])
def test_text_that_is_not_utf8_is_named_by_line(kind, tmp_path):
    (tmp_path / f"a.{kind}").write_bytes("words\nüber\n".encode() + "für\n".encode("latin-1"))
    with pytest.raises(InputError, match=rf"a\.{kind}, line 3, .*0xfc"):
        read_column(f"{tmp_path}/a.{kind}")


@pytest.mark.parametrize(
    ("header", "has_index"),
    [("0,1,2", False), (",0,1,2", True), ('"","a","b","c"', True), ("a,b,c", False), ("\n\na,b,c", False)],
)
def test_headers_are_recognised(header, has_index, tmp_path):
    rows = [",".join(map(repr, map(float, row))) for row in X]
    lines = [f"{100 + i},{row}" for i, row in enumerate(rows)] if has_index else rows
    (tmp_path / "v.csv").write_text("\n".join([header, *lines]))
    np.testing.assert_allclose(open_vectors(f"{tmp_path}/v.csv"), X, rtol=1e-6)


def test_numbers_that_do_not_count_the_columns_are_values(tmp_path):
    for first in ("1,2,3", "0,2,1", "0.0,1.0,2.0"):
        (tmp_path / "v.csv").write_text(f"{first}\n4,5,6\n")
        assert open_vectors(f"{tmp_path}/v.csv").tolist() == [[float(cell) for cell in first.split(",")], [4, 5, 6]]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("cat\ndog\ncat\n", ["cat", "dog", "cat"]),  # a repeated word is not a header
        ("kind\ncat\ndog\n", ["cat", "dog"]),
        ("kind\ncat\n\ndog\n", ["cat", "", "dog"]),  # an empty line is an empty value
        ("\ncat\ndog\n", ["", "cat", "dog"]),
        (",kind\n0,cat\n1,dog\n", ["cat", "dog"]),  # the index holds no values
        (",0\n0,cat\n1,dog\n", ["cat", "dog"]),
        ("3\n4\n", [3, 4]),
        ("0\n1\n0\n", [0, 1, 0]),
        ('a,a\n"x, y",2\n', None),
    ],
)
def test_columns_of_csv(written, expected, tmp_path):
    (tmp_path / "c.csv").write_text(written)
    if expected is None:
        assert [read_column(f"{tmp_path}/c.csv:{i}").tolist() for i in ("0", "1", "a")] == [["x, y"], [2], ["x, y"]]
    else:
        assert read_column(f"{tmp_path}/c.csv").tolist() == expected


def test_missing_numbers_in_csv_are_nan(tmp_path):
    (tmp_path / "c.csv").write_text("kind\n3\n\n4\n")
    np.testing.assert_array_equal(read_column(f"{tmp_path}/c.csv"), [3, np.nan, 4])


def test_as_text_keeps_values_as_written(tmp_path):
    (tmp_path / "c.csv").write_text("id\n007\n1e5\ntrue\n")
    assert read_column(f"{tmp_path}/c.csv", as_text=True).tolist() == ["007", "1e5", "true"]


def test_a_wrong_number_of_rows_explains_how_the_first_line_was_read(tmp_path):
    (tmp_path / "c.csv").write_text("cat\ndog\n")
    with pytest.raises(InputError, match=r"c\.csv has 1 row, where line 1 \('cat'\) .*the header, expected 2"):
        read_column(f"{tmp_path}/c.csv", 2)
    (tmp_path / "c.csv").write_text("0\n1\n2\n")
    with pytest.raises(InputError, match=r"c\.csv has 3 rows, where line 1 \('0'\) .*values"):
        read_column(f"{tmp_path}/c.csv", 2)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"a\.txt has 0 rows, expected 1, .*v\.npy"):
        read_column(f"{tmp_path}/a.txt", 1, "v.npy")


def test_only_csv_files_hold_ids_of_their_own(tmp_path):
    path = written("csv", tmp_path)
    assert read_column(ids_within(str(path))).tolist() == [f"n{i}" for i in range(20)]
    assert ids_within(str(written("npy", tmp_path))) is None
    (tmp_path / "bare.csv").write_text("1,2\n3,4\n")
    assert ids_within(f"{tmp_path}/bare.csv") is None


def test_bytes_are_decoded(tmp_path):
    np.save(tmp_path / "b.npy", np.char.encode(np.array(["ä", "b"]), "utf-8"))
    pq.write_table(pa.table({"b": pa.array(["ä".encode(), None])}), tmp_path / "b.parquet")
    assert read_column(f"{tmp_path}/b.npy").tolist() == ["ä", "b"]
    assert read_column(f"{tmp_path}/b.parquet").tolist() == ["ä", None]
    np.save(tmp_path / "b.npy", np.array([b"a", b"\xff"]))
    with pytest.raises(InputError, match=r"b\.npy, row 1, .*bytes"):
        read_column(f"{tmp_path}/b.npy")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_outside_the_range_of_float32_keep_their_direction(kind, tmp_path):
    rows = [[3e40, 4e40], [3e-50, 4e-50], [3.0, 4.0]]
    if kind == "csv":
        (tmp_path / "v.csv").write_text("\n".join(f"{a},{b}" for a, b in rows))
    else:
        pq.write_table(pa.table({"v": pa.array(rows, pa.list_(pa.float64()))}), tmp_path / "v.parquet")
    found = open_vectors(f"{tmp_path}/v.{kind}")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.75, 1], [0.75, 1], [3, 4]], rtol=1e-6)


def within_seconds(call):
    """Run a call in a thread; return its error, or fail if it is still waiting after ten seconds."""
    errors = []

    def run():
        with pytest.raises(InputError) as error:
            call()
        errors.append(str(error.value))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert errors, "it hangs"
    return errors[0]


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "csv", "parquet"])
def test_a_pipe_is_rejected_and_nothing_waits_for_it(kind, tmp_path):
    os.mkfifo(tmp_path / f"pipe.{kind}")
    assert "not a regular file" in within_seconds(lambda: open_vectors(f"{tmp_path}/pipe.{kind}"))
    if kind != "safetensors":
        assert "not a regular file" in within_seconds(lambda: read_column(f"{tmp_path}/pipe.{kind}"))


def test_pipes_and_devices_are_rejected_wherever_a_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zeros.txt").symlink_to("/dev/zero")
    assert "not a regular file" in within_seconds(lambda: ids_within(f"{tmp_path}/pipe.csv"))
    assert "not a regular file" in within_seconds(lambda: read_column(f"{tmp_path}/zeros.txt"))
    assert "/dev/zero" in within_seconds(lambda: read_bounded(Path("/dev/zero")))
    assert "is a folder" in within_seconds(lambda: check_regular_file(tmp_path))


@pytest.mark.parametrize("name", ["large.txt", "large.csv"])
def test_text_that_is_too_large_is_rejected_by_its_size(name, tmp_path):
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**40)  # takes no space on disk
    with pytest.raises(InputError, match=rf"{name} has 1,099,511,627,776 bytes"):
        read_column(f"{tmp_path}/{name}")
    (tmp_path / "small").write_bytes(b"abc")
    assert read_bounded(tmp_path / "small", 3) == b"abc"
    with pytest.raises(InputError, match=r"3 bytes, expected at most 2"):
        read_bounded(tmp_path / "small", 2)


def test_a_full_disk_is_reported_while_parquet_is_copied(tmp_path):
    (tmp_path / "cache").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path / "cache"], check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    pq.write_table(pa.table({"v": list(np.zeros((40_000, 16)))}), tmp_path / "v.parquet")
    program = "import sys; from nonneg.tables import open_vectors; open_vectors(sys.argv[1])"
    try:
        done = subprocess.run([sys.executable, "-c", program, tmp_path / "v.parquet"], capture_output=True, text=True)
    finally:
        subprocess.run(["umount", tmp_path / "cache"], check=True)
    assert "InputError" in done.stderr and "no space left" in done.stderr, done.returncode


@pytest.mark.parametrize("given", ["n" * 300, "n" * 300 + ":x", "a.npz:" + "9" * 5000, "a\0b.npy", "\ud800.npy"])
def test_a_name_that_no_file_can_have_is_an_error(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", a=X, b=X)
    with pytest.raises(InputError, match=given.partition(":")[0]):
        open_vectors(given)


def test_a_damaged_parquet_file_is_named(tmp_path):
    path, values = tmp_path / "v.parquet", np.random.default_rng(0).integers(0, 9, 100_000)
    pq.write_table(pa.table({"v": pa.array(list(values.reshape(-1, 4).astype(np.float64))), "l": values[::4]}), path)
    content = bytearray(path.read_bytes())
    for place in range(100, len(content) - 5000, 50):
        content[place] ^= 255
    path.write_bytes(content)
    for read in (open_vectors, lambda given: read_column(f"{given}:l")):
        with pytest.raises(InputError, match=r"v\.parquet cannot be read as Parquet"):
            read(str(path))
    assert [file.name for file in (tmp_path / "cache" / "vectors").iterdir()] == [".lock"]


def test_a_csv_file_may_hold_long_texts(tmp_path):
    (tmp_path / "t.csv").write_text(f"id,text\n1,{'x' * 3_000_000}\n2,short\n")
    assert list(map(len, read_column(f"{tmp_path}/t.csv:text"))) == [3_000_000, 5]


def test_an_array_of_one_dimension_is_a_vector_only_on_request(tmp_path):
    np.save(tmp_path / "one.npy", X[0])
    assert open_vectors(f"{tmp_path}/one.npy", one=True).tolist() == [X[0].tolist()]
    with pytest.raises(InputError, match=r"one\.npy .*\(3,\)"):
        open_vectors(f"{tmp_path}/one.npy")


@pytest.mark.parametrize("kind", ARROW)
def test_columns_of_arrow_files_are_read_and_damaged_files_are_named(kind, tmp_path):
    path = written(kind, tmp_path)
    assert read_column(f"{path}:id").tolist() == [str(i) for i in range(20)]
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"no Arrow at all" * 100):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"v{path.suffix}"):
            open_vectors(str(path))
