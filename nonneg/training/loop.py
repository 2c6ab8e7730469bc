"""The training loop, top to bottom: config in, run folder out."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from nonneg import metrics
from nonneg.data import open_source
from nonneg.errors import InputError
from nonneg.models import Model, ModelConfig
from nonneg.training._progress import progress_bar
from nonneg.training._run import RunFolder
from nonneg.training._step import epoch_order, learning_rate, step
from nonneg.training.config import TrainConfig


def train(
    config: TrainConfig, out: str | Path, *, overwrite: bool = False, progress: bool = True, title: str = "training"
) -> Path:
    """Train a model and write a run: config, log (a line an epoch), environment, model.

    Args:
        config: everything that decides the run.
        out: the run's folder; must not exist yet.
        overwrite: replace an earlier run in that folder.
        progress: show a progress bar.
        title: what the bar says.

    Returns:
        The run's folder, for `nonneg.load`.
    """
    source = open_source(config.data, "train")
    samples, _, _, channels = source.images.shape
    steps_per_epoch = samples // config.batch_size
    if steps_per_epoch == 0:
        raise InputError(f"batch_size is {config.batch_size}, expected at most the {samples} samples of {config.data}")
    fabric = _fabric(config)
    # Nothing is written, and nothing overwritten, before everything that can be refused has been.
    run = RunFolder(Path(out), config, overwrite, fabric.device)
    torch.manual_seed(config.seed)
    network = Model(
        ModelConfig(
            encoder=config.encoder,
            channels=channels,
            projector_width=config.projector_width,
            features=config.features,
            rectify=config.rectify,
            top_k=config.top_k,
        )
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    model, optimiser = fabric.setup(network, optimiser)
    # The data fits: it lies on the device as uint8 and views are drawn there.
    images = fabric.to_device(torch.from_numpy(source.images).permute(0, 3, 1, 2).contiguous())

    steps, warmup = config.epochs * steps_per_epoch, config.warmup_epochs * steps_per_epoch
    with progress_bar(config.epochs, title, progress) as advance, _interruption_explained(run.folder):
        for epoch in range(config.epochs):
            start = time.perf_counter()
            model.train()
            order = fabric.to_device(epoch_order(samples, config.seed, epoch))
            batch_losses = []
            for i in range(steps_per_epoch):
                for group in optimiser.param_groups:
                    group["lr"] = learning_rate(config, epoch * steps_per_epoch + i, steps, warmup)
                batch = order[i * config.batch_size : (i + 1) * config.batch_size]
                loss, z = step(fabric, model, optimiser, images, batch, config, epoch)
                batch_losses.append(loss)
            mean_loss = float(torch.stack(batch_losses).mean())
            _refuse_non_finite(mean_loss, epoch, config)
            line = {
                "epoch": epoch + 1,
                "loss": mean_loss,
                "lr": optimiser.param_groups[0]["lr"],
                "sparsity": metrics.sparsity(z),  # of the last batch, as is the number of live features
                "live": int(metrics.live_features(z).sum()),
                "seconds": time.perf_counter() - start,
            }
            run.log(line)
            advance(line)
    network.save(run.model)
    return run.folder


def _fabric(config: TrainConfig) -> Any:
    from lightning_fabric import Fabric  # takes a second to import, which a refused config need not wait for

    # It tells whoever has Tensor Cores to lower float32's precision; that is the config's business.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    try:
        fabric = Fabric(accelerator=config.accelerator, devices=1, precision=config.precision)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"accelerator {config.accelerator!r} cannot be used: {' '.join(str(error).split())}"
        ) from error
    fabric.launch()
    return fabric


@contextmanager
def _interruption_explained(folder: Path) -> Iterator[None]:
    """Ctrl-C stays an interrupt and says what is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {folder} holds the config and the log so far, no model") from None


def _refuse_non_finite(loss: float, epoch: int, config: TrainConfig) -> None:
    if not math.isfinite(loss):
        raise InputError(
            f"the loss became {loss} in epoch {epoch + 1}: training diverged at lr {config.lr:g} with"
            f" rectify {config.rectify!r}; lower lr, lengthen warmup_epochs or raise temperature"
        )
