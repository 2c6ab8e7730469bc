"""Commands that make features: demo, embed, convert."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nonneg.cli._refusals import refuse_given, require_counts, require_paths, require_seed
from nonneg.errors import InputError
from nonneg.processes import launched_processes


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


def embed(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")],
    split: str = "train",
    layer: Literal["projector", "encoder", "both"] = "projector",
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    batch_size: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["32-true", "bf16-mixed"] = "32-true",
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
        skip_broken: leave out images that cannot be read.
        media: embed the images, or thumbnails of large ones.
        overwrite: replace earlier features in that folder.
    """
    from nonneg.models import EmbedOptions, embed_data

    options = EmbedOptions(split, layer, batch_size, accelerator, precision, skip_broken, media, overwrite)
    written = embed_data(run, data, out, options)
    if launched_processes().is_first:
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
    classify: bool = False,
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
        classify: fit a glass-box classifier on the codes and labels, too; explore then says what it predicts.
        overwrite: replace an earlier run and its features; the run goes when the fit begins, the features at its end.
        compare: write nothing; print a table of other methods beside this one, all on the same held-out rows.
        seeds: of a comparison: how many, from --seed on.
        train_rows: of a comparison: how many rows to fit on; 80% if left out.
    """
    require_seed(seed)
    require_paths((vectors, pairs, labels, ids, texts, media))
    for option, is_given in (("--supervised", supervised), ("--classify", classify)):
        if is_given and labels is None:
            raise InputError(f"{option} is given without --labels, expected one label a row")
    if supervised and pairs is not None:
        raise InputError("--supervised is given with --pairs, expected one of them")

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
        unused["--classify"] = classify or None
        refuse_given(unused, "without --compare, which writes nothing")
        _compare(vectors, pairs, labels, embedding, seed, seeds, train_rows)
        return
    refuse_given({"--seeds": None if seeds == 1 else seeds, "--train-rows": train_rows}, "with --compare")
    made = convert_file(
        vectors,
        out,
        pairs=pairs,
        labels=labels,
        ids=ids,
        texts=texts,
        media=media,
        embedding=embedding,
        classify=classify,
        overwrite=overwrite,
    )
    print(f"Converted: {made.run}, {made.features}")
    print(f"{embedding.report_}; {made.neighbours_kept:.0%} of the 10 nearest neighbours kept")


def _compare(
    vectors: str, pairs: str | None, labels: str | None, embedding: Any, seed: int, seeds: int, train_rows: int | None
) -> None:
    from rich.console import Console

    from nonneg.studies import compare_files

    require_counts({"--seeds": seeds})
    compared = compare_files(
        vectors, pairs, labels, embedding=embedding, seeds=range(seed, seed + seeds), train_rows=train_rows
    )
    if sys.stdout.isatty():
        Console().print(compared)
    else:
        print(compared.markdown(), end="")  # as wide as it is, for a file
