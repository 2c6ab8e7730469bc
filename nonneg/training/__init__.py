"""Training from scratch: one config, one readable loop, one run folder."""

from nonneg.runs import read_environment, read_log
from nonneg.training.config import TrainConfig, as_toml, load_recipe, recipes
from nonneg.training.loop import new_model, train

__all__ = [
    "TrainConfig",
    "as_toml",
    "load_recipe",
    "new_model",
    "read_environment",
    "read_log",
    "recipes",
    "train",
]
