"""Write sparse codes to a vector store and search there, with a filter on a feature.

    python examples/vector_stores.py qdrant     # or milvus, lancedb; each runs inside this process

Replace the client by one of your server, such as QdrantClient("http://localhost:6333").
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_digits

from nonneg import Features, NonNegativeEmbedding, stores

QUERY = 12  # the row whose neighbours are searched


def library(name: str, extra: str) -> Any:
    """Import a package, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.exit(f"this example needs the package {name}: pip install 'nonneg[{extra}]'")


def with_qdrant(features: Features, feature: int, folder: str) -> list[str]:
    """Return the labels of the nearest rows with a feature, from Qdrant."""
    qdrant = library("qdrant_client", "qdrant")
    client, models = qdrant.QdrantClient(path=folder), qdrant.models
    stores.to_qdrant(features, client, "digits")
    code = features.units[[QUERY]]
    query = models.SparseVector(indices=code.indices.tolist(), values=code.data.tolist())
    has_feature = models.Filter(must=[models.FieldCondition(key="active", match=models.MatchValue(value=feature))])
    found = client.query_points("digits", query=query, using="code", query_filter=has_feature, limit=10).points
    client.close()
    return [point.payload["label"] for point in found]


def with_milvus(features: Features, feature: int, folder: str) -> list[str]:
    """Return the same from Milvus Lite."""
    library("milvus_lite", "milvus")
    client = library("pymilvus", "milvus").MilvusClient(f"{folder}/digits.db")
    stores.to_milvus(features, client, "digits")
    code = features.units[[QUERY]]
    query = dict(zip(code.indices.tolist(), code.data.tolist(), strict=True))
    has_feature = f"ARRAY_CONTAINS(active, {feature})"
    found = client.search("digits", [query], anns_field="code", filter=has_feature, limit=10, output_fields=["label"])
    client.close()
    return [hit["label"] for hit in found[0]]


def with_lancedb(features: Features, feature: int, folder: str) -> list[str]:
    """Return the same from LanceDB."""
    table = stores.to_lancedb(features, library("lancedb", "lancedb").connect(folder), "digits")
    query = features.units[[QUERY]].toarray()[0]
    found = table.search(query).distance_type("dot").where(f"array_has(active, {feature})", prefilter=True).limit(10)
    return list(found.to_arrow().column("label").to_pylist())


STORES: dict[str, Callable[[Features, int, str], list[str]]] = {
    "qdrant": with_qdrant,
    "milvus": with_milvus,
    "lancedb": with_lancedb,
}


def main() -> None:
    """Convert digits, write their codes to the store and search there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", choices=STORES)
    parser.add_argument("--steps", type=int, default=200, help="steps of the fit")
    given = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    codes = NonNegativeEmbedding(n_components=64, max_active=8, max_iter=given.steps, random_state=0).fit_transform(X)
    features = Features(codes, labels=y, label_names=[str(digit) for digit in range(10)])
    feature = int(features.codes[[QUERY]].toarray()[0].argmax())
    with tempfile.TemporaryDirectory() as folder:
        labels = STORES[given.store](features, feature, folder)
    print(f"row {QUERY} is a {y[QUERY]}; its nearest rows with feature {feature} are {', '.join(labels)}")


if __name__ == "__main__":
    main()
