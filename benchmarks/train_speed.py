"""Views per second of training, compared with lightly in the same run.

    python -m benchmarks.train_speed --data cifar10.tar

On a CUDA device: the recipe `cifar10` as `nonneg train` runs it, with log and checkpoints; batch 1,024; images read
from disk instead of the device; lightly's SimCLR transform and loss with the same network; in alternation NCL and CL,
and the recipe `images` and the same network with plain relu; and `embed` compared with the forward pass alone. Without
one: views and steps on the CPU, compared with Pillow and, if it can be imported, lightly.
"""

import argparse
import dataclasses
import itertools
import os
import random
import shutil
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
from nonneg.devices import choose_device
from nonneg.modalities import Source
from nonneg.modalities.images import open_source, random_views
from nonneg.training import (
    TrainConfig,
    epoch_order,
    load_recipe,
    new_model,
    open_feed,
    optimiser_of,
    read_log,
    train,
)
from nonneg.training._devices import open_fabric
from nonneg.training._step import Step, views_per_sample
from nonneg.training._watch import Watch

DEVICE = choose_device().type


def seconds(work: Any, repeats: int) -> float:
    """Return the seconds per call, including all work on the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def whole_training(config: TrainConfig, epochs: int) -> tuple[float, float]:
    """Return the median views per second of `nonneg train` after its first epoch, and the seconds of that epoch."""
    folder = Path(tempfile.mkdtemp())
    try:
        short = dataclasses.replace(config, epochs=epochs, warmup_epochs=1, checkpoint_steps=400)
        log = read_log(train(short, folder / "run", progress=False))
    finally:
        shutil.rmtree(folder)
    return statistics.median(line["views_per_second"] for line in log[1:]), log[0]["seconds"]


def stepper(config: TrainConfig, source: Source) -> Any:
    """Return a function that trains a given number of steps."""
    fabric = open_fabric(config, [])
    torch.manual_seed(0)
    model = new_model(config, source).to(fabric.device)
    model.to(memory_format=torch.channels_last).train()
    watch = Watch(model.encoder_width, config.features, len(source.label_names), fabric.device, torch.float32)
    optimiser = optimiser_of(model.parameters(), config, fabric.device)
    step = Step(fabric, model, optimiser, watch, config, "graph" if DEVICE == "cuda" else "off")
    feed = open_feed(source, config, fabric.device, views_per_sample(config))

    def rows() -> Any:
        for epoch in itertools.count():
            steps = len(source) // config.batch_size
            order = epoch_order(len(source), 0, epoch)[: steps * config.batch_size].view(steps, -1)
            yield from feed.batches(order, epoch)

    batches = rows()

    def run(steps: int) -> None:
        for batch in itertools.islice(batches, steps):
            step(batch, 0, 0.1, config.share, config.dense_weight)

    return run


def alternating(configs: dict[str, TrainConfig], source: Source, steps: int, rounds: int) -> dict[str, list[float]]:
    """Return views per second of each config; they take turns, so that a machine that slows down affects all."""
    runs = {name: stepper(config, source) for name, config in configs.items()}
    for run in runs.values():
        run(8)
    rates: dict[str, list[float]] = {name: [] for name in configs}
    for _ in range(rounds):
        for name, run in runs.items():
            rates[name].append(2 * configs[name].batch_size / (seconds(lambda run=run: run(steps), 1) / steps))
    return rates


def compare(configs: dict[str, TrainConfig], source: Source) -> None:
    """Print the speed of the second config as a share of the first one's."""
    (first, before), (second, after) = alternating(configs, source, 100, 5).items()
    ratios = [new / old for old, new in zip(before, after, strict=True)]
    spread = statistics.stdev(ratios)
    print(
        f"speed of {second}, relative to {first}: {statistics.mean(ratios):.4f}, deviation over 5 rounds {spread:.4f}"
    )


class Pictures(Dataset[tuple[Any, int]]):
    """Samples of a source as PIL images, with a transform that returns two views."""

    def __init__(self, source: Source, transform: Any) -> None:
        self.source, self.transform = source, transform

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return self.transform(Image.fromarray(np.asarray(self.source.samples[row]))), row


def lightly_training(config: TrainConfig, source: Source, steps: int, workers: int) -> float:
    """Return views per second of lightly's transform and loss, with the same network and precision."""
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform

    v = config.modality.views
    transform = SimCLRTransform(
        input_size=source.samples.shape[1],
        cj_prob=v.jitter_p,
        cj_bright=v.brightness,
        cj_contrast=v.contrast,
        cj_sat=v.saturation,
        cj_hue=v.hue,
        min_scale=v.crop_least,
        random_gray_scale=v.grey_p,
        gaussian_blur=v.blur_p,
        sigmas=(v.blur_least, v.blur_most),
        hf_prob=v.flip_p,
    )
    torch.manual_seed(0)
    model = new_model(config, source).to(DEVICE).to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    loss = NTXentLoss(temperature=config.temperature)
    loader = DataLoader(
        Pictures(source, transform),
        config.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=DEVICE == "cuda",
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for i in range(steps + 20):
        if i == 20:  # after warming up loaders and kernels
            torch.cuda.synchronize() if DEVICE == "cuda" else None
            start = time.perf_counter()
        (x1, x2), _ = next(batches)
        views = torch.cat((x1, x2)).to(DEVICE, non_blocking=True).contiguous(memory_format=torch.channels_last)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=config.precision == "bf16-mixed"):
            z1, z2 = model(views).float().chunk(2)
            value = loss(z1, z2)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    torch.cuda.synchronize() if DEVICE == "cuda" else None
    return 2 * config.batch_size * steps / (time.perf_counter() - start)


def embedding(config: TrainConfig, source: Source, precision: str) -> dict[str, float]:
    """Return images per second of the forward pass alone and of `embed`, without and with stored images."""
    model = new_model(config, source).to(DEVICE).to(memory_format=torch.channels_last).eval()
    images = model.modality.inputs(torch.from_numpy(np.array(source.samples[:4096])).to(DEVICE))

    @torch.inference_mode()
    def bare() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bf16-mixed"):
            model(images)

    for _ in range(5):
        bare()
    rates = {"forward": 4096 / seconds(bare, 20)}
    for name, media in (("embed without images", False), ("embed with images", True)):
        model.embed(source, device=DEVICE, precision=precision, media=media)  # type: ignore[arg-type]
        rates[name] = len(source) / seconds(
            lambda media=media: model.embed(source, device=DEVICE, precision=precision, media=media),
            3,
        )
    return rates


def views_alone(config: TrainConfig, source: Source) -> dict[str, float]:
    """Return views per second on one thread: those of nonneg in batches and those of Pillow one by one."""
    rows = torch.arange(config.batch_size)
    images = torch.from_numpy(np.array(source.samples[: config.batch_size])).permute(0, 3, 1, 2)
    side = source.samples.shape[1:3]
    pictures = [Image.fromarray(np.asarray(image)) for image in source.samples[: config.batch_size]]
    rng = random.Random(0)

    def with_pillow() -> None:
        for picture in pictures:
            pillow_views.view(picture, pillow_views.parameters(config.modality.views, *side, rng), side)

    random_views(images, rows, config.modality.views, 0, 0)
    ours = 2 * config.batch_size / seconds(lambda: random_views(images, rows, config.modality.views, 0, 0), 5)
    return {"nonneg": ours, "Pillow": config.batch_size / seconds(with_pillow, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="CIFAR-10, in any format that nonneg reads")
    parser.add_argument("--epochs", type=int, default=8)
    parts = ["whole", "lightly", "disk", "1024", "cost", "recipe", "embed"]
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts, help="what to measure")
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    arguments = parser.parse_args()
    config = dataclasses.replace(load_recipe("cifar10"), data=arguments.data)
    source = open_source(arguments.data)
    plain = dataclasses.replace(config, rectify="none")
    print(described(), flush=True)
    if DEVICE == "cpu":
        cpu(config, source)
        return
    print(f"{'':44}{'views/s':>10}")
    ours = float("nan")
    if "whole" in arguments.parts:
        ours, first = whole_training(config, arguments.epochs)
        print(
            f"{'nonneg train cifar10, batch 256':44}{ours:10,.0f}   first epoch with compilation: {first:.0f} s",
            flush=True,
        )
    if "lightly" in arguments.parts:
        try:
            peer = lightly_training(config, source, 200, arguments.workers)
            print(f"{'lightly transform and loss':44}{peer:10,.0f}   nonneg is {ours / peer:.1f}x as fast", flush=True)
        except ImportError as error:
            print(f"lightly cannot be imported: {error}")
    if "disk" in arguments.parts:
        disk, _ = whole_training(dataclasses.replace(config, data_on="disk"), arguments.epochs // 2)
        print(f"{'images on disk':44}{disk:10,.0f}   {disk / ours:.2f} of the speed on the device", flush=True)
    if "1024" in arguments.parts:
        large, _ = whole_training(dataclasses.replace(config, batch_size=1024), arguments.epochs)
        print(f"{'batch 1,024':44}{large:10,.0f}", flush=True)
    if "cost" in arguments.parts:
        compare({"CL": plain, "NCL": config}, source)
    if "recipe" in arguments.parts:
        recipe = dataclasses.replace(load_recipe("images"), data=arguments.data)
        relu = recipe.replace(standardise=False, share=0.0, first_share=0.0, dense_weight=0.0)
        compare({"plain relu": relu, "the recipe images": recipe}, source)
    for precision in ("32-true", "bf16-mixed") if "embed" in arguments.parts else ():
        images = embedding(config, source, precision)
        shares = ", ".join(f"{name} {rate:,.0f}" for name, rate in images.items())
        print(f"images/s, {precision}: {shares}", flush=True)


def cpu(config: TrainConfig, source: Source) -> None:
    torch.set_num_threads(1)
    views = views_alone(config, source)
    print(f"views alone, one thread: nonneg {views['nonneg']:,.0f}/s, Pillow {views['Pillow']:,.0f}/s")
    small = dataclasses.replace(config, batch_size=64, precision="32-true", accelerator="cpu")
    run = stepper(small, source)
    run(1)
    print(f"step of 64 samples: nonneg {128 / (seconds(lambda: run(3), 1) / 3):,.0f} views/s")
    try:
        print(f"step of 64 samples: lightly {lightly_training(small, source, 3, 0):,.0f} views/s")
    except (ImportError, RuntimeError) as error:
        print(f"lightly cannot be imported: {error}")


if __name__ == "__main__":
    main()
