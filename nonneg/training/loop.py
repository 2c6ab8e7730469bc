"""The training loop, top to bottom: config in, run folder out."""

import hashlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nonneg import metrics
from nonneg.data import Source, open_source
from nonneg.errors import InputError, StoppedError, UntrainableError
from nonneg.models import Model
from nonneg.processes import started
from nonneg.training._checkpoint import Checkpoint, optimiser_tensors, restore_optimiser
from nonneg.training._feed import open_feed
from nonneg.training._optimisers import learning_rate, optimiser_of
from nonneg.training._progress import progress_bar, say
from nonneg.training._run import BOARD, RunFolder
from nonneg.training._step import Step
from nonneg.training._stop import StopSignals
from nonneg.training._watch import Watch
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

    Returns:
        The run's folder, for `nonneg.load`.
    """
    source = open_source(
        config.data, "train", image_size=config.image_size, skip_broken=config.skip_broken, progress=progress
    )
    classes = _classes(source, config)
    fabric = _fabric(config, [*loggers, *([_board(Path(out))] if tensorboard else [])])
    _share(source, config, fabric.world_size)
    path = _path(config, fabric)
    network = new_model(config, source)
    # Nothing is written, and nothing overwritten, before everything that can be refused has been.
    with _open_run(Path(out), config, overwrite, fabric) as run:
        if fabric.is_global_zero:
            run.record_broken(source.skipped)
        with _fastest_kernels():
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
    watch = Watch(network.encoder_width, config.features, classes, fabric.device, dtype)
    step = Step(fabric, network, optimiser_of(network.parameters(), config, fabric.device), watch, config, path)
    feed = open_feed(source, config, fabric.device)
    data = _fingerprint(source)
    per_epoch, share = len(source) // config.batch_size, _share(source, config, fabric.world_size)
    done = _restore(run, step, data, per_epoch) if run.resumes else 0

    steps, warmup = config.epochs * per_epoch, config.warmup_epochs * per_epoch
    show = progress and fabric.is_global_zero
    if show:
        images = "x".join(map(str, source.images.shape[1:3]))
        say(f"Data: {len(source):,} images of {images} pixels, {feed.where}.")
        say(f"Step: {_PATHS[path]}; {config.precision}, {fabric.world_size} x {fabric.device.type}.")
        if run.resumes:
            say(f"Going on after {done:,} of {steps:,} steps.")
    mine = slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
    network.train()
    with progress_bar(config.epochs, done // per_epoch, title, show) as bar, StopSignals(fabric.device) as stop:
        for epoch in range(done // per_epoch, config.epochs):
            start, first = time.perf_counter(), done % per_epoch
            order = epoch_order(len(source), config.seed, epoch)[: per_epoch * config.batch_size]
            for batch in feed.batches(order.view(per_epoch, config.batch_size)[first:, mine]):
                step(batch, epoch, learning_rate(config, done, steps, warmup))
                done += 1
                told = stop.agreed(done)
                if done % per_epoch and (told or done % config.checkpoint_steps == 0):
                    _save(run, step, data, done, epoch)
                    _leave_if(told, run, done, steps)
            watch.reduce(step.group)
            figures = watch.figures()
            watch.clear()
            _refuse_to_diverge(figures["loss"], epoch, config)
            _refuse_to_die(figures, epoch, config)
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
                _save(run, step, data, done, epoch)
                _leave_if(told if done < steps else None, run, done, steps)
    if fabric.is_global_zero:
        run.checkpoints.wait()
        network.save(run.model)
        for logger in fabric.loggers:
            logger.finalize("success")
    fabric.barrier()


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """A permutation of the samples that depends on (seed, epoch) alone."""
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    return torch.randperm(samples, generator=generator)


# Before the first step


def new_model(config: TrainConfig, source: Source) -> Model:
    """The untrained network of a run: the same for the same seed."""
    torch.manual_seed(config.seed)
    _, height, width, channels = source.images.shape
    side = config.views.size or (height if height == width else 0)
    return Model(config.model(channels, side, _classes(source, config) if config.loss == "cross_entropy" else 0))


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

    # It tells whoever has Tensor Cores to lower float32's precision; that is the config's business.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    processes = started()
    try:
        fabric = Fabric(
            accelerator=config.accelerator,
            devices=processes.here,
            num_nodes=processes.nodes,
            strategy="ddp" if processes.total > 1 else "auto",
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
            f"compile is 'graph' on {fabric.world_size} x {fabric.device.type} in {config.precision}, expected one CUDA"
            " device in float32 or bf16"
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
    refusal = None
    if fabric.is_global_zero:
        try:
            run = RunFolder(out, config, overwrite, fabric.device)
        except InputError as error:
            if fabric.world_size == 1:
                raise
            refusal = str(error)
    refusal = fabric.broadcast(refusal)
    if refusal is not None:
        raise InputError(refusal)
    if not fabric.is_global_zero:
        run = RunFolder.of_another_process(out)
    run.resumes = fabric.broadcast(run.resumes if fabric.is_global_zero else None)
    return run


# Saving and going on


def _save(run: RunFolder, step: Step, data: str, done: int, epoch: int) -> None:
    """All processes take part, the first one writes; it writes while training goes on."""
    step.watch.reduce(step.group)
    _refuse_to_diverge(float(step.watch.loss), epoch, step.config)
    states = _gathered(torch.get_rng_state(), step)
    tensors = {f"model.{name}": tensor for name, tensor in step.model.state_dict().items()}
    tensors |= {f"optimiser.{name}": tensor for name, tensor in optimiser_tensors(step.optimiser.optimizer)}
    tensors |= {f"watch.{name}": tensor for name, tensor in step.watch.tensors().items()}
    tensors |= {f"random.{rank}": state for rank, state in enumerate(states)}
    if step.fabric.device.type == "cuda":
        states = _gathered(torch.cuda.get_rng_state(step.fabric.device), step)
        tensors |= {f"random.cuda.{rank}": state for rank, state in enumerate(states)}
    if step.fabric.is_global_zero:
        copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
        run.checkpoints.save(Checkpoint(done, data, copies))
    else:
        step.watch.clear()  # the first process has the sums of all now


def _restore(run: RunFolder, step: Step, data: str, per_epoch: int) -> int:
    """The state of the newest checkpoint; returns the updates done by then."""
    checkpoint = run.checkpoints.newest()
    done = checkpoint.step if checkpoint else 0
    step.fabric.barrier()  # all have read it
    if checkpoint:
        if checkpoint.data != data:
            raise InputError(
                f"{run.folder} was trained on other data than {step.config.data} holds now; put it back or pass"
                " --overwrite to start over"
            )
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "watch": {}, "random": {}}
        for name, tensor in checkpoint.tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = tensor
        step.model.load_state_dict(parts["model"])
        restore_optimiser(step.optimiser.optimizer, parts["optimiser"])
        for name, tensor in step.watch.tensors().items():
            tensor.copy_(parts["watch"][name])
        if not step.fabric.is_global_zero:
            step.watch.clear()
        rank = step.fabric.global_rank
        if str(rank) in parts["random"]:
            torch.set_rng_state(parts["random"][str(rank)])
        if step.fabric.device.type == "cuda" and f"cuda.{rank}" in parts["random"]:
            torch.cuda.set_rng_state(parts["random"][f"cuda.{rank}"], step.fabric.device)
    if step.fabric.is_global_zero:
        run.checkpoints.forget_after(done)
        run.keep_log(done // per_epoch)
        run.record_resumption(done, step.fabric.device)
    return done


def _gathered(state: Tensor, step: Step) -> list[Tensor]:
    """One of each process."""
    if step.group is None:
        return [state]
    here = state.to(step.fabric.device)
    states = [torch.empty_like(here) for _ in range(step.fabric.world_size)]
    dist.all_gather(states, here)
    return states


def _fingerprint(source: Source) -> str:
    """Of the samples, their order and labels, and the pixels of some: to read all would take as long as an epoch."""
    digest = hashlib.sha256(repr((source.images.shape, source.label_names)).encode())
    for name in source.ids:
        digest.update(name.encode() + b"\n")
    if source.labels is not None:
        digest.update(source.labels.tobytes())
    for row in range(0, len(source), max(1, len(source) // 64)):
        digest.update(source.images[row].tobytes())
    return digest.hexdigest()


def _leave_if(told: int | None, run: RunFolder, done: int, steps: int) -> None:
    """Stop here if a signal said so; all work is on disk then."""
    if told is None:
        return
    run.checkpoints.wait()
    raise StoppedError(
        f"stopped after {done:,} of {steps:,} steps, which {run.folder} holds: train into it again to go on",
        signal=told,
    )


# What ends a run


def _refuse_to_diverge(loss: float, epoch: int, config: TrainConfig) -> None:
    if not math.isfinite(loss):
        raise UntrainableError(
            f"the loss became {loss} in epoch {epoch + 1}: training diverged at lr {config.lr:g} with"
            f" rectify {config.rectify!r}; lower lr, lengthen warmup_epochs or raise temperature"
        )


def _refuse_to_die(figures: dict[str, float], epoch: int, config: TrainConfig) -> None:
    if not figures["live"]:
        raise UntrainableError(
            f"all {config.features} features were 0 for every sample of epoch {epoch + 1}: nothing is left to learn"
            f" with rectify {config.rectify!r} at lr {config.lr:g}; lower lr or set rectify to rep_relu"
        )
