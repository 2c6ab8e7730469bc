"""A data set to `Features` on disk: in one process, or in several that each take a share."""

import os
import shutil
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import Progress

from nonneg.data import open_source
from nonneg.errors import InputError
from nonneg.features import Features, is_features
from nonneg.models._collect import features_of, joined
from nonneg.models._model import Layer
from nonneg.models._store import load
from nonneg.models._stream import Precision, aligned_shares


def embed_data(
    run: str,
    data: str,
    out: Path,
    *,
    split: str = "train",
    layer: Layer | Literal["both"] = "projector",
    batch_size: int = 1024,
    accelerator: Literal["auto", "cpu", "cuda"] = "auto",
    precision: Precision = "32-true",
    image_size: int = 0,
    skip_broken: bool = False,
    media: bool = True,
    overwrite: bool = False,
    progress: bool = True,
) -> list[Path]:
    """Embed a data set with a run's model and save its `Features`; under torchrun, each process takes a share.

    Args:
        run: a run's folder, a model's folder, or `hub:owner/name`.
        data: what `nonneg.data.open_source` takes.
        out: the features' folder. For both layers, the layer's name goes before its ending.
        split: of the data.
        layer: projector, encoder or both.
        batch_size: samples a batch; does not change the codes but for rounding.
        accelerator: where to compute.
        precision: of the forward pass.
        image_size, skip_broken: as in `open_source`.
        media: embed the images, or thumbnails of large ones.
        overwrite: replace earlier features in that folder.
        progress: show a bar.

    Returns:
        The folders written.
    """
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    layers: tuple[Layer, ...] = ("encoder", "projector") if layer == "both" else (layer,)
    folders = {name: out if len(layers) == 1 else out.with_name(f"{out.stem}-{name}{out.suffix}") for name in layers}
    for folder in folders.values():
        if folder.exists() and not (overwrite and is_features(folder)):
            raise InputError(f"{folder} exists already; choose another --out, or --overwrite to replace features")
    model = load(run)
    source = open_source(data, split, image_size=image_size, skip_broken=skip_broken, progress=progress)
    if processes > 1 and not dist.is_initialized():
        dist.init_process_group("gloo")  # only to wait for each other
    rows = aligned_shares(len(source), batch_size, processes)[rank]
    with Progress(console=Console(stderr=True), disable=not progress or rank > 0, transient=True) as bar:
        task = bar.add_task("embedding", total=len(rows))
        features = {}
        if len(rows):
            features = features_of(
                model,
                source,
                rows,
                layers,
                batch_size=batch_size,
                device=_device(accelerator),
                precision=precision,
                media=media,
                advance=lambda samples: bar.advance(task, samples),
            )
    if processes == 1:
        return [features[name].save(folder, overwrite=overwrite) for name, folder in folders.items()]
    for name, share in features.items():
        share.save(_part(folders[name], rank), overwrite=True)
    dist.barrier()
    if rank == 0:
        for folder in folders.values():
            parts = [part for other in range(processes) if (part := _part(folder, other)).exists()]
            joined(Features.load(part) for part in parts).save(folder, overwrite=overwrite)
            for part in parts:
                shutil.rmtree(part)
    dist.barrier()
    return list(folders.values())


def _part(folder: Path, rank: int) -> Path:
    return folder.with_name(f".{folder.name}.part-{rank}")


def _device(accelerator: str) -> str:
    on_gpu = accelerator == "cuda" or (accelerator == "auto" and torch.cuda.is_available())
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if on_gpu else "cpu"
