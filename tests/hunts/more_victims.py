"""More work that is killed: training on pairs and on a graph, and features written in parts."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from PIL import Image

from nonneg import bulk, features
from nonneg.convert import NonNegativeEmbedding
from nonneg.errors import InputError
from nonneg.modalities.graphs import Nodes
from nonneg.modalities.pairs import Pairs
from nonneg.modalities.texts import Texts
from nonneg.training import TrainConfig, load_recipe
from tests.hunts.children import answered
from tests.hunts.victims import Training, tree

SHORT: dict[str, Any] = {"epochs": 4, "warmup_epochs": 1, "accelerator": "cpu", "checkpoint_steps": 2, "features": 24}


class TrainingPairs(Training):
    """Training on 32 pictures with their texts."""

    name = "train pairs"

    def __init__(self, root: Path) -> None:
        self.data = root / "pairs"
        os.environ["NONNEG_CACHE"] = str(root / "cache")  # of images; kills leave it unfinished, too
        if not self.data.exists():
            _write_pairs(self.data)
        texts = Texts(length=8, vocabulary=300, width=16, depth=1, heads=2)
        self.config = TrainConfig(
            **SHORT,
            data=str(self.data / "table.csv"),
            modality=Pairs(second=texts, width=32),
            encoder="convnet_8+transformer",
            batch_size=16,
            projector_depth=1,
        )


class TrainingGraph(Training):
    """Training on the nodes of a graph."""

    name = "train graph"

    def __init__(self, root: Path) -> None:
        self.data = root / "graph.npz"
        if not self.data.exists():
            _write_graph(self.data)
        modality = Nodes(width=32, layers=2, batch_norm=True)
        recipe = load_recipe("graph")
        self.config = recipe.replace(**SHORT, data=str(self.data), modality=modality, batch_size=64, compile="off")


class Sharding:
    """`nonneg.bulk.convert_shards`: features written in parts, into a new folder."""

    name = "bulk.convert_shards"

    def __init__(self, root: Path) -> None:
        self.model, self.shards = root / "sharding-model", root / "shards"
        if not self.model.exists():
            # In a child: the threads of torch and pyarrow would be lost in later forks.
            answered(lambda: _write_shards(self.model, self.shards), root / "answer")

    def prepare(self, place: Path, trial: int) -> None:
        pass

    def work(self, place: Path) -> None:
        out, columns = place / "x.features", {"ids": "id", "labels": "label"}
        is_there = (out / "meta.json").exists()
        bulk.convert_shards(str(self.model), str(self.shards / "*.parquet"), out, overwrite=is_there, **columns)

    def examine(self, place: Path) -> str:
        try:
            features.verify(place / "x.features")
        except InputError as error:
            assert "does not hold features" in str(error), error
            return "nothing"
        return "new"

    def result(self, place: Path) -> dict[str, Any]:
        assert self.examine(place) == "new"
        return tree(place)


def _write_pairs(folder: Path) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = ["image,text"]
    for number in range(32):
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{['red', 'green', 'blue'][number % 3]} thing {number}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def _write_graph(path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    links = sp.csr_array(rng.random((200, 200)) < np.where(labels[:, None] == labels, 0.04, 0.002), dtype=np.float32)
    words = (rng.random((200, 20)) < 0.2).astype(np.float32)
    arrays = {f"adj_{part}": getattr(links, part) for part in ("data", "indices", "indptr")}
    np.savez(path, **arrays, adj_shape=links.shape, attr_matrix=words, labels=labels)


def _write_shards(model: Path, shards: Path) -> None:
    shards.mkdir()
    vectors = np.random.default_rng(0).normal(size=(3_000, 16)).astype(np.float32)
    for number, rows in enumerate(np.split(np.arange(3_000), [1_000, 1_500])):
        ids = [f"row {row}" for row in rows]
        table = pa.table({"id": ids, "vector": list(vectors[rows]), "label": rows % 3})
        pq.write_table(table, shards / f"{number}.parquet")
    NonNegativeEmbedding(n_components=64, max_active=8, max_iter=5, random_state=0).fit(vectors).save_pretrained(model)
