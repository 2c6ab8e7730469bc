"""Run by torchrun with two processes, or imported: trains on pairs of texts, some of them in groups."""

import os
import sys
import warnings
from pathlib import Path

import torch.distributed as dist

from nonneg.modalities import Source
from nonneg.modalities.pairs import Pairs, pair_source
from nonneg.modalities.texts import TextRows, Texts, ViewConfig
from nonneg.training import TrainConfig, train

WORDS = ("card", "money", "transfer", "pin", "lost", "fee", "rate", "cash", "app")
SIDE = Texts(width=16, depth=1, heads=2, vocabulary=300, views=ViewConfig(delete=0.2))


def source() -> Source:
    texts = [" ".join(WORDS[(7 * i + j * j) % len(WORDS)] for j in range(2 + i % 5)) for i in range(96)]
    sides = (Source("texts", TextRows(some)) for some in (texts, texts[::-1]))
    return pair_source(*sides, groups=[i // 3 for i in range(96)], sides=("first", "second"))


def config(loss: str) -> TrainConfig:
    return TrainConfig(
        learn_temperature=loss == "info_nce",
        within_weight=0.3,
        modality=Pairs(first=SIDE, second=SIDE, width=24),
        encoder="transformer+transformer",
        loss=loss,
        epochs=2,
        warmup_epochs=1,
        batch_size=32,
        features=24,
        projector_depth=1,
        standardise=True,
        share=0.2,
        dense_weight=0.5,
        precision="64-true",
        accelerator="cpu",
    )


def train_both(folder: Path) -> None:
    for loss in ("info_nce", "spectral"):
        train(config(loss), folder / loss, source=source(), progress=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    train_both(Path(sys.argv[1]))
    if dist.is_initialized():
        dist.barrier()
    os._exit(0)  # gloo's threads sometimes abort a normal exit of the interpreter
