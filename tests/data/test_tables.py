"""Vectors and columns in files of every kind."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from nonneg import InputError
from nonneg.data import arrow_vectors, open_vectors, read_column

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
