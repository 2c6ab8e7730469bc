from dataclasses import replace

import pytest
import torch

from nonneg.models import Model, load
from nonneg.training import load_recipe, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    recipe = replace(load_recipe("digits"), epochs=5, warmup_epochs=1, accelerator="cpu")
    return load(train(recipe, tmp_path_factory.mktemp("runs") / "digits", progress=False))


@pytest.fixture(scope="session")
def fresh(trained):
    torch.manual_seed(0)
    return Model(trained.config)
