"""The command line: argument parsing and nothing else. Heavy imports wait until a command runs."""

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nonneg import __version__
from nonneg.errors import InputError
from nonneg.processes import started


def demo(
    data: Literal["digits", "shapes"] = "digits",
    out: Path = Path("runs/demo"),
    seed: int = 0,
    epochs: int = 0,
    overwrite: bool = False,
) -> None:
    """Train CL and NCL side by side on bundled data; a table and a report at the end.

    Args:
        data: handwritten digits, or drawn shapes with known factors.
        out: folder for both runs, their features and report.html.
        seed: of weights, order and views.
        epochs: train so many instead of the recipe's; 0 keeps the recipe's.
        overwrite: replace an earlier demo in that folder.
    """
    from nonneg.studies import demo

    demo(data=data, out=out, seed=seed, overwrite=overwrite, epochs=epochs)


def train(recipe: Annotated[str, tyro.conf.Positional]) -> None:
    """Train a recipe or a TOML file. Every field can be set: see nonneg train digits --help.

    Args:
        recipe: digits, shapes, cifar10, cifar100, imagenet100 (also with -supervised), or the path of a TOML file.
    """
    _train(recipe, [])


def embed(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")],
    split: str = "train",
    layer: Literal["projector", "encoder", "both"] = "projector",
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    batch_size: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["32-true", "bf16-mixed"] = "32-true",
    image_size: int = -1,
    skip_broken: bool = False,
    media: bool = True,
    overwrite: bool = False,
) -> None:
    """Turn data into features with a trained model. Under torchrun, each process takes a share.

    Args:
        run: a run's folder, a model's folder, or hub:owner/name.
        data: digits, shapes, or the path of a folder, tar, Parquet or array of images.
        split: which part of the data: train (everything, where there are no parts) or test.
        layer: the features proper, the encoder's output, or both, in a folder each.
        out: the features' folder; beside the run, named after it and the data, if left out.
        batch_size: samples a batch; 1,024 if left out, or 4,096 small images on a GPU.
        accelerator: where to compute.
        precision: of the forward pass.
        image_size: resize image files to this side; -1 is as for training, 0 takes images as they are.
        skip_broken: leave out images that cannot be read.
        media: embed the images, or thumbnails of large ones.
        overwrite: replace earlier features in that folder.
    """
    from nonneg.models import embed_data

    written = embed_data(
        run,
        data,
        out,
        split=split,
        layer=layer,
        batch_size=batch_size,
        accelerator=accelerator,
        precision=precision,
        image_size=image_size,
        skip_broken=skip_broken,
        media=media,
        overwrite=overwrite,
    )
    if started().is_first:
        print(f"Embedded: {', '.join(map(str, written))}")


def convert(
    vectors: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="VECTORS")],
    pairs: str | None = None,
    labels: str | None = None,
    ids: str | None = None,
    texts: str | None = None,
    media: str | None = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    n_components: int = 1024,
    max_active: int | None = 32,
    temperature: float | None = None,
    supervised: bool = False,
    positive_share: float = 0.3,
    noise: float = 0.7,
    max_iter: int = 1200,
    batch_size: int = 512,
    learning_rate: float = 0.005,
    device: str = "auto",
    seed: int = 0,
    overwrite: bool = False,
    compare: bool = False,
    seeds: int = 1,
    train_rows: int | None = None,
) -> None:
    """Make sparse non-negative codes of vectors somebody already has. An unfinished run is taken up again.

    Files are given as a path, or as path:name where a file holds several arrays or columns (news.npz:title).

    Args:
        vectors: a .npy, .npz, .safetensors, .parquet or .csv file.
        pairs: vectors of the same shape; row i of both are two views of one thing.
        labels: one label a row, in a .txt, .csv, .parquet, .npy or .npz file.
        ids: one id a row, all different.
        texts: one text a row, to browse and search by.
        media: a folder of images, named by the ids or as many as rows, in order of their names.
        out: the run's folder; runs/ and the name of the vectors if left out. Features go beside it.
        n_components: features.
        max_active: how many of them may be active on a sample; None for no limit.
        temperature: of the vectors' similarities; taken from the data if left out.
        supervised: samples of the same label are positives.
        positive_share: how much of a sample's neighbourhood known positives make up.
        noise: how far beside each vector its code must still hold.
        max_iter: steps.
        batch_size: rows a step.
        learning_rate: of Adam.
        device: cpu, cuda, or auto.
        seed: of the start, the order and the noise.
        overwrite: replace an earlier run and its features.
        compare: write nothing; print a table of other methods beside this one, all on the same held-out rows.
        seeds: of a comparison: how many, from --seed on.
        train_rows: of a comparison: how many rows to fit on; 80% if left out.
    """
    from nonneg.convert import NonNegativeEmbedding, convert_file

    embedding = NonNegativeEmbedding(
        n_components,
        max_active,
        temperature=temperature,
        supervised=supervised,
        positive_share=positive_share,
        noise=noise,
        max_iter=max_iter,
        batch_size=batch_size,
        learning_rate=learning_rate,
        device=device,
        random_state=seed,
    )
    if compare:
        unused = {"--ids": ids, "--texts": texts, "--media": media, "--out": out, "--overwrite": overwrite or None}
        _refuse_given(unused, "without --compare, which writes nothing")
        _compare(vectors, pairs, labels, embedding, seed, seeds, train_rows)
        return
    _refuse_given({"--seeds": None if seeds == 1 else seeds, "--train-rows": train_rows}, "with --compare")
    made = convert_file(
        vectors,
        out,
        pairs=pairs,
        labels=labels,
        ids=ids,
        texts=texts,
        media=media,
        embedding=embedding,
        overwrite=overwrite,
    )
    print(f"Converted: {made.run}, {made.features}")
    print(f"{embedding.report_}; {made.neighbours_kept:.0%} of the 10 nearest neighbours kept")


def _refuse_given(options: dict[str, Any], expected: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is given, expected only {expected}")


def _compare(
    vectors: str, pairs: str | None, labels: str | None, embedding: Any, seed: int, seeds: int, train_rows: int | None
) -> None:
    from rich.console import Console

    from nonneg.studies import compare_files

    if seeds < 1:
        raise InputError(f"--seeds is {seeds}, expected a whole number, at least 1")
    compared = compare_files(
        vectors, pairs, labels, embedding=embedding, seeds=range(seed, seed + seeds), train_rows=train_rows
    )
    if sys.stdout.isatty():
        Console().print(compared)
    else:
        print(compared.markdown(), end="")  # as wide as it is, for a file


def doctor(
    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="VECTORS_OR_RUN")],
    labels: str | None = None,
    n_components: int | None = None,
    max_active: int | None = 32,
    max_iter: int = 600,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Say what is wrong with an embedding's features, and whether non-negativity would help or hurt.

    Args:
        subject: a file of vectors, a features folder, or a run.
        labels: one label a row, in a .txt, .csv, .parquet, .npy or .npz file.
        n_components: features of the non-negative version that is tried.
        max_active: how many of them may be active on a row.
        max_iter: steps of its fit.
        seed: of the rows that are drawn, the rotation and the fit.
        json: print figures and findings as JSON.
    """
    from nonneg.studies import examine

    found = examine(subject, labels, n_components=n_components, max_active=max_active, max_iter=max_iter, seed=seed)
    if json:
        from json import dumps

        print(dumps(found.to_dict(), indent=1))
    else:
        from rich.console import Console

        Console().print(found)


def theory(seed: int = 0) -> None:
    """Check the theorems numerically; exit code 1 if one fails.

    Args:
        seed: of the population and the random starts.
    """
    from nonneg.studies import print_theory

    if not print_theory(seed):
        sys.exit(1)


def verify(folder: Annotated[Path, tyro.conf.Positional]) -> None:
    """Read a features folder whole and compare it with the hashes it was saved with.

    Args:
        folder: a features folder.
    """
    from nonneg.features import verify

    print(f"{folder} is whole: {verify(folder)}")


_COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "train": train,
    "embed": embed,
    "convert": convert,
    "doctor": doctor,
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
