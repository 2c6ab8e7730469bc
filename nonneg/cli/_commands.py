"""All commands by name, and the choice between them. Heavy imports wait until a command runs."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tyro

from nonneg import __version__
from nonneg.cli._judging import doctor, match, measure, reproduce, select, theory, verify
from nonneg.cli._making import convert, demo, embed
from nonneg.cli._using import explore, export, index, search
from nonneg.processes import launched_processes


def train(recipe: Annotated[str, tyro.conf.Positional]) -> None:
    """Train a recipe or a TOML file. Every field can be set: see nonneg train digits --help.

    Args:
        recipe: digits, shapes, cifar10, cifar100, imagenet100, cifar10-supervised, cifar100-supervised,
            imagenet100-supervised, or the path of a TOML file.
    """
    _train(recipe, [])


_COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "train": train,
    "embed": embed,
    "convert": convert,
    "measure": measure,
    "doctor": doctor,
    "select": select,
    "search": search,
    "index": index,
    "match": match,
    "explore": explore,
    "export": export,
    "reproduce": reproduce,
    "theory": theory,
    "verify": verify,
}


def _train(recipe: str, arguments: list[str]) -> None:
    """Read the recipe, then parse the other arguments: their defaults come from the recipe."""
    from nonneg.training import TrainConfig, load_recipe
    from nonneg.training import train as run_training

    start = load_recipe(recipe)

    def run(
        config: Annotated[TrainConfig, tyro.conf.arg(name="")] = start,
        out: Path = Path("runs") / Path(recipe).stem,
        overwrite: bool = False,
        tensorboard: bool = False,
    ) -> None:
        """Train and write a run. An unfinished run in that folder is resumed. The prefix modality. may be left out.

        Args:
            config: the recipe.
            out: the run's folder.
            overwrite: start again, even if that folder holds a run.
            tensorboard: also write the log for TensorBoard.
        """
        folder = run_training(config, out, overwrite=overwrite, tensorboard=tensorboard)
        if launched_processes().is_first:
            print(f"Trained: {folder}")

    tyro.cli(run, prog=f"nonneg train {recipe}", args=_with_prefix(arguments, start.modality))


def _with_prefix(arguments: list[str], modality: Any) -> list[str]:
    """Let people leave out the prefix of the modality's options: `--image-size` is `--modality.image-size`."""
    own = {field.name.replace("_", "-") for field in dataclasses.fields(modality)}
    options = re.compile(rf"--(no-)?({'|'.join(map(re.escape, own))})(?=[.=]|$)") if own else re.compile("$^")
    return [options.sub(lambda m: f"--modality.{m[1] or ''}{m[2]}", argument) for argument in arguments]


def run(arguments: list[str]) -> None:
    """Run a command line."""
    if arguments == ["--version"]:
        print(f"nonneg {__version__}")
    elif arguments[:1] == ["train"] and len(arguments) > 1 and not arguments[1].startswith("-"):
        _train(arguments[1], arguments[2:])
    else:
        description = "Features people can read: non-negative, sparse, one meaning each."
        tyro.extras.subcommand_cli_from_dict(_COMMANDS, prog="nonneg", description=description, args=arguments)
