"""CL and NCL on CIFAR-10 with the paper's recipe: accuracy of both layers and interpretability of the features.

    python -m benchmarks.cifar10 --data cifar10.tar --epochs 200
    python -m benchmarks.cifar10 --data cifar10.tar --epochs 30 --seeds 0 1 2 --only CL --views ours pillow

With `--views pillow`, loader processes make the views one by one with Pillow; network, loss, optimiser,
schedule and order of samples are the same. Run folders are kept under --out.
"""

import argparse
import dataclasses
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks import pillow_views
from benchmarks.hardware import described
from nonneg import losses, metrics
from nonneg.devices import choose_device
from nonneg.evaluate import linear_probe
from nonneg.modalities import Source
from nonneg.modalities.images import open_source
from nonneg.models import load
from nonneg.training import (
    TrainConfig,
    epoch_order,
    learning_rate,
    load_recipe,
    new_model,
    optimiser_of,
    read_log,
    set_learning_rate,
    train,
)

ROWS = {
    "probe_encoder": "linear probe, encoder",
    "probe_projector": "linear probe, projector",
    "precision_at_10": "precision@10, projector",
    "class_consistency": "class consistency",
    "class_consistency_supported": "class consistency, 10 or more active",
    "class_consistency_floor": "chance floor",
    "sparsity": "sparsity",
    "live": "live features",
    "seconds": "seconds of training",
    "views_per_second": "views per second, median epoch",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="CIFAR-10, in any format that nonneg reads")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", choices=["CL", "NCL"], nargs="+", default=["CL", "NCL"])
    parser.add_argument("--views", choices=["ours", "pillow"], nargs="+", default=["ours"])
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, help="folder for the runs; by default a temporary one")
    arguments = parser.parse_args()
    out = arguments.out or Path(tempfile.mkdtemp())
    print(described())
    recipe = load_recipe("cifar10")
    warmup = min(recipe.warmup_epochs, arguments.epochs)
    recipe = dataclasses.replace(recipe, data=arguments.data, epochs=arguments.epochs, warmup_epochs=warmup)
    outcomes: dict[str, list[dict[str, float]]] = {}
    for seed in arguments.seeds:
        for views in arguments.views:
            for name in arguments.only:
                config = dataclasses.replace(recipe, seed=seed)
                if name == "CL":
                    config = dataclasses.replace(config, rectify="none")
                column = f"{name}, {views} views"
                run = out / f"{name}-{views}-{seed}".lower()
                start = time.perf_counter()
                if views == "ours":
                    log = read_log(train(config, run, progress=False))
                    rate = statistics.median(line["views_per_second"] for line in log)
                else:
                    rate = train_with_pillow(config, run, arguments.workers)
                seconds = time.perf_counter() - start
                figures = measured(run, config) | {"seconds": seconds, "views_per_second": rate}
                outcomes.setdefault(column, []).append(figures)
                shown = "  ".join(f"{key} {value:.4f}" for key, value in figures.items())
                print(f"seed {seed}, {column}: {shown}", flush=True)
    print(f"\n| mean (standard error) over seeds {arguments.seeds} | {' | '.join(outcomes)} |")
    print("|---|" + "---|" * len(outcomes))
    for key, label in ROWS.items():
        cells = (_cell([figures[key] for figures in column]) for column in outcomes.values())
        print(f"| {label} | {' | '.join(cells)} |")


def _cell(values: list[float]) -> str:
    error = f" ({statistics.stdev(values) / len(values) ** 0.5:.4f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{error}"


def measured(run: Path, config: TrainConfig) -> dict[str, float]:
    """Measure a run on the test split; the probe is fitted on the training split."""
    device = str(choose_device())
    model = load(run)
    known = model.embed(open_source(config.data, "train"), "both", device=device, media=False)
    tested = model.embed(open_source(config.data, "test"), "both", device=device, media=False)
    features = tested["projector"]
    consistency = metrics.class_consistency(features.codes, features.labels)
    return {
        "probe_encoder": linear_probe(known["encoder"], tested["encoder"]).accuracy,
        "probe_projector": linear_probe(known["projector"], tested["projector"]).accuracy,
        "precision_at_10": metrics.precision_at_k(features.codes, features.labels, k=10),
        "class_consistency": consistency.value,
        "class_consistency_supported": consistency.supported,
        "class_consistency_floor": consistency.floor,
        "sparsity": metrics.sparsity(features.codes),
        "live": float(consistency.live),
    }


class PillowBatches(Dataset[torch.Tensor]):
    """Item (epoch, rows) holds two views of these samples, `(2 * batch, height, width, channels)` uint8."""

    def __init__(self, source: Source, config: TrainConfig) -> None:
        self.source, self.config = source, config

    def __getitem__(self, item: tuple[int, torch.Tensor]) -> torch.Tensor:
        epoch, rows = item
        torch.set_num_threads(1)
        height, width = self.source.samples.shape[1:3]
        views = []
        for view in (0, 1):
            for row in rows.tolist():
                # Random numbers from Python's generator, independent of nonneg.modalities.images.views.
                rng = random.Random(f"{self.config.seed}/{epoch}/{row}/{view}")
                drawn = pillow_views.parameters(self.config.modality.views, height, width, rng)
                picture = Image.fromarray(np.asarray(self.source.samples[row]))
                views.append(np.asarray(pillow_views.view(picture, drawn, (height, width))))
        return torch.from_numpy(np.stack(views))


def train_with_pillow(config: TrainConfig, run: Path, workers: int) -> float:
    """Train with views made by loader processes, save the model as a run does, and return views per second."""
    device = choose_device()
    torch.backends.cudnn.benchmark = True
    source = open_source(config.data, "train")
    steps_per_epoch = len(source) // config.batch_size
    torch.manual_seed(config.seed)
    model = new_model(config, source).to(device).to(memory_format=torch.channels_last).train()
    optimiser = optimiser_of(model.parameters(), config, device)

    def loss_of(views: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16-mixed"):
            z1, z2 = model(model.modality.inputs(views)).chunk(2)
        return losses.info_nce(z1, z2, config.temperature)

    compute: Any = torch.compile(loss_of) if device.type == "cuda" else loss_of
    items = [
        (epoch, rows)
        for epoch in range(config.epochs)
        for rows in epoch_order(len(source), config.seed, epoch)[: steps_per_epoch * config.batch_size].view(
            steps_per_epoch, -1
        )
    ]
    loader = DataLoader(
        PillowBatches(source, config), sampler=items, batch_size=None, num_workers=workers, pin_memory=True
    )
    steps, warmup = len(items), config.warmup_epochs * steps_per_epoch
    start = time.perf_counter()
    for i, views in enumerate(loader):
        set_learning_rate(optimiser, learning_rate(config, i, steps, warmup))
        loss = compute(views.to(device, non_blocking=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save(run / "model")
    return 2 * config.batch_size * steps / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
