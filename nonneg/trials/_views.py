"""Features of random views, for measures that compare two views of a sample."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch

from nonneg.features import Features
from nonneg.modalities import ChangedRows, Modality, Source, map_arrays
from nonneg.models import Model


@dataclass(frozen=True)
class _OneView(Modality):
    """Samples as one of the views that training would draw; a batch comes with its row numbers."""

    seen: Modality
    view: int
    seed: int

    def inputs(self, batch: Any) -> Any:
        content, rows = batch
        drawn = self.seen.draw_views(content, rows, self.seed, 0, self.view + 1, torch.float32)
        return map_arrays(lambda part: part.chunk(self.view + 1)[self.view], drawn)

    def to(self, device: torch.device) -> None:
        self.seen.to(device)


def embed_view(model: Model, source: Source, view: int = 0, seed: int = 0) -> dict[str, Features]:
    """The features of one random view of each sample, both layers, without previews.

    Args:
        model: what to embed with; its modality draws the views.
        source: the samples; a sample's number is its row.
        view: the number of the view.
        seed: of the random views.

    Example:
        >>> from nonneg.modalities.images import Images, open_source
        >>> from nonneg.models import ModelConfig
        >>> model = Model(ModelConfig("convnet_8", Images(channels=1), features=32))
        >>> embed_view(model, open_source("digits", "test"), view=1)["projector"].shape
        (397, 32)
    """
    own = copy.copy(model)
    own.config = replace(model.config, modality=_OneView(model.modality, view, seed))

    def numbered(batch: Any, rows: Any) -> Any:
        loaded = model.modality.load_views(source, torch.from_numpy(rows)[None], seed, 0, view + 1)
        return batch if loaded is None else next(loaded), rows

    changed = replace(source, samples=ChangedRows(source.samples, numbered))
    return {str(layer): features for layer, features in own.embed(changed, "both", media=False).items()}
