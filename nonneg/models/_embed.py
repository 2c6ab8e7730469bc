"""A data set to `Features` on disk: in one process, or in several that each take a share."""

import dataclasses
import os
import secrets
import shutil
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist

from nonneg.durable import TEMPORARY_PREFIX, os_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.features import Features, is_features
from nonneg.modalities import Source
from nonneg.modalities.images import open_source
from nonneg.models._collect import features_of, joined, require_channels
from nonneg.models._model import Layer, Model
from nonneg.models._store import load
from nonneg.models._stream import Precision, aligned_shares, check_batch_size, usual_batch_size
from nonneg.processes import Processes, launched_processes
from nonneg.progress import progress_bar

AS_TRAINED = -1
_COMPARED = 1024  # images at a time


def embed_data(
    run: str,
    data: str,
    out: Path | None = None,
    *,
    split: str = "train",
    layer: Layer | Literal["both"] = "projector",
    batch_size: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Precision = "32-true",
    image_size: int = AS_TRAINED,
    skip_broken: bool = False,
    media: bool = True,
    overwrite: bool = False,
    progress: bool = True,
) -> list[Path]:
    """Embed a data set with a run's model and save its `Features`; with several processes, each takes a share.

    Args:
        run: a run's folder, a model's folder, or `hub:owner/name`.
        data: what `nonneg.modalities.images.sources.open_source` takes.
        out: the features' folder; beside the run, named after it and the data, if left out. For both layers, the
            layer's name goes before its ending.
        split: of the data.
        layer: projector, encoder or both.
        batch_size: samples a batch, which does not change the codes but for rounding; None is 1,024, or 4,096 small
            images on a GPU.
        accelerator: where to compute.
        precision: of the forward pass.
        image_size: side to which images are resized; `AS_TRAINED` resizes and cuts them as for training and refuses
            others, 0 takes them as they are.
        skip_broken: leave out images that cannot be read.
        media: embed the images, or thumbnails of large ones.
        overwrite: replace earlier features in that folder.
        progress: show a bar.

    Returns:
        The folders written.
    """
    if batch_size is not None:
        check_batch_size(batch_size)
    processes = launched_processes()
    model = load(run)
    if image_size == AS_TRAINED:
        source = source_for(model, data, split, skip_broken=skip_broken, progress=progress)
    else:
        source = open_source(data, split, image_size=image_size, skip_broken=skip_broken, progress=progress)
        source = _in_channels_of(model, source)
    layers: tuple[Layer, ...] = ("encoder", "projector") if layer == "both" else (layer,)
    out = _beside(run, source) if out is None else out
    folders = {name: out if len(layers) == 1 else out.with_name(f"{out.stem}-{name}{out.suffix}") for name in layers}
    for folder in folders.values():
        _require_writable(folder, overwrite)
    device = _device(accelerator, processes)
    batch_size = batch_size or usual_batch_size(source.images.shape, torch.device(device))
    rows = aligned_shares(len(source), batch_size, processes.total)
    if processes.total > 1:
        _meet(processes)
        if processes.is_first:  # what a run that was killed left behind
            for folder in folders.values():
                _remove_parts(folder)
        dist.barrier()
    mine = rows[processes.rank]
    features = {}
    with progress_bar(progress and processes.is_first) as bar:
        task = bar.add_task("embedding", total=len(mine))
        if mine:
            features = features_of(
                model,
                source,
                mine,
                layers,
                batch_size=batch_size,
                device=device,
                precision=precision,
                media=media,
                origin={"run": _run_name(run)},
                advance=lambda samples: bar.advance(task, samples),
            )
    if processes.total == 1:
        return [features[name].save(folder, overwrite=overwrite) for name, folder in folders.items()]
    for name, share in features.items():
        share.save(_part(folders[name], processes.rank), overwrite=True)
    dist.barrier()
    if processes.is_first:
        for folder in folders.values():
            parts = [Features.load(_part(folder, rank)) for rank, share in enumerate(rows) if share]
            joined(parts).save(folder, overwrite=overwrite)
            _remove_parts(folder)
    dist.barrier()
    return list(folders.values())


def source_for(
    model: Model, data: str, split: str = "train", skip_broken: bool = False, progress: bool = True
) -> Source:
    """Data with its images resized and cut as for the model's training; other sides and channels are refused."""
    source = open_source(data, split, image_size=model.config.resize, skip_broken=skip_broken, progress=progress)
    source = _in_channels_of(model, source)
    side = model.config.image_size
    height, width = source.images.shape[1:3]
    if not side or (height, width) == (side, side):
        return source
    if model.config.resize and min(height, width) >= side:
        top, left = (height - side) // 2, (width - side) // 2
        return dataclasses.replace(source, images=source.images[:, top : top + side, left : left + side])
    raise InputError(
        f"{source.name} has images of {width} x {height} pixels, the model was trained on {side} x {side};"
        f" nonneg embed takes them with --image-size {side}, which resizes image files, or 0, as they are"
    )


def _in_channels_of(model: Model, source: Source) -> Source:
    """As the model takes it. Files of grey images, which are read as RGB, are grey again for a model of one channel."""
    images = source.images
    if model.config.channels == 1 and images.shape[-1] == 3:
        blocks = (images[start : start + _COMPARED] for start in range(0, len(images), _COMPARED))
        if all((block == block[..., :1]).all() for block in blocks):
            return dataclasses.replace(source, images=images[..., :1])
    require_channels(model, source)
    return source


def _run_name(run: str) -> str:
    if run.startswith("hub:"):
        return run
    path = Path(run).resolve()
    return path.parent.name if path.name == "model" else path.name


def _beside(run: str, source: Source) -> Path:
    """`runs/x` and `photos/train` give `runs/x-photos-train.features`; a hub's model, one in this folder."""
    name = f"{_run_name(run).rpartition('/')[2].partition('@')[0]}-{source.name.replace('/', '-')}.features"
    if run.startswith("hub:"):
        return Path(name)
    path = Path(run).resolve()
    folder = (path.parent if path.name == "model" else path).parent
    return folder.relative_to(Path.cwd()) / name if folder.is_relative_to(Path.cwd()) else folder / name


def _require_writable(folder: Path, overwrite: bool) -> None:
    """Before the work, not after it."""
    if folder.exists() and not (overwrite and is_features(folder)):
        raise InputError(f"{folder} exists already; choose another --out, or --overwrite to replace features")
    with os_errors_as_input_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        trial = folder.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        trial.touch()
        trial.unlink()


def _meet(processes: Processes) -> None:
    """A group of these processes, only to wait for each other."""
    if not dist.is_initialized():
        if "MASTER_ADDR" in os.environ:  # torchrun says where to meet, also inside a job of SLURM
            dist.init_process_group("gloo")
        else:
            from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

            place = SLURMEnvironment()
            address = f"tcp://{place.main_address}:{place.main_port}"
            dist.init_process_group("gloo", init_method=address, rank=processes.rank, world_size=processes.total)


def _part(folder: Path, rank: int) -> Path:
    return folder.with_name(f".{folder.name}.part-{rank}")


def _remove_parts(folder: Path) -> None:
    for part in folder.parent.glob(f".{folder.name}.part-*"):
        shutil.rmtree(part)


def _device(accelerator: str, processes: Processes) -> str:
    if accelerator == "cuda" or (accelerator == "auto" and torch.cuda.is_available()):
        return f"cuda:{processes.local_rank}"
    return "mps" if accelerator == "mps" else "cpu"
