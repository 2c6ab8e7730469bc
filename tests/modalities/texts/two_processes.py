"""Run by torchrun with two processes, or alone: trains on texts, pairs and groups, and with cached gradients."""

import os
import sys
import warnings
from pathlib import Path

import torch.distributed as dist

from nonneg.modalities.texts import Texts, ViewConfig
from nonneg.training import TrainConfig, train

WORDS = ("card", "money", "transfer", "top", "up", "pin", "lost", "stolen", "fee", "rate", "atm", "cash", "app")
TEXTS = [" ".join(WORDS[(7 * i + j * j) % len(WORDS)] for j in range(2 + i % 9)) for i in range(96)]
DATA = {"text": TEXTS, "title": TEXTS[::-1], "group": [str(i // 3) for i in range(96)]}


def config(encode_rows: int = 0, **changes) -> TrainConfig:
    views = ViewConfig(crop_least=0.6, delete=0.2, mask=0.2)
    modality = Texts(width=16, depth=1, heads=2, vocabulary=300, views=views, **changes)
    return TrainConfig(
        encode_rows=encode_rows,
        modality=modality,
        encoder="transformer",
        epochs=3,
        warmup_epochs=1,
        batch_size=32,
        features=24,
        projector_width=24,
        precision="64-true",
        accelerator="cpu",
        checkpoint_steps=2,
    )


RUNS = {"texts": config(), "pairs": config(pairs="title"), "groups": config(groups="group"), "cached": config(6)}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, each in RUNS.items():
        train(each, Path(sys.argv[1]) / name, source=DATA, progress=False)
    if dist.is_initialized():
        dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort a normal exit of the interpreter
