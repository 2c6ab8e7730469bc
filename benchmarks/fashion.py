"""Fashion products as one Parquet file, and which of them are held out.

    python -m benchmarks.fashion --names styles.csv --images images --attributes attributes.csv \\
        --queries ground_truth_text-image.json --out fashion

- `--names`: `id,productDisplayName`, and `--images`: `ID.jpg`, 60 x 80 pixels, both of aishwaryab27/FashionWebsite;
- `--attributes`: `id,gender,…,articleType,baseColour,…` of animmala3942/FashionProductRecommendationSystem;
- `--queries`: `data/KAGL/gt_query_doc/ground_truth_text-image.json` of marqo-ai/marqo-FashionCLIP.

Writes `products.parquet` with pictures as WebP, quality 85 (36 MB instead of 568), and `queries.json`.
"""

import argparse
import csv
import io
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ATTRIBUTES = ("articleType", "baseColour", "gender")
SIZE = (60, 80)
_QUALITY = 85
_VALIDATION_QUERIES = 1_000


@dataclass(frozen=True)
class Task:
    """What is trained on and what is asked.

    Attributes:
        train, held_out, documents: rows of `products.parquet`; queries are searched for among `documents`.
        queries: text to the ids that it asks for.
    """

    train: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    queries: dict[str, set[str]]


def task(folder: Path, validate: bool) -> Task:
    """Hold out every product that a query asks for, and every product of the same name.

    For validation, the public queries' products are not used at all, and 1,000 other names are asked for instead.
    """
    table = pq.read_table(folder / "products.parquet", columns=["id", "text"])
    ids, names = (table[column].to_pylist() for column in ("id", "text"))
    names = [key(name) for name in names]
    public: dict[str, dict[str, int]] = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    there = set(ids)
    queries = {query: set(wanted) & there for query, wanted in public.items()}
    queries = {query: wanted for query, wanted in queries.items() if wanted}
    held_out = _rows_like(ids, names, queries)
    documents = np.arange(len(ids))
    if validate:
        documents = np.setdiff1d(documents, held_out)
        by_name: dict[str, set[str]] = {}
        for row in documents:
            by_name.setdefault(names[row], set()).add(ids[row])
        chosen = random.Random(0).sample(sorted(by_name), min(_VALIDATION_QUERIES, len(by_name) // 5))
        queries = {name: by_name[name] for name in chosen}
        held_out = np.intersect1d(documents, _rows_like(ids, names, queries))
    return Task(np.setdiff1d(documents, held_out), held_out, documents, queries)


def attributes(folder: Path, rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the numbers of each attribute's values for some products."""
    table = pq.read_table(folder / "products.parquet", columns=list(ATTRIBUTES))
    return {name: np.unique(table[name].to_pylist(), return_inverse=True)[1][rows] for name in ATTRIBUTES}


def key(name: str) -> str:
    """Return a name without capitals and repeated spaces."""
    return " ".join(name.lower().split())


def _rows_like(ids: list[str], names: list[str], queries: dict[str, set[str]]) -> npt.NDArray[np.int64]:
    wanted = set().union(*queries.values())
    asked = {key(query) for query in queries} | {name for id, name in zip(ids, names, strict=True) if id in wanted}
    return np.array([row for row, name in enumerate(names) if name in asked], np.int64)


def _encoded(path: Path) -> bytes:
    picture = Image.open(path).convert("RGB")
    picture = picture if picture.size == SIZE else picture.resize(SIZE)  # some are a few pixels smaller
    content = io.BytesIO()
    picture.save(content, "WEBP", quality=_QUALITY, method=6)
    return content.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("names", "images", "attributes", "queries", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    with given.attributes.open(newline="", encoding="utf-8") as file:
        known = {row["id"]: row for row in csv.DictReader(file)}
    with given.names.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["productDisplayName"].strip() and row["id"] in known]
    rows = [row for row in rows if (given.images / f"{row['id']}.jpg").is_file()]
    columns: dict[str, list[object]] = {
        "id": [row["id"] for row in rows],
        "image": [{"bytes": _encoded(given.images / f"{row['id']}.jpg"), "path": row["id"]} for row in rows],
        "text": [row["productDisplayName"] for row in rows],
        **{name: [known[row["id"]][name] for row in rows] for name in ATTRIBUTES},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), given.out / "products.parquet", compression="zstd")
    (given.out / "queries.json").write_bytes(given.queries.read_bytes())
    print(f"{len(rows):,} products, {(given.out / 'products.parquet').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
