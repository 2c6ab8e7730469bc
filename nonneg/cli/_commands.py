"""All commands by name, and the choice between them. Heavy imports wait until a command runs."""

import dataclasses
import io
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Annotated, Any

import tyro

from nonneg import __version__
from nonneg.cli._judging import doctor, match, measure, reproduce, select, theory, verify
from nonneg.cli._making import convert, demo, embed
from nonneg.cli._using import explore, export, index, search
from nonneg.errors import InputError
from nonneg.processes import launched_processes


def train(recipe: Annotated[str, tyro.conf.Positional]) -> None:
    """Train a recipe or a TOML file; for your own images: nonneg train images --data FOLDER.

    Every field can be set: see nonneg train images --help.

    Args:
        recipe: images, text, graph, graphs, digits, shapes, cifar10, cifar100, imagenet100, cifar10-supervised,
            cifar100-supervised, imagenet100-supervised, or the path of a TOML file.
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
    from nonneg.training import ADAPTING, TrainConfig, adapted, load_recipe
    from nonneg.training import train as run_training

    start = load_recipe(recipe)

    def settings(
        config: Annotated[TrainConfig, tyro.conf.arg(name="")] = start,
        out: Path = Path("runs") / Path(recipe).stem,
        overwrite: bool = False,
        tensorboard: bool = False,
    ) -> tuple[Any, ...]:
        """Train and write a run. An unfinished run in that folder is resumed. The prefix modality. may be omitted.

        Args:
            config: the recipe.
            out: the run's folder.
            overwrite: start again, even if that folder holds a run.
            tensorboard: also write the log for TensorBoard.
        """
        return config, out, overwrite, tensorboard

    arguments = _with_prefix(arguments, start.modality)
    config, out, overwrite, tensorboard = _parse(settings, f"nonneg train {recipe}", arguments)
    is_first = launched_processes().is_first
    if recipe in ADAPTING:
        config, sentence = adapted(config, _names_given(arguments), progress=is_first)
        if is_first:
            print(sentence, file=sys.stderr)
    folder = run_training(config, out, overwrite=overwrite, tensorboard=tensorboard)
    if is_first:
        print(f"Trained: {folder}")


def _parse(function: Callable[..., Any], prog: str, arguments: list[str]) -> Any:
    """Call a function with parsed arguments; a value that a nested config rejects is an `InputError`, as any other."""
    messages = io.StringIO()
    try:
        with redirect_stderr(messages):
            return tyro.cli(function, prog=prog, args=arguments)
    except SystemExit as stopped:
        rejected = stopped.__context__ and stopped.__context__.__context__  # tyro shows it in a box and exits
        if isinstance(rejected, InputError):
            raise rejected from None
        sys.stderr.write(messages.getvalue())
        raise


def _with_prefix(arguments: list[str], modality: Any) -> list[str]:
    """Add the prefix of the modality's options, which may be omitted: `--image-size` is `--modality.image-size`."""
    own = {field.name.replace("_", "-") for field in dataclasses.fields(modality)}
    options = re.compile(rf"--(no-)?({'|'.join(map(re.escape, own))})(?=[.=]|$)") if own else re.compile("$^")
    return [options.sub(lambda m: f"--modality.{m[1] or ''}{m[2]}", argument) for argument in arguments]


def _names_given(arguments: list[str]) -> set[str]:
    """Return the names of the settings that the arguments set; `--modality.views.size` sets `views`."""
    options = (argument.split("=")[0] for argument in arguments if argument.startswith("--"))
    paths = (option.removeprefix("--").removeprefix("modality.").removeprefix("no-") for option in options)
    return {path.split(".")[0].replace("-", "_") for path in paths}


def run(arguments: list[str]) -> None:
    """Run a command line."""
    if arguments == ["--version"]:
        print(f"nonneg {__version__}")
    elif arguments[:1] == ["train"] and len(arguments) > 1 and not arguments[1].startswith("-"):
        _train(arguments[1], arguments[2:])
    else:
        description = "Features people can read: non-negative, sparse, one meaning each."
        tyro.extras.subcommand_cli_from_dict(_COMMANDS, prog="nonneg", description=description, args=arguments)
