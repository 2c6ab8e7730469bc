"""Features in vector stores, which find what `nonneg.search` finds."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError, stores
from nonneg.search import rank


@pytest.fixture(scope="module")
def features():
    codes = sp.random_array((1_100, 40), density=0.15, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    labels = np.arange(1_100) % 3 - 1  # a third is unlabelled
    texts = [f"text {i}" if i % 2 else None for i in range(1_100)]
    return Features(codes, ids=[f"s{i}" for i in range(1_100)], labels=labels, label_names=("cat", "dog"), texts=texts)


def nearest(features, row, k=5):
    return rank(features, features.codes[[row]].toarray()[0], k=k)[0].tolist()


def test_qdrant_finds_the_nearest_rows_and_keeps_what_belongs_to_them(features):
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    stores.to_qdrant(features, client, "x")
    for row in (3, 1_050):
        code = features.units[[row]]
        query = qdrant.models.SparseVector(indices=code.indices.tolist(), values=code.data.tolist())
        points = client.query_points("x", query=query, using="code", limit=5).points
        assert [point.id for point in points] == nearest(features, row)
        own = points[0].payload
        assert own["id"] == f"s{row}" and own["active"] == sorted(code.indices.tolist())
        assert own.get("label") == (None if row % 3 == 0 else features.label_name(row % 3 - 1))
    assert client.count("x").count == 1_100
    with pytest.raises(InputError, match="overwrite"):
        stores.to_qdrant(features, client, "x")
    stores.to_qdrant(features.take([0, 1]), client, "x", overwrite=True)
    assert client.count("x").count == 2


@pytest.mark.parametrize("layout", ["sparse", "dense"])
def test_milvus_finds_the_nearest_rows_of_sparse_and_dense_features(features, tmp_path, layout):
    milvus = pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    given = features if layout == "sparse" else Features(features.codes.toarray(), ids=[f"s{i}" for i in range(1_100)])
    client = milvus.MilvusClient(str(tmp_path / "x.db"))
    stores.to_milvus(given, client, "x")
    code = given.units[[3]]
    query = dict(zip(code.indices.tolist(), code.data.tolist(), strict=True))
    found = client.search(
        "x", [query if layout == "sparse" else code.toarray()[0].astype(np.float32)], limit=5, anns_field="code"
    )
    assert [hit["row"] for hit in found[0]] == nearest(features, 3)
    stored = client.get("x", ids=[4], output_fields=["id", "label", "text", "active"])[0]
    assert stored["id"] == "s4" and list(stored["active"]) == sorted(features.units[[4]].indices.tolist())
    with pytest.raises(InputError, match="overwrite"):
        stores.to_milvus(given, client, "x")
    client.close()


def test_lancedb_finds_the_nearest_rows_by_a_dense_column(features, tmp_path):
    lancedb = pytest.importorskip("lancedb")
    connection = lancedb.connect(tmp_path)
    table = stores.to_lancedb(features, connection, "x")
    query = features.units[[3]].toarray()[0].astype(np.float32)
    found = table.search(query).distance_type("dot").limit(5).to_arrow()
    assert found.column("row").to_pylist() == nearest(features, 3)
    first = {name: found.column(name)[0].as_py() for name in ("id", "label", "text", "active")}
    assert first == {"id": "s3", "label": None, "text": "text 3", "active": features.units[[3]].indices.tolist()}
    with pytest.raises(InputError, match="overwrite"):
        stores.to_lancedb(features, connection, "x")
    assert len(stores.to_lancedb(features.take([0, 1]), connection, "x", overwrite=True)) == 2


def test_negative_codes_are_rejected_where_the_store_would_refuse_them(features):
    milvus = pytest.importorskip("pymilvus")
    with pytest.raises(InputError, match="negative"):
        stores.to_milvus(Features(-features.codes), milvus.MilvusClient, "x")


def test_errors_of_a_client_are_one_sentence_that_names_the_collection(features):
    pytest.importorskip("qdrant_client")
    with pytest.raises(InputError, match="x cannot be written to Qdrant"):
        stores.to_qdrant(features, object(), "x")


def test_what_milvus_cannot_hold_is_rejected_before_anything_is_removed():
    pytest.importorskip("pymilvus")
    eye = np.eye(2, dtype=np.float32)
    for given, named in (
        (Features(eye, texts=["short", "é" * 40_000]), "text"),
        (Features(np.ones((1, 4_097), np.float32)), "active"),
        (Features(eye, labels=[0, 0], label_names=("é" * 40_000,)), "label_names"),
    ):
        with pytest.raises(InputError, match=named):
            stores.to_milvus(given, None, "codes", overwrite=True)  # no client is asked
