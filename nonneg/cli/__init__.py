"""The command line: argument parsing and nothing else. Heavy imports wait until a command runs."""

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tyro

from nonneg import __version__
from nonneg.cli._judging import doctor, match, measure, reproduce, select, theory, verify
from nonneg.cli._making import convert, demo, embed
from nonneg.cli._using import explore, export, index, search
from nonneg.errors import InputError
from nonneg.processes import started


def train(recipe: Annotated[str, tyro.conf.Positional]) -> None:
    """Train a recipe or a TOML file. Every field can be set: see nonneg train digits --help.

    Args:
        recipe: digits, shapes, cifar10, cifar100, imagenet100 (also with -supervised), or the path of a TOML file.
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
    """The recipe decides the defaults of all other arguments, so they are parsed after it is read."""
    from nonneg.training import TrainConfig, load_recipe
    from nonneg.training import train as run_training

    start = load_recipe(recipe)

    def run(
        config: Annotated[TrainConfig, tyro.conf.arg(name="")] = start,
        out: Path = Path("runs") / Path(recipe).stem,
        overwrite: bool = False,
        tensorboard: bool = False,
    ) -> None:
        """Train, and write a run. An unfinished run in that folder is taken up where it stopped.

        Args:
            config: the recipe.
            out: the run's folder.
            overwrite: start over, whatever run is in that folder.
            tensorboard: write the log for TensorBoard, too.
        """
        folder = run_training(config, out, overwrite=overwrite, tensorboard=tensorboard)
        if started().is_first:
            print(f"Trained: {folder}")

    tyro.cli(run, prog=f"nonneg train {recipe}", args=arguments)


def main() -> None:
    """Entry point of `nonneg`."""
    arguments = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ≤ or φ gets a question mark, not a crash
    try:
        if arguments == ["--version"]:
            print(f"nonneg {__version__}")
        elif arguments[:1] == ["train"] and len(arguments) > 1 and not arguments[1].startswith("-"):
            _train(arguments[1], arguments[2:])
        else:
            description = "Features people can read: non-negative, sparse, one meaning each."
            tyro.extras.subcommand_cli_from_dict(_COMMANDS, prog="nonneg", description=description, args=arguments)
        sys.stdout.flush()
        _end_gloo()
    except InputError as error:
        _stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        _stop("stopped", 128 + signal.SIGINT)
    except OSError as error:
        # What is still to be flushed at exit would fail once more (a closed pipe, a full disk).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _stop(f"output cannot be written: {(error.strerror or str(error)).lower()}")


def _end_gloo() -> None:
    """End a process that worked with others over gloo: its threads now and then abort an orderly end."""
    if started().total > 1:
        import torch.distributed as dist

        if dist.is_initialized() and dist.get_backend() == "gloo":
            sys.stderr.flush()
            os._exit(0)  # all is written, and all processes have met at a barrier


def _stop(sentence: str, exit_code: int = 2) -> None:
    print(f"nonneg: {sentence}", file=sys.stderr)
    sys.exit(exit_code)
