"""Bundled texts that need no file: Banking77, by PolyAI, under CC-BY-4.0 (see the folder `intents`)."""

import csv
import io
import lzma
from importlib import resources

from nonneg.modalities.texts.sources._table import ListTable, Table


def intents() -> dict[str, Table]:
    """Return customers' questions to a bank with one of 77 intents: 10,003 for training, 3,080 for testing."""
    folder = resources.files("nonneg.modalities.texts.sources") / "intents"
    tables: dict[str, Table] = {}
    for name in ("train", "test"):
        written = lzma.decompress((folder / f"{name}.csv.xz").read_bytes()).decode("utf-8")
        rows = list(csv.DictReader(io.StringIO(written)))
        columns = {"text": [row["text"] for row in rows], "category": [row["category"] for row in rows]}
        tables[name] = ListTable("intents", columns, "text", labels="category")
    return tables
