"""The training loop, top to bottom: config in, run folder out."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nonneg import metrics
from nonneg.errors import InputError, StoppedError
from nonneg.modalities import Source
from nonneg.modalities.own import Own, source_of
from nonneg.models import OWN_ENCODER, Model, output_width
from nonneg.processes import on_first_process
from nonneg.progress import print_line
from nonneg.training._checks import check_features_alive, check_finite, check_weights, stop_if
from nonneg.training._devices import board, chosen_path, open_fabric
from nonneg.training._estimate import estimated_seconds, in_words
from nonneg.training._feed import LoadedViews, needed_memory, open_feed
from nonneg.training._optimisers import active_share, dense_weight, learning_rate, optimiser_of, parameter_groups
from nonneg.training._progress import EpochProgress, epoch_progress
from nonneg.training._resume import fingerprint, restore_state, save_state
from nonneg.training._run import RunFolder
from nonneg.training._step import Step, step_bytes, views_per_sample
from nonneg.training._stop import StopSignals
from nonneg.training._watch import MOST_CLASSES, Watch
from nonneg.training.config import TrainConfig
from nonneg.validation import check_type

_FEWEST_STEPS = 50  # for which the time is worth estimating
_PATHS = {
    "graph": "compiled, the whole step replayed as one CUDA graph",
    "record": "not compiled, the whole step replayed as one CUDA graph",
    "forward": "the forward pass compiled",
    "off": "eager, nothing compiled",
}


def train(
    config: TrainConfig,
    out: str | Path,
    *,
    source: Any = None,
    encoder: nn.Module | None = None,
    views: Callable[[Any], Any] | None = None,
    preprocess: Callable[[Any], Any] | None = None,
    overwrite: bool = False,
    progress: bool = True,
    title: str = "training",
    tensorboard: bool = False,
    loggers: Sequence[Any] = (),
) -> Path:
    """Train a model and write a run: config, log (one line per epoch), checkpoints, environment, model.

    An unfinished run is resumed. Under torchrun or SLURM, processes train together, with the same result as one.

    Args:
        config: the settings.
        out: the run's folder; must not hold a finished run.
        source: samples to train on instead of `config.data`: a `Source`, an array or Hugging Face dataset of images,
            or, with `views`, any map-style dataset.
        encoder: a module to train instead of `config.encoder`; load the run with `nonneg.load(out, encoder=module)`.
        views: a callable from one sample of `source` to one random view, such as a transform of torchvision or
            albumentations. It runs in loader processes; `random`, NumPy and torch are seeded for each view.
        preprocess: a callable from one sample to the encoder's input outside training, for `views`.
        overwrite: start over, replacing any run in that folder.
        progress: show a progress bar, and print which data are used and what is compiled.
        title: the progress bar's label.
        tensorboard: also write the log for TensorBoard.
        loggers: Lightning loggers that receive the log's figures.

    Returns:
        The run's folder, for `nonneg.load`.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> images = np.random.default_rng(0).integers(0, 256, (64, 8, 8), dtype=np.uint8)
        >>> run = train(TrainConfig(epochs=1, warmup_epochs=0, batch_size=32), tempfile.mkdtemp(), source=images)
        >>> sorted(path.name for path in run.iterdir())
        ['config.toml', 'environment.json', 'log.jsonl', 'model']
    """
    _check_types(config, out, encoder, views, preprocess, loggers)
    config, source = _opened(config, source, encoder, views, preprocess, progress)
    classes = _classes(source, config)
    fabric = open_fabric(config, [*loggers, *([board(Path(out))] if tensorboard else [])])
    _check_batch_size(source, config, fabric.world_size)
    path = chosen_path(config, fabric)
    network = new_model(config, source, encoder)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InputError("nothing can be trained: the encoder is frozen and projector_depth is 0")
    source = network.modality.open(source)  # it may read samples in a way that the encoder decides, such as tokens
    step = step_bytes(network, source, config, fabric.world_size)
    memory = needed_memory(source, config, fabric, step, views_per_sample(config))
    # Nothing is written or overwritten before all input has been checked.
    with _open_run(Path(out), config, overwrite, fabric) as run:
        on_first_process(lambda: run.record_broken(source.skipped))
        with _fastest_kernels(config.precision), _quiet_compiler(), _finalised_loggers(fabric):
            session = _start(run, network, source, classes, config, fabric, path)
            _run(session, memory if progress and fabric.is_global_zero else None, title)
    return run.folder


class _Session(NamedTuple):
    """Everything the loop needs."""

    run: RunFolder
    step: Step
    source: Source
    feed: Any
    data: str  # fingerprint of the data
    classes: int
    path: str  # what is compiled, one of `_PATHS`
    per_epoch: int  # steps per epoch
    done: int  # steps done when the run was interrupted


def _start(
    run: RunFolder, network: Model, source: Source, classes: int, config: TrainConfig, fabric: Any, path: str
) -> _Session:
    dtype = torch.float64 if config.precision == "64-true" else torch.float32
    network.to(fabric.device, dtype)
    if fabric.device.type == "cuda":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if fabric.world_size > 1:
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    watched = classes if classes <= MOST_CLASSES or config.loss == "cross_entropy" else 0
    watch = Watch(network.encoder_width, config.features, watched, fabric.device, dtype)
    optimiser = optimiser_of(parameter_groups(network, config), config, fabric.device)
    step = Step(fabric, network, optimiser, watch, config, path)
    feed = open_feed(source, config, fabric.device, views_per_sample(config))
    data, per_epoch = fingerprint(source), len(source) // config.batch_size
    done = restore_state(run, step, data) if run.resumes else 0
    return _Session(run, step, source, feed, data, classes, path, per_epoch, done)


def _run(session: _Session, memory: str | None, title: str) -> None:
    """Run all epochs. `memory` is printed with what else is known before the first step; None prints nothing."""
    run, step, per_epoch, done = session.run, session.step, session.per_epoch, session.done
    config, fabric, network = step.config, step.fabric, step.model
    steps, warmup = config.epochs * per_epoch, config.warmup_epochs * per_epoch
    if memory is not None:
        _describe(session, memory)
    rows = config.batch_size // fabric.world_size
    mine = slice(fabric.global_rank * rows, (fabric.global_rank + 1) * rows)
    network.train()
    with (
        epoch_progress(config.epochs, done / per_epoch, title, memory is not None) as bar,
        StopSignals(fabric.device) as stop,
    ):
        for epoch in range(done // per_epoch, config.epochs):
            start, first = time.perf_counter(), done % per_epoch
            order = epoch_order(len(session.source), config.seed, epoch)[: per_epoch * config.batch_size]
            for batch in session.feed.batches(order.view(per_epoch, config.batch_size)[first:, mine], epoch):
                lr, share = learning_rate(config, done, steps, warmup), active_share(config, done, steps)
                step(batch, epoch, lr, share, dense_weight(config, done, steps))
                done += 1
                bar.move_to(done / per_epoch)
                stopped = stop.agreed(done)
                if done % per_epoch and (stopped or done % config.checkpoint_steps == 0):
                    save_state(run, step, session.data, done, epoch)
                    stop_if(stopped, run, done, steps)
            speed = (per_epoch - first) * config.batch_size * step.views_per_sample
            lr = learning_rate(config, done - 1, steps, warmup)
            _log_epoch(session, bar, epoch, {"step": done, "lr": lr}, speed, start)
            # After the log: a run resumed from the end of an epoch starts the next one with all sums at zero.
            if stopped or done % config.checkpoint_steps == 0:
                save_state(run, step, session.data, done, epoch)
                stop_if(stopped if done < steps else None, run, done, steps)
    check_weights(network, config.epochs - 1, config)

    def finish() -> None:
        run.checkpoints.wait()
        run.check_owned()
        run.checkpoints.remove_old()  # one is left if the run was killed after its last checkpoint
        network.modality.finish(network.encoder)
        if config.precision != "64-true":  # samples are embedded in float32
            network.calibrate(session.source)
        network.save(run.model)

    on_first_process(finish)


def _log_epoch(
    session: _Session, bar: EpochProgress, epoch: int, known: dict[str, float], views: int, start: float
) -> None:
    step, fabric = session.step, session.step.fabric
    step.watch.reduce(step.group)
    figures = step.watch.figures()
    step.watch.clear()
    check_finite(figures["loss"], epoch, step.config)
    check_features_alive(figures, epoch, step.config)
    seconds = time.perf_counter() - start
    line = {
        "epoch": epoch + 1,
        "step": known["step"],
        **figures,
        "effective_rank": metrics.effective_rank(step.last_features),  # of this process's last batch
        "lr": known["lr"],
        **step.temperatures(),
        "views_per_second": views / seconds,
        "seconds": seconds,
    }

    def log() -> None:
        session.run.log(line)
        fabric.log_dict({name: value for name, value in line.items() if name != "epoch"}, step=epoch + 1)
        bar.epoch_done(line)

    on_first_process(log)


def _describe(session: _Session, memory: str) -> None:
    config, fabric = session.step.config, session.step.fabric
    shape = getattr(session.source.samples, "shape", ())[1:]
    kind = config.modality.name or "samples"
    size = f" of {' x '.join(map(str, shape))}" if shape else ""
    print_line(f"Data: {len(session.source):,} {kind}{size}, {session.feed.where}.")
    unused = (f"{name} is not used by these settings" for name in config.without_effect())
    for note in (*session.source.notes, *unused, *config.modality.for_encoder(config.encoder)[1]):
        print_line(f"Note: {note}.")
    print_line(f"Step: {_PATHS[session.path]}; {config.precision}, {fabric.world_size} x {fabric.device.type}.")
    print_line(f"Memory: {memory}.")
    _describe_time(session)
    if session.step.watch.classes < session.classes:
        print_line(
            f"Labels: up to {session.classes - 1:,}; with more than {MOST_CLASSES:,} classes the log has neither a"
            " probe nor class consistency."
        )
    if session.run.resumes:
        print_line(f"Resuming after {session.done:,} of {config.epochs * session.per_epoch:,} steps.")


def _describe_time(session: _Session) -> None:
    """Print how long the run will take, unless views come from loader processes, which decide the speed."""
    step, remaining = session.step, session.step.config.epochs * session.per_epoch - session.done
    if isinstance(session.feed, LoadedViews) or remaining < _FEWEST_STEPS:
        return
    rows = torch.arange(step.config.batch_size // step.fabric.world_size)[None]
    seconds = estimated_seconds(step, next(session.feed.batches(rows, 0)), remaining, session.path)
    if seconds is not None:
        print_line(f"Time: about {in_words(seconds)}.")


@contextmanager
def _fastest_kernels(precision: str) -> Iterator[None]:
    """Let cuDNN choose kernels by timing them, which pays off because every step has the same shapes."""
    benchmark = torch.backends.cudnn.benchmark
    # Read only if it is to change: torch refuses to read it in a process that uses its newer settings.
    matmul = torch.get_float32_matmul_precision() if precision == "tf32" else None
    torch.backends.cudnn.benchmark = True
    if matmul is not None:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = benchmark
        if matmul is not None:
            torch.set_float32_matmul_precision(matmul)


@contextmanager
def _quiet_compiler() -> Iterator[None]:
    """Hide the compiler's advice to lower the precision of float32, which the config decides, and its own warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
        warnings.filterwarnings("ignore", ".*torch._prims_common", FutureWarning)
        yield


@contextmanager
def _finalised_loggers(fabric: Any) -> Iterator[None]:
    """Tell loggers how the run ended, by Lightning's names of outcomes."""
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


def epoch_order(samples: int, seed: int, epoch: int) -> Tensor:
    """Return a permutation of the samples that depends only on (seed, epoch)."""
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    return torch.randperm(samples, generator=generator)


# Before the first step


def _check_types(config: Any, out: Any, encoder: Any, views: Any, preprocess: Any, loggers: Any) -> None:
    for name, value, kind, expected in (
        ("config", config, TrainConfig, "a TrainConfig, such as load_recipe returns"),
        ("out", out, str | Path, "the path of a folder"),
        ("encoder", encoder, nn.Module | None, "a module"),
        ("views", views, Callable | None, "a function of one sample"),
        ("preprocess", preprocess, Callable | None, "a function of one sample"),
        ("loggers", loggers, Sequence, "a list of Lightning loggers"),
    ):
        check_type(name, value, kind, expected)


def _opened(
    config: TrainConfig,
    source: Any,
    encoder: nn.Module | None,
    views: Callable[[Any], Any] | None,
    preprocess: Callable[[Any], Any] | None,
    progress: bool,
) -> tuple[TrainConfig, Source]:
    """Open the data, and record in the config what the caller has passed instead of settings."""
    if encoder is not None:
        config = replace(config, encoder=OWN_ENCODER)
    elif config.encoder == OWN_ENCODER:
        raise InputError("encoder is 'own', expected a module as encoder= as well")
    if views is not None:
        if source is None:
            raise InputError("views is given without source, expected a dataset whose samples it transforms")
        if isinstance(source, Source):
            raise InputError(f"views is given with the Source {source.name!r}, expected a map-style dataset")
        modality = config.modality if isinstance(config.modality, Own) else Own()
        source = source_of(source, views, preprocess)
        batch_size = config.batch_size or len(source)
        return replace(config, modality=modality, data=source.name, batch_size=batch_size), source
    if preprocess is not None:
        raise InputError("preprocess is given without views, expected both or neither")
    config = replace(config, modality=config.modality.for_encoder(config.encoder)[0])
    opened = config.modality.open(config.data if source is None else source, progress=progress)
    if len(opened) == 1:
        raise InputError(f"{opened.name} has 1 sample, expected at least 2 to train on")
    # A source that cannot be loaded is an error before anything is written.
    config.modality.load_views(opened, torch.zeros((0, 1), dtype=torch.int64), config.seed, 0, 0)
    data = config.data if source is None else opened.name
    return replace(config, data=data, batch_size=config.batch_size or len(opened)), opened


def new_model(config: TrainConfig, source: Source, encoder: nn.Module | None = None) -> Model:
    """Create the untrained network of a run, the same for the same seed."""
    torch.manual_seed(config.seed)
    classes = _classes(source, config) if config.loss == "cross_entropy" else 0
    modality = config.modality.fitted(source)
    width = 0 if encoder is None else output_width(encoder, modality, source)
    return Model(config.model(modality, classes, width), encoder)


def _classes(source: Source, config: TrainConfig) -> int:
    if source.labels is None:
        if config.loss in ("sup_con", "cross_entropy"):
            raise InputError(f"loss is {config.loss!r}, which needs labels, and {config.data} has none")
        return 0
    if config.loss in ("sup_con", "cross_entropy") and source.labels.min() < 0:
        raise InputError(f"loss is {config.loss!r}, which needs a label for every sample, and {config.data} lacks some")
    return int(source.labels.max()) + 1


def _check_batch_size(source: Source, config: TrainConfig, processes: int) -> None:
    if len(source) < config.batch_size:
        raise InputError(
            f"batch_size is {config.batch_size}, expected at most the {len(source)} samples of {config.data}, or 0 for"
            " all of them"
        )
    parts = processes * config.accumulate
    if config.batch_size % parts or config.batch_size < 2 * parts:
        raise InputError(
            f"batch_size is {config.batch_size}, expected a multiple of processes x accumulate, {processes} x"
            f" {config.accumulate}, with at least 2 samples each"
        )
    if config.encode_rows and 1 in (config.encode_rows, config.batch_size // processes % config.encode_rows):
        raise InputError(
            f"encode_rows is {config.encode_rows} with {config.batch_size // processes} samples per process, which"
            " leaves a part of one sample; expected parts of at least 2"
        )


def _open_run(out: Path, config: TrainConfig, overwrite: bool, fabric: Any) -> RunFolder:
    """Claim the folder on the first process; if that fails, all processes raise the error."""
    run = on_first_process(lambda: RunFolder(out, config, overwrite, fabric.device))
    run = run or RunFolder.of_another_process(out)
    run.resumes = fabric.broadcast(run.resumes if fabric.is_global_zero else None)
    return run
