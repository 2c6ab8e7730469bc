"""Views of samples that are not images: batches of several arrays, and views that the caller's transform makes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from nonneg.modalities import Modality, Source
from nonneg.modalities.own import Own, source_of
from nonneg.models import Model, ModelConfig
from nonneg.trials import embed_view, fine_tune

pytestmark = pytest.mark.usefixtures("one_thread")
LABELS = np.arange(40) % 2


@dataclass(frozen=True)
class Parts(Modality):
    """Samples of two arrays; a view is the sample itself."""

    name: ClassVar[str] = "parts"

    def draw_views(self, batch, samples, seed, epoch, count, dtype):
        return {name: part.to(dtype).repeat(count, 1) for name, part in batch.items()}


class Rows:
    """Two arrays per sample."""

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, rows):
        first = np.eye(2, dtype=np.float32)[LABELS[rows]]
        return {"first": first, "second": -first}


class Joined(nn.Module):
    """An encoder of both arrays."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, batch):
        return self.linear(torch.cat((batch["first"], batch["second"]), 1)).relu()


def test_samples_of_several_arrays_can_be_fine_tuned():
    torch.manual_seed(0)
    model = Model(ModelConfig("own", Parts(), features=8, encoder_width=8), Joined())
    source = Source("parts", Rows(), labels=LABELS)
    assert fine_tune(model, source, source, epochs=20, batch_size=16, device="cpu").accuracy == 1.0


def test_views_of_an_own_dataset_are_made_by_its_transform():
    samples = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    model = Model(ModelConfig("own", Own(workers=0), features=8, encoder_width=3), nn.Identity())
    found = embed_view(model, source_of(list(samples), lambda sample: 2 * sample), view=1)["encoder"]
    np.testing.assert_allclose(found.codes, 2 * samples.numpy(), rtol=1e-6)
