"""Codes of a model, batch by batch, made into `Features`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.models._codes import CodeRows
from nonneg.models._stream import Precision, embed_rows

if TYPE_CHECKING:
    from nonneg.models._model import Layer, Model


def features_of(
    model: "Model",
    source: Source,
    rows: range,
    layers: "tuple[Layer, ...]",
    *,
    batch_size: int | None,
    device: str | torch.device | None,
    precision: Precision,
    media: bool,
    origin: Mapping[str, Any] | None = None,
    advance: Callable[[int], object] = lambda samples: None,
) -> "dict[Layer, Features]":
    """The features of a contiguous range of samples, by layer, from one pass.

    `origin` goes into their provenance; `advance` is told of each batch.
    """
    require_channels(model, source)
    if not len(rows):
        raise InputError(f"{source.name} has no images, expected at least one")
    codes: dict[Layer, CodeRows] = {}
    encoded: list[pa.LargeBinaryArray] = []
    for batch in embed_rows(
        model,
        source.images,
        rows,
        layers,
        batch_size=batch_size,
        device=device,
        precision=precision,
        media=media,
    ):
        for name, block in batch.layers.items():
            codes.setdefault(name, CodeRows(block.shape[1])).add(block)
        if batch.media is not None:
            encoded += batch.media.chunks
        advance(len(block))
    # Side by side as they came: to copy them together takes as long as a GPU takes for the codes.
    pictures = pa.chunked_array(encoded, pa.large_binary()) if media else None
    return {
        name: Features(
            collected.finished(),
            ids=source.ids[rows.start : rows.stop],
            labels=None if source.labels is None else source.labels[rows.start : rows.stop],
            label_names=source.label_names,
            media=pictures,
            provenance={
                "source": source.name,
                "layer": name,
                "image_size": list(source.images.shape[1:3]),
                "precision": precision,
                "left_out": len(source.skipped),
                **(origin or {}),
                "model": asdict(model.config),
            },
        )
        for name, collected in codes.items()
    }


def require_channels(model: "Model", source: Source) -> None:
    """Refuse images with more or fewer channels than the model was made for."""
    found, expected = source.images.shape[-1], model.config.channels
    if found != expected:
        raise InputError(f"{source.name} has images of {found} channels, the model expects {expected}")


def joined(parts: Iterable[Features]) -> Features:
    """Features of one source, embedded in parts, as one."""
    parts = list(parts)
    first = parts[0]
    codes = CodeRows(first.shape[1])
    for part in parts:
        codes.add(part.codes)
    samples = pa.concat_tables([part.samples for part in parts]).combine_chunks()
    return Features(
        codes.finished(),
        ids=samples["id"],
        labels=None if first.labels is None else np.concatenate([part.labels for part in parts]),
        label_names=first.label_names,
        media=samples["media"].combine_chunks() if "media" in samples.column_names else None,
        provenance=first.provenance,
    )
