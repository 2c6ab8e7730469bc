"""Collecting a model's codes, batch by batch, into `Features`."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.models._codes import CodeRows
from nonneg.models._config import to_json
from nonneg.models._stream import Layer, Precision, embed_rows

if TYPE_CHECKING:
    from nonneg.models._model import Model

_NAMED = 100  # samples left out whose names are stored


def features_of(
    model: "Model",
    source: Source,
    rows: range,
    layers: tuple[Layer, ...],
    *,
    batch_size: int | None,
    device: str | torch.device | None,
    precision: Precision,
    media: bool,
    origin: Mapping[str, Any] | None = None,
    advance: Callable[[int], object] = lambda samples: None,
) -> dict[Layer, Features]:
    """Return the features of a contiguous range of samples, by layer, from one pass.

    `origin` is added to their provenance; `advance` is called with the number of samples of each batch.
    """
    if not len(rows):
        raise InputError(f"{source.name} has no samples, expected at least one")
    codes: dict[Layer, CodeRows] = {}
    previews: dict[str, list[Any]] = {}
    batches = embed_rows(
        model, source, rows, layers, batch_size=batch_size, device=device, precision=precision, media=media
    )
    for batch in batches:
        for name, block in batch.layers.items():
            codes.setdefault(name, CodeRows(block.shape[1])).add(block)
        for kind, values in batch.preview.items():
            previews.setdefault(kind, []).append(values)
        advance(len(block))
    finished = {name: collected.finished() for name, collected in codes.items()}
    return {
        name: Features(
            found,
            ids=source.ids[rows.start : rows.stop],
            labels=None if source.labels is None else source.labels[rows.start : rows.stop],
            label_names=source.label_names,
            **{kind: _joined(parts) for kind, parts in previews.items()},
            provenance={
                "source": source.name,
                "layer": name,
                "precision": precision,
                "left_out": len(source.skipped),
                **({"left_out_names": list(source.skipped[:_NAMED])} if source.skipped else {}),
                **({"notes": list(source.notes)} if source.notes else {}),
                **({"kind": model.modality.kind} if model.modality.kind else {}),
                **({"legend": model.modality.legend} if model.modality.legend else {}),
                **(feature_figures(model, source, found) if media and len(rows) == len(source) else {}),
                **(origin or {}),
                "model": to_json(model.config, {}),
            },
        )
        for name, found in finished.items()
    }


def feature_figures(model: "Model", source: Source, codes: Any) -> dict[str, Any]:
    """Return what the modality says about each feature, from the codes of all samples of a source."""
    figures, terms = model.modality.feature_figures(source, codes), model.modality.feature_terms(source, codes)
    return {name: found for name, found in (("feature_figures", figures), ("feature_terms", terms)) if found}


def _joined(parts: list[Any]) -> Any:
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [value for part in parts for value in part]


def joined(parts: Iterable[Features]) -> Features:
    """Join the features of one source that was embedded in parts."""
    parts = list(parts)
    first = parts[0]
    codes = CodeRows(first.shape[1])
    for part in parts:
        codes.add(part.codes)
    columns = first.samples.column_names

    def column(name: str) -> list[Any] | None:
        return [v for part in parts for v in part.samples[name].to_pylist()] if name in columns else None

    return Features(
        codes.finished(),
        ids=column("id"),
        labels=None if first.labels is None else np.concatenate([part.labels for part in parts]),
        label_names=first.label_names,
        media=column("media"),
        texts=column("text"),
        pixels=None if first.pixels is None else np.concatenate([part.pixels for part in parts]),
        provenance=first.provenance,
    )
