"""A modality of your own: time series, with jitter and cropping. Trains, embeds, measures, searches and explores.

    python examples/own_modality.py [FOLDER] [--explore]

Nothing in nonneg knows about time series: `Series` answers the five questions of a modality.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import nn

import nonneg
from nonneg.modalities import Modality, Source, uniform
from nonneg.search import Query, find

SHAPES = ("sine", "square", "sawtooth", "burst")
SIDE = 48  # pixels of a preview


@dataclass(frozen=True)
class Series(Modality):
    """Series of one length, `(samples, length)` float32."""

    name: ClassVar[str] = "series"
    crop: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Shortest share of a series that a view shows, stretched to full length."""
    jitter: Annotated[float, Field(ge=0)] = 0.1
    """Standard deviation of the noise that is added to a view."""

    def draw_views(self, batch, samples, seed, epoch, count, dtype):
        length = batch.shape[1]
        view = torch.arange(count, device=batch.device).repeat_interleave(len(batch))
        numbers = uniform(2 + length, seed, epoch, samples.repeat(count), view)
        share = self.crop + (1 - self.crop) * numbers[:, :1]
        start = (1 - share) * numbers[:, 1:2]
        place = (start + share * torch.linspace(0, 1, length, device=batch.device)) * (length - 1)
        left = place.long().clamp(max=length - 2)
        rows = batch.repeat(count, 1)
        low, high = rows.gather(1, left), rows.gather(1, left + 1)
        noise = self.jitter * torch.special.ndtri(numbers[:, 2:])
        return self.inputs(low + (high - low) * (place - left) + noise).to(dtype)

    def encoder(self, name, saved=None):
        layers = []
        for inputs, outputs in ((1, 32), (32, 64), (64, 128)):
            layers += [nn.Conv1d(inputs, outputs, 7, stride=2, padding=3), nn.BatchNorm1d(outputs), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten()), 128, {}

    def inputs(self, batch):
        return ((batch - batch.mean(1, keepdim=True)) / (batch.std(1, keepdim=True) + 1e-6))[:, None]

    def preview(self, source, rows):
        """A small drawing of each series."""
        series = source.samples[rows.start : rows.stop]
        columns = series[:, np.linspace(0, series.shape[1] - 1, SIDE).astype(int)]
        low, high = columns.min(1, keepdims=True), columns.max(1, keepdims=True)
        heights = ((high - columns) / (high - low + 1e-9) * (SIDE - 1)).astype(int)
        following = np.roll(heights, -1, axis=1)
        following[:, -1] = heights[:, -1]
        top, bottom = np.minimum(heights, following)[:, None], np.maximum(heights, following)[:, None]
        row = np.arange(SIDE)[:, None]
        line = (row >= top) & (row <= bottom)
        return {"pixels": np.where(line, 0, 255).astype(np.uint8)[..., None]}


def waves(count: int, seed: int, length: int = 128) -> Source:
    """Four shapes of random frequency and phase."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % len(SHAPES)
    time = np.linspace(0, 1, length)
    phase = time * random.uniform(3, 6, (count, 1)) + random.uniform(0, 1, (count, 1))
    drawn = {
        "sine": np.sin(2 * np.pi * phase),
        "square": np.sign(np.sin(2 * np.pi * phase)),
        "sawtooth": 2 * (phase % 1) - 1,
        "burst": np.sin(6 * np.pi * phase) * (phase % 1 < 0.3),
    }
    series = np.choose(labels[:, None], [drawn[shape] for shape in SHAPES]) + random.normal(0, 0.1, (count, length))
    ids = tuple(f"{SHAPES[label]}-{row}" for row, label in enumerate(labels))
    return Source("waves", series.astype(np.float32), ids, labels, SHAPES)


def main(folder: Path, explore: bool = False) -> None:
    """Train, embed, measure, search, save and explore."""
    config = nonneg.TrainConfig(
        modality=Series(), encoder="convnet", epochs=8, warmup_epochs=1, batch_size=128, features=64, lr=0.002
    )
    run = nonneg.train(config, folder / "waves", source=waves(1024, seed=0), overwrite=True)
    features = nonneg.load(run, modality=Series).embed(waves(512, seed=1))
    print(nonneg.measure(features, progress=False).markdown())
    hits = find(features, Query(like=(features.id(0),), k=5))
    print("Most like", features.id(0), "are", ", ".join(hit.id for hit in hits))
    print("Saved:", features.save(folder / "waves.features", overwrite=True))
    page = nonneg.explore(folder / "waves.features", block=explore, browser=explore)
    page.close()


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    main(Path(given[0]) if given else Path(tempfile.mkdtemp()), "--explore" in sys.argv)
