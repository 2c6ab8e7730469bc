"""The training loop, top to bottom: config in, run folder out."""

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nonneg import metrics
from nonneg.errors import InputError, StoppedError
from nonneg.modalities import Source
from nonneg.modalities.images import open_source
from nonneg.models import Model
from nonneg.processes import launched_processes
from nonneg.training._ends import leave_if, refuse_to_die, refuse_to_diverge, refuse_to_keep_divergence
from nonneg.training._feed import open_feed
from nonneg.training._optimisers import learning_rate, optimiser_of
from nonneg.training._progress import progress_bar, say
from nonneg.training._resume import fingerprint, restore_state, save_state
from nonneg.training._run import BOARD, RunFolder
from nonneg.training._step import Step
from nonneg.training._stop import StopSignals
from nonneg.training._together import by_first
from nonneg.training._watch import MOST_CLASSES, Watch
from nonneg.training.config import TrainConfig

_PATHS = {
    "graph": "compiled, the whole step replayed as one CUDA graph",
    "forward": "the forward pass compiled",
    "off": "run plainly, nothing compiled",
}


def train(
    config: TrainConfig,
    out: str | Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    title: str = "training",
    tensorboard: bool = False,
    loggers: Sequence[Any] = (),
    source: Source | None = None,
) -> Path:
    """Train a model and write a run: config, log (a line an epoch), checkpoints, environment, model.

    Started again on the folder of an unfinished run, it goes on where that one stopped. Under torchrun
    or SLURM it trains on all processes together, with the same result as one.

    Args:
        config: everything that decides the run.
        out: the run's folder; must not hold a finished run.
        overwrite: start over, whatever run is in that folder.
        progress: show a progress bar and say which data and which path are used.
        title: what the bar says.
        tensorboard: write the log for TensorBoard, too.
        loggers: Lightning loggers that get the log's figures.
        source: what to train on instead of `config.data`: arrays or a dataset that `open_source` was given. Its name
            is recorded as the data.

    Returns:
        The run's folder, for `nonneg.load`.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> images = np.random.default_rng(0).integers(0, 256, (64, 8, 8), dtype=np.uint8)
        >>> config = TrainConfig(epochs=1, warmup_epochs=0, batch_size=32, accelerator="cpu")
        >>> run = train(config, tempfile.mkdtemp(), source=open_source(images), progress=False)
        >>> sorted(path.name for path in run.iterdir())
        ['config.toml', 'environment.json', 'log.jsonl', 'model']
    """
    if source is None:
        source = open_source(
            config.data, "train", image_size=config.image_size, skip_broken=config.skip_broken, progress=progress
        )
    else:
        config = replace(config, data=source.name)
    classes = _classes(source, config)
    fabric = _fabric(config, [*loggers, *([_board(Path(out))] if tensorboard else [])])
    _share(source, config, fabric.world_size)
    path = _path(config, fabric)
    network = new_model(config, source)
    # Nothing is written, and nothing overwritten, before everything that can be refused has been.
    with _open_run(Path(out), config, overwrite, fabric) as run:
        if fabric.is_global_zero:
            run.record_broken(source.skipped)
        with _fastest_kernels(), _quiet_compiler(), _finalised_loggers(fabric):
            _train(run, network, source, classes, config, fabric, path, progress, title)
    return run.folder


@contextmanager
def _fastest_kernels() -> Iterator[None]:
    """Every step has the same shapes: it pays to try which kernel is fastest. What comes after has its own shapes."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def _quiet_compiler() -> Iterator[None]:
    """It tells whoever has Tensor Cores to lower float32's precision; that is the config's business."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
        yield


@contextmanager
def _finalised_loggers(fabric: Any) -> Iterator[None]:
    """However the run ends, its loggers are told, in Lightning's words."""
    status = "failed"
    try:
        yield
        status = "success"
    except (StoppedError, KeyboardInterrupt):
        status = "aborted"
        raise
    finally:
        if fabric.is_global_zero:
            for logger in fabric.loggers:
                logger.finalize(status)


def _train(
    run: RunFolder,
    network: Model,
    source: Source,
    classes: int,
    config: TrainConfig,
    fabric: Any,
    path: str,
    progress: bool,
    title: str,
) -> None:
    dtype = torch.float64 if config.precision == "64-true" else torch.float32
    network.to(fabric.device, dtype)
    if fabric.device.type == "cuda":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if fabric.world_size > 1:
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    watched = classes if classes <= MOST_CLASSES or config.loss == "cross_entropy" else 0
    watch = Watch(network.encoder_width, config.features, watched, fabric.device, dtype)
    step = Step(fabric, network, optimiser_of(network.parameters(), config, fabric.device), watch, config, path)
    feed = open_feed(source, config, fabric.device)
    data = fingerprint(source)
    per_epoch, share = len(source) // config.batch_size, _share(source, config, fabric.world_size)
    done = restore_state(run, step, data, per_epoch) if run.resumes else 0

    steps, warmup = config.epochs * per_epoch, config.warmup_epochs * per_epoch
    show = progress and fabric.is_global_zero
    if show:
        images = "x".join(map(str, source.images.shape[1:3]))
        say(f"Data: {len(source):,} images of {images} pixels, {feed.where}.")
        say(f"Step: {_PATHS[path]}; {config.precision}, {fabric.world_size} x {fabric.device.type}.")
        if watched < classes:
            say(
                f"Labels: up to {classes - 1:,}; with more than {MOST_CLASSES:,} classes there is neither a probe nor"
                " class consistency in the log."
            )
        if run.resumes:
            say(f"Going on after {done:,} of {steps:,} steps.")
    mine = slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
    network.train()
    with progress_bar(config.epochs, done / per_epoch, title, show) as bar, StopSignals(fabric.device) as stop:
        for epoch in range(done // per_epoch, config.epochs):
            start, first = time.perf_counter(), done % per_epoch
            order = epoch_order(len(source), config.seed, epoch)[: per_epoch * config.batch_size]
            for batch in feed.batches(order.view(per_epoch, config.batch_size)[first:, mine]):
                step(batch, epoch, learning_rate(config, done, steps, warmup))
                done += 1
                bar.at(done / per_epoch)
                told = stop.agreed(done)
                if done % per_epoch and (told or done % config.checkpoint_steps == 0):
                    save_state(run, step, data, done, epoch)
                    leave_if(told, run, fabric, done, steps)
            watch.reduce(step.group)
            figures = watch.figures()
            watch.clear()
            refuse_to_diverge(figures["loss"], epoch, config)
            refuse_to_die(figures, epoch, config)
            seconds = time.perf_counter() - start
            line = {
                "epoch": epoch + 1,
                "step": done,
                **figures,
                "effective_rank": metrics.effective_rank(step.last_features),  # of this process's last batch
                "lr": learning_rate(config, done - 1, steps, warmup),
                "views_per_second": (per_epoch - first) * config.batch_size * step.views_per_sample / seconds,
                "seconds": seconds,
            }
            if fabric.is_global_zero:
                run.log(line)
                fabric.log_dict({k: v for k, v in line.items() if k != "epoch"}, step=epoch + 1)
                bar(line)
            # After the log: a run that goes on from the end of an epoch begins the next one with nothing added up.
            if told or done % config.checkpoint_steps == 0:
                save_state(run, step, data, done, epoch)
                leave_if(told if done < steps else None, run, fabric, done, steps)
    refuse_to_keep_divergence(network.parameters(), config.epochs - 1, config)

    def finish() -> None:
        run.checkpoints.wait()
        network.save(run.model)

    by_first(fabric, finish)


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """A permutation of the samples that depends on (seed, epoch) alone."""
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    return torch.randperm(samples, generator=generator)


# Before the first step


def new_model(config: TrainConfig, source: Source) -> Model:
    """The untrained network of a run: the same for the same seed."""
    torch.manual_seed(config.seed)
    _, height, width, channels = source.images.shape
    whole = height if height == width else 0
    classes = _classes(source, config) if config.loss == "cross_entropy" else 0
    shape = config.model(channels, config.views.size or whole, classes)
    if 0 < config.views.size < whole and not shape.resize:  # views are cut out of images as they are
        shape = replace(shape, resize=whole)
    return Model(shape)


def _classes(source: Source, config: TrainConfig) -> int:
    if source.labels is None:
        if config.loss in ("sup_con", "cross_entropy"):
            raise InputError(f"loss is {config.loss!r}, which needs labels, and {config.data} has none")
        return 0
    if config.loss in ("sup_con", "cross_entropy") and source.labels.min() < 0:
        raise InputError(f"loss is {config.loss!r}, which needs a label for every sample, and {config.data} lacks some")
    return int(source.labels.max()) + 1


def _share(source: Source, config: TrainConfig, processes: int) -> int:
    """Samples of a step for each process."""
    if len(source) < config.batch_size:
        raise InputError(
            f"batch_size is {config.batch_size}, expected at most the {len(source)} samples of {config.data}"
        )
    parts = processes * config.accumulate
    if config.batch_size % parts or config.batch_size < 2 * parts:
        raise InputError(
            f"batch_size is {config.batch_size}, expected a multiple of processes x accumulate, {processes} x"
            f" {config.accumulate}, with at least 2 samples each"
        )
    return config.batch_size // processes


def _fabric(config: TrainConfig, loggers: list[Any]) -> Any:
    from lightning_fabric import Fabric  # takes a second to import, which a refused config need not wait for

    # As the compiler does, it advises to lower float32's precision.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    processes = launched_processes()
    # A backbone of another library may have parameters that its output does not come from; to look for them takes time.
    strategy = "ddp_find_unused_parameters_true" if ":" in config.encoder else "ddp"
    try:
        fabric = Fabric(
            accelerator=config.accelerator,
            devices=processes.here,
            num_nodes=processes.nodes,
            strategy=strategy if processes.total > 1 else "auto",
            loggers=loggers,  # precision is the step's, so that it is the same whether compiled or not
        )
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        what = "SLURM's tasks" if "slurm" in reason.lower() else f"accelerator {config.accelerator!r}"
        raise InputError(f"{what} cannot be used: {reason}") from error
    fabric.launch()
    return fabric


def _path(config: TrainConfig, fabric: Any) -> str:
    """Which way the step takes. 'auto' is the fastest that works here."""
    on_gpu = fabric.device.type == "cuda"
    can_record = on_gpu and fabric.world_size == 1 and config.accumulate == 1 and config.precision != "64-true"
    if config.compile == "graph" and not can_record:
        raise InputError(
            f"compile is 'graph' on {fabric.world_size} x {fabric.device.type} in {config.precision} with accumulate"
            f" {config.accumulate}, expected one CUDA device in float32 or bf16 with accumulate 1"
        )
    if config.compile != "auto":
        return config.compile
    return "graph" if can_record else "forward" if on_gpu else "off"


def _board(folder: Path) -> Any:
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    try:
        return TensorBoardLogger(folder, name=BOARD, version="")
    except ModuleNotFoundError as error:
        raise InputError(
            "tensorboard is not installed; pip install 'nonneg[tensorboard]', or leave --tensorboard out"
        ) from error


def _open_run(out: Path, config: TrainConfig, overwrite: bool, fabric: Any) -> RunFolder:
    """The first process decides whether the folder can be had; the others follow it, also in being refused."""
    run = by_first(fabric, lambda: RunFolder(out, config, overwrite, fabric.device))
    run = run or RunFolder.of_another_process(out)
    run.resumes = fabric.broadcast(run.resumes if fabric.is_global_zero else None)
    return run
