import pytest
import torch

from nonneg.modalities.images import Images
from nonneg.models import Model, ModelConfig

CONFIG = ModelConfig("convnet_8", Images(channels=1), projector_width=16, features=12)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(CONFIG)
