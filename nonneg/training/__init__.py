"""Training from scratch: one config, one readable loop, one run folder."""

from nonneg.training._run import environment, read_environment, read_log
from nonneg.training.config import TrainConfig, as_toml, load_recipe, recipes
from nonneg.training.loop import train

__all__ = ["TrainConfig", "as_toml", "environment", "load_recipe", "read_environment", "read_log", "recipes", "train"]
