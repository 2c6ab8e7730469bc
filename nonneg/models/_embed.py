"""Embedding a data set into `Features` on disk, in one process or in several that each take a share."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist

from nonneg.devices import choose_device
from nonneg.durable import os_errors_as_input_errors, temporary_path
from nonneg.errors import InputError
from nonneg.extras import needs_extra
from nonneg.features import Features, is_features
from nonneg.modalities import Source
from nonneg.models._agreement import with_agreement
from nonneg.models._collect import feature_figures, features_of, joined
from nonneg.models._store import load, weights_digest
from nonneg.models._stream import Layer, Precision, aligned_shares, check_batch_size, usual_batch_size
from nonneg.naming import save_suggestions
from nonneg.processes import Processes, all_or_none, launched_processes
from nonneg.progress import print_line, progress_bar


@dataclass(frozen=True)
class EmbedOptions:
    """How to embed a data set.

    Attributes:
        split: the part of the data: train (everything, if the data has no splits) or test.
        layer: projector, encoder or both.
        batch_size: samples per batch, which changes codes only by rounding; None chooses it.
        accelerator: where to compute.
        precision: numerical precision of the forward pass.
        skip_broken: leave out samples that cannot be read.
        media: store previews of the samples, such as the images or thumbnails of large ones.
        overwrite: replace earlier features in the folder.
        side: for a model of pairs, which side of them, such as image or text; "" for the first.
    """

    split: str = "train"
    layer: Literal["projector", "encoder", "both"] = "projector"
    batch_size: int | None = None
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Precision = "32-true"
    skip_broken: bool = False
    media: bool = True
    overwrite: bool = False
    side: str = ""


def embed_data(
    run: str, data: str, out: Path | None = None, options: EmbedOptions | None = None, *, progress: bool = True
) -> list[Path]:
    """Embed a data set with a run's model and save its `Features`; with several processes, each takes a share.

    Args:
        run: a run's folder, a model's folder, or `hub:owner/name`.
        data: data that the model's modality can open.
        out: the features' folder; by default beside the run, named after the run and the data. For both layers, the
            layer's name is added before the suffix.
        options: how to embed.
        progress: show a progress bar.

    Returns:
        The folders written.
    """
    options = options or EmbedOptions()
    if options.batch_size is not None:
        check_batch_size(options.batch_size)
    processes = launched_processes()
    if processes.total > 1:
        _init_process_group(processes)
    work = _work(run, data, out, options, progress and processes.is_first, processes)
    while (written := all_or_none(lambda: next(work))) is None:
        pass
    return written


def _work(
    run: str, data: str, out: Path | None, options: EmbedOptions, progress: bool, processes: Processes
) -> Iterator[list[Path] | None]:
    """Do the work of one process in parts, and yield None after each: all processes finish one before the next begins.

    Yields the folders at the end.
    """
    model = load(run)
    skip_broken = options.skip_broken or None
    source = model.open(data, options.split, side=options.side, skip_broken=skip_broken, progress=progress)
    for note in source.notes if progress else ():
        print_line(f"Note: {note}.")
    layers: tuple[Layer, ...] = ("encoder", "projector") if options.layer == "both" else (options.layer,)
    side = options.side or next(iter(model.modality.sides), "")
    folders = _folders(_beside(run, source, side) if out is None else out, layers, options.overwrite)
    device = _device(options.accelerator, processes)
    batch_size = options.batch_size or usual_batch_size(source, device)
    shares = aligned_shares(len(source), batch_size, processes.total)
    if processes.is_first:  # left by an interrupted run
        for folder in folders.values():
            _remove_parts(folder)
    yield None
    mine = shares[processes.rank]
    features: dict[Layer, Features] = {}
    with progress_bar(progress) as bar:
        task = bar.add_task("embedding", total=len(mine))
        if mine or processes.is_first:  # without any sample that is an error
            features = features_of(
                model,
                source,
                mine,
                layers,
                batch_size=batch_size,
                device=device,
                precision=options.precision,
                media=options.media,
                origin={
                    "run": _run_name(run),
                    "weights": weights_digest(run),
                    **({"side": side} if side else {}),
                },
                advance=lambda samples: bar.advance(task, samples),
            )
    in_parts, has_partners = processes.total > 1, bool(side) and model.modality.partners(source) is not None
    if in_parts:
        for name, share in features.items():
            share.save(_part(folders[name], processes.rank), overwrite=options.overwrite)
    yield None
    for name, folder in folders.items() if processes.is_first else ():
        whole = features[name]
        if in_parts:
            whole = joined([Features.load(_part(folder, rank)) for rank, share in enumerate(shares) if share])
            whole = whole.with_provenance(feature_figures(model, source, whole.codes)) if options.media else whole
        if has_partners and name == "projector":
            whole = with_agreement(whole, model.to(device), source, whole)
        whole.save(folder, overwrite=options.overwrite)
        _remove_parts(folder)
    if processes.is_first and side and options.media and model.config.rectify != "none" and "projector" in folders:
        # Samples of pairs have words, so that features can name themselves; dense ones stand for nothing of their own.
        save_suggestions(Features.load(folders["projector"]), folders["projector"], progress=progress)
    yield list(folders.values())


def _folders(out: Path, layers: tuple[Layer, ...], overwrite: bool) -> dict[Layer, Path]:
    """Return the folder of each layer, after checking before the work that it can be written."""
    if len(layers) > 1 and out.name in ("", ".."):
        raise InputError(f"out is {out}, expected the name of a folder, to which the layers' names are added")
    folders = {name: out if len(layers) == 1 else out.with_name(f"{out.stem}-{name}{out.suffix}") for name in layers}
    for folder in folders.values():
        _check_writable(folder, overwrite)
    return folders


def _run_name(run: str) -> str:
    if run.startswith("hub:"):
        return run
    path = Path(run).resolve()
    return path.parent.name if path.name == "model" else path.name


def _beside(run: str, source: Source, side: str) -> Path:
    """Return `runs/x-photos-train.features` for `runs/x` and `photos/train`; in the current folder for a hub model.

    The name of a side of pairs is added.
    """
    data = source.name.replace("/", "-") + (f"-{side}" if side else "")
    name = f"{_run_name(run).rpartition('/')[2].partition('@')[0]}-{data}.features"
    if run.startswith("hub:"):
        return Path(name)
    path = Path(run).resolve()
    folder = (path.parent if path.name == "model" else path).parent
    return folder.relative_to(Path.cwd()) / name if folder.is_relative_to(Path.cwd()) else folder / name


def _check_writable(folder: Path, overwrite: bool) -> None:
    """Check that the folder can be written."""
    if folder.exists() and not is_features(folder):
        raise InputError(f"{folder} does not hold features and is never replaced; choose another --out")
    if folder.exists() and not overwrite:
        raise InputError(f"{folder} exists already; choose another --out, or --overwrite to replace features")
    with os_errors_as_input_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        trial = temporary_path(folder.parent)
        trial.touch()
        trial.unlink()


def _init_process_group(processes: Processes) -> None:
    """Connect the processes, so that they can wait for each other."""
    if not dist.is_initialized():
        if "MASTER_ADDR" in os.environ:  # set by torchrun, also inside a SLURM job
            dist.init_process_group("gloo")
        else:
            with needs_extra("train", "embedding under SLURM"):
                from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

            place = SLURMEnvironment()
            address = f"tcp://{place.main_address}:{place.main_port}"
            dist.init_process_group("gloo", init_method=address, rank=processes.rank, world_size=processes.total)


def _part(folder: Path, rank: int) -> Path:
    return folder.with_name(f".{folder.name}.part-{rank}")


def _remove_parts(folder: Path) -> None:
    for part in folder.parent.glob(f".{escape(folder.name)}.part-*"):
        shutil.rmtree(part)


def _device(accelerator: str, processes: Processes) -> torch.device:
    device = choose_device(accelerator)
    return torch.device("cuda", processes.local_rank) if device.type == "cuda" else device
