"""Training from scratch: one config, one readable loop, one run folder."""

from nonneg.runs import read_environment, read_log
from nonneg.training._feed import open_feed
from nonneg.training._optimisers import learning_rate, optimiser_of, set_learning_rate
from nonneg.training._recorded import Recorded
from nonneg.training.adapt import ADAPTING, adapted
from nonneg.training.config import TrainConfig, as_toml, load_recipe, recipes
from nonneg.training.loop import epoch_order, new_model, train

__all__ = [
    "ADAPTING",
    "Recorded",
    "TrainConfig",
    "adapted",
    "as_toml",
    "epoch_order",
    "learning_rate",
    "load_recipe",
    "new_model",
    "open_feed",
    "optimiser_of",
    "read_environment",
    "read_log",
    "recipes",
    "set_learning_rate",
    "train",
]
