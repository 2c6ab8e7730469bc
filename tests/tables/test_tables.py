"""Vectors and columns in files of every kind."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from nonneg import InputError
from nonneg.tables import arrow_vectors, ids_within, open_vectors, read_column

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))


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
        path = path.with_suffix(".parquet")
        pq.write_table(pa.table({"id": [str(i) for i in range(20)], "vectors": lists}), path, row_group_size=6)
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "csv", "parquet", "parquet of lists"])
def test_vectors_are_read(kind, tmp_path):
    path = written(kind, tmp_path)
    np.testing.assert_allclose(open_vectors(str(path)), X, rtol=1e-6)
    if kind not in ("npy", "csv"):
        np.testing.assert_allclose(open_vectors(f"{path}:vectors"), X, rtol=1e-6)
        with pytest.raises(InputError, match=r"has no .* 'nothing', expected one of"):
            open_vectors(f"{path}:nothing")


def test_what_is_large_is_memory_mapped(tmp_path):
    for kind in ("npy", "parquet"):
        assert isinstance(open_vectors(str(written(kind, tmp_path))), np.memmap)


def test_a_changed_parquet_file_is_read_again(tmp_path):
    path = written("parquet", tmp_path)
    open_vectors(str(path))
    pq.write_table(pa.table({"vectors": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))}), path)
    assert open_vectors(str(path)).tolist() == [[1.0, 2.0]]


def test_columns_are_read(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.csv").write_text('3,"x, y"\n4,"z\nz"\n')
    np.save(tmp_path / "c.npy", np.array([5, 6]))
    pq.write_table(pa.table({"d": ["p", "q"]}), tmp_path / "d.parquet")
    assert read_column(f"{tmp_path}/a.txt").tolist() == ["one", "two"]
    assert read_column(f"{tmp_path}/b.csv:1").tolist() == ["x, y", "z\nz"]
    assert read_column(f"{tmp_path}/b.csv:0").tolist() == [3, 4]
    assert read_column(f"{tmp_path}/c.npy").tolist() == [5, 6]
    assert read_column(f"{tmp_path}/d.parquet").tolist() == ["p", "q"]


def refusal(path):
    with pytest.raises(InputError) as error:
        open_vectors(str(path))
    return str(error.value)


def test_files_that_cannot_be_used_are_named(tmp_path):
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "pickled Python objects, which can run code" in refusal(tmp_path / "pickled.npy")
    np.save(tmp_path / "flat.npy", np.arange(5))
    assert "int64 of shape (5,), expected numbers (rows, width)" in refusal(tmp_path / "flat.npy")
    np.savez(tmp_path / "two.npz", a=X, b=X)
    assert "has several arrays (a, b), expected one to be named" in refusal(tmp_path / "two.npz")
    for kind in ("npy", "npz"):
        (tmp_path / f"plain.{kind}").write_text("1 2 3\n")
        assert f"it is no .{kind} file, expected one that NumPy has saved" in refusal(tmp_path / f"plain.{kind}")
        whole = written(kind, tmp_path).read_bytes()
        for length in (40, len(whole) - 20):
            (tmp_path / f"cut.{kind}").write_bytes(whole[:length])
            assert "it is cut short, expected the whole file" in refusal(tmp_path / f"cut.{kind}")
    for kind in ("npy", "npz", "safetensors", "parquet"):
        (tmp_path / f"broken.{kind}").write_bytes(b"not at all")
        assert f"broken.{kind} cannot be read" in refusal(tmp_path / f"broken.{kind}")
    (tmp_path / "words.csv").write_text("a,b\n1,x\n2,y\n")
    assert "column b, holds string" in refusal(tmp_path / "words.csv")
    (tmp_path / "gaps.csv").write_text("a,b\n1,2\n3,\n")
    assert "column b, is empty in row 1" in refusal(tmp_path / "gaps.csv")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "no.parquet")
    assert "has no column of vectors" in refusal(tmp_path / "no.parquet")
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]]}), tmp_path / "ragged.parquet")
    assert "row 1, has 1 numbers, expected 2" in refusal(tmp_path / "ragged.parquet")
    assert "no such file" in refusal(tmp_path / "absent.npy")
    assert "is a folder" in refusal(tmp_path)
    (tmp_path / "a.xyz").write_text("1")
    assert "no known kind of vectors" in refusal(tmp_path / "a.xyz")


def test_arrow_columns_with_holes_are_refused():
    with pytest.raises(InputError, match="row 1, is missing"):
        arrow_vectors(pa.array([[1.0], None]))
    with pytest.raises(InputError, match="missing numbers within"):
        arrow_vectors(pa.array([[1.0], [None]]))
    with pytest.raises(InputError, match="expected lists of numbers"):
        arrow_vectors(pa.array(["a"]))


@pytest.mark.parametrize("given", ["v.npy:zz", "v.npy:0", "v.csv:a"])
def test_a_name_where_there_is_nothing_to_name_is_refused(given, tmp_path):
    written(given.split(":")[0][2:], tmp_path)
    with pytest.raises(InputError, match=f"{given.split(':')[1]!r} was named in it, expected .* alone"):
        open_vectors(f"{tmp_path}/{given}")
    (tmp_path / "y.txt").write_text("a\n")
    np.save(tmp_path / "y.npy", np.arange(3))
    for other in ("y.txt:0", "y.npy:3"):
        with pytest.raises(InputError, match="was named in it"):
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
def test_lines_are_what_stands_between_line_ends(written, expected, tmp_path):
    (tmp_path / "a.txt").write_bytes(written)
    assert read_column(f"{tmp_path}/a.txt").tolist() == expected


@pytest.mark.parametrize("kind", ["txt", "csv"])
def test_text_that_is_not_utf8_is_named_by_its_line(kind, tmp_path):
    (tmp_path / f"a.{kind}").write_bytes("words\nüber\n".encode() + "für\n".encode("latin-1"))
    with pytest.raises(InputError, match=rf"a.{kind}, line 3, holds the byte 0xfc, expected text in UTF-8"):
        read_column(f"{tmp_path}/a.{kind}")


@pytest.mark.parametrize(
    ("header", "has_index"),
    [("0,1,2", False), (",0,1,2", True), ('"","a","b","c"', True), ("a,b,c", False), ("\n\na,b,c", False)],
)
def test_headers_are_known(header, has_index, tmp_path):
    rows = [",".join(map(repr, map(float, row))) for row in X]
    lines = [f"{100 + i},{row}" for i, row in enumerate(rows)] if has_index else rows
    (tmp_path / "v.csv").write_text("\n".join([header, *lines]))
    np.testing.assert_allclose(open_vectors(f"{tmp_path}/v.csv"), X, rtol=1e-6)


def test_numbers_that_do_not_count_the_columns_are_no_header(tmp_path):
    for first in ("1,2,3", "0,2,1", "0.0,1.0,2.0"):
        (tmp_path / "v.csv").write_text(f"{first}\n4,5,6\n")
        assert open_vectors(f"{tmp_path}/v.csv").tolist() == [[float(cell) for cell in first.split(",")], [4, 5, 6]]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("cat\ndog\ncat\n", ["cat", "dog", "cat"]),  # a word that comes again is no header
        ("kind\ncat\ndog\n", ["cat", "dog"]),
        ("kind\ncat\n\ndog\n", ["cat", "", "dog"]),  # an empty line is an empty value
        ("\ncat\ndog\n", ["", "cat", "dog"]),
        (",kind\n0,cat\n1,dog\n", ["cat", "dog"]),  # the index is no value
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


def test_missing_numbers_of_csv_keep_their_rows(tmp_path):
    (tmp_path / "c.csv").write_text("kind\n3\n\n4\n")
    np.testing.assert_array_equal(read_column(f"{tmp_path}/c.csv"), [3, np.nan, 4])


def test_as_text_values_stay_as_they_are_written(tmp_path):
    (tmp_path / "c.csv").write_text("id\n007\n1e5\ntrue\n")
    assert read_column(f"{tmp_path}/c.csv", as_text=True).tolist() == ["007", "1e5", "true"]


def test_a_wrong_number_of_rows_says_what_the_first_line_was_taken_for(tmp_path):
    (tmp_path / "c.csv").write_text("cat\ndog\n")
    with pytest.raises(
        InputError, match=r"has 1 rows, where line 1 \('cat'\) was taken for the header, expected 2, as"
    ):
        read_column(f"{tmp_path}/c.csv", 2)
    (tmp_path / "c.csv").write_text("0\n1\n2\n")
    with pytest.raises(InputError, match=r"has 3 rows, where line 1 \('0'\) was taken for values, not for a header"):
        read_column(f"{tmp_path}/c.csv", 2)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"a.txt has 0 rows, expected 1, as many as v.npy"):
        read_column(f"{tmp_path}/a.txt", 1, "v.npy")


def test_ids_lie_within_csv_alone(tmp_path):
    path = written("csv", tmp_path)
    assert read_column(ids_within(str(path))).tolist() == [f"n{i}" for i in range(20)]
    assert ids_within(str(written("npy", tmp_path))) is None
    (tmp_path / "bare.csv").write_text("1,2\n3,4\n")
    assert ids_within(f"{tmp_path}/bare.csv") is None


def test_bytes_are_text(tmp_path):
    np.save(tmp_path / "b.npy", np.char.encode(np.array(["ä", "b"]), "utf-8"))
    pq.write_table(pa.table({"b": pa.array(["ä".encode(), None])}), tmp_path / "b.parquet")
    assert read_column(f"{tmp_path}/b.npy").tolist() == ["ä", "b"]
    assert read_column(f"{tmp_path}/b.parquet").tolist() == ["ä", None]
    np.save(tmp_path / "b.npy", np.array([b"a", b"\xff"]))
    with pytest.raises(InputError, match="row 1, holds bytes that are no text"):
        read_column(f"{tmp_path}/b.npy")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_beyond_float32_keep_their_direction(kind, tmp_path):
    rows = [[3e40, 4e40], [3e-50, 4e-50], [3.0, 4.0]]
    if kind == "csv":
        (tmp_path / "v.csv").write_text("\n".join(f"{a},{b}" for a, b in rows))
    else:
        pq.write_table(pa.table({"v": pa.array(rows, pa.list_(pa.float64()))}), tmp_path / "v.parquet")
    found = open_vectors(f"{tmp_path}/v.{kind}")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.75, 1], [0.75, 1], [3, 4]], rtol=1e-6)
