"""All commands by name, and the choice between them. Heavy imports wait until a command runs."""

import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tyro

from nonneg import __version__
from nonneg.cli._help import overview
from nonneg.cli._judging import doctor, match, measure, reproduce, select, theory, verify
from nonneg.cli._making import convert, demo, embed
from nonneg.cli._parse import parse, suggestion
from nonneg.cli._recipes import UNBUNDLED, about, require_recipe, titles
from nonneg.cli._using import explore, export, index, search
from nonneg.errors import InputError
from nonneg.processes import launched_processes


def train(arguments: list[str]) -> None:
    """Train a recipe or a TOML file; for your own images: nonneg train images --data FOLDER.

    For example:
        nonneg train images --data photos/ --out runs/photos
    """
    if arguments and not arguments[0].startswith("-"):
        _train(arguments[0], arguments[1:])
    elif {"-h", "--help"} & set(arguments):
        print(overview("nonneg train RECIPE [OPTIONS]", inspect.getdoc(train) or "", titles(), _RECIPE_ENDING))
    else:
        raise InputError("RECIPE is missing: nonneg train RECIPE [OPTIONS]; nonneg train --help lists the recipes")


GROUPS: dict[str, dict[str, Callable[..., Any]]] = {
    "Start": {"demo": demo},
    "Make features": {"convert": convert, "train": train, "embed": embed},
    "Look at them": {"explore": explore, "export": export, "search": search, "index": index},
    "Measure and choose": {"doctor": doctor, "measure": measure, "match": match, "select": select},
    "Check": {"reproduce": reproduce, "theory": theory, "verify": verify},
}
_COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
_DESCRIPTION = "Features people can read: non-negative, sparse, one meaning each."
_ENDING = "Run nonneg COMMAND --help for options and an example."
_RECIPE_ENDING = "RECIPE may also be the path of a TOML file. nonneg train RECIPE --help lists the options of a recipe."
# Fields of graphs that the data decides: another value is an error.
_FITTED = ("attributes", "attribute_digest", "attribute_names")


def _train(recipe: str, arguments: list[str]) -> None:
    """Read the recipe, then parse the other arguments: their defaults come from the recipe."""
    require_recipe(recipe)

    from nonneg.training import ADAPTING, TrainConfig, adapted, load_recipe
    from nonneg.training import train as run_training

    start = load_recipe(recipe)
    if re.search(r"--rectify[ =]none\b", " ".join(arguments)):
        start = start.without_rectifier()  # whose settings would be an error

    def settings(
        config: Annotated[TrainConfig, tyro.conf.arg(name="")] = start,
        out: Path = Path("runs") / Path(recipe).stem,
        overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
        tensorboard: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    ) -> tuple[Any, ...]:
        """An unfinished run in the folder of --out is resumed. The prefix modality. may be omitted.

        Args:
            config: the recipe.
            out: the run's folder.
            overwrite: start again, even if that folder holds a run.
            tensorboard: also write the log for TensorBoard.
        """
        return config, out, overwrite, tensorboard

    known = about(recipe)
    needs_data = start.data in UNBUNDLED and not Path(start.data).exists()
    own = inspect.getdoc(settings)
    settings.__doc__ = f"{known.text}\n\nFor example:\n    {known.example}\n\n{own}"
    notes: dict[str, Any] = dict.fromkeys(_FITTED, tyro.conf.Suppress)
    notes["data"] = tyro.conf.arg(metavar="DATA", help_behavior_hint="(required)" if needs_data else None)
    arguments = _with_prefix(arguments, start.modality)
    config, out, overwrite, tensorboard = parse(settings, f"nonneg train {recipe}", arguments, True, notes)
    given = _names_given(arguments)
    if needs_data and "data" not in given:
        raise InputError(f"--data is missing: {known.example}")
    is_first = launched_processes().is_first
    if recipe in ADAPTING:
        config, sentence = adapted(config, given, progress=is_first)
        if is_first:
            print(sentence, file=sys.stderr)
    folder = run_training(config, out, overwrite=overwrite, tensorboard=tensorboard)
    if is_first:
        print(f"Trained: {folder}")


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
    name, rest = arguments[0] if arguments else "", arguments[1:]
    if name == "--version":
        print(f"nonneg {__version__}")
    elif name in ("-h", "--help"):
        groups = {title: {name: _first_line(each) for name, each in group.items()} for title, group in GROUPS.items()}
        print(overview("nonneg COMMAND [OPTIONS]", _DESCRIPTION, groups, _ENDING))
    elif name not in _COMMANDS:
        found = f"there is no command {name!r}" if name else "no command is given"
        raise InputError(f"{found}, expected one that nonneg --help lists{suggestion(name, _COMMANDS)}")
    elif name == "train":
        train(rest)
    else:
        _bound(name, rest)()


def _first_line(command: Callable[..., Any]) -> str:
    return (command.__doc__ or "").splitlines()[0]


def _bound(name: str, arguments: list[str]) -> Callable[[], Any]:
    """Return a command with its arguments; it is called later, where standard error is not redirected."""
    command = _COMMANDS[name]

    @functools.wraps(command)
    def bind(*values: Any, **named: Any) -> Any:
        return functools.partial(command, *values, **named)

    bound: Callable[[], Any] = parse(bind, f"nonneg {name}", arguments)
    return bound
