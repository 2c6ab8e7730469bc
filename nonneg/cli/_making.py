"""Commands that make features: demo, embed, convert."""

import dataclasses
import shlex
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from nonneg.cli._checks import reject_options, require_counts, require_paths, require_seed
from nonneg.cli._help import File, tidied_hint
from nonneg.cli._output import print_result
from nonneg.errors import InputError
from nonneg.messages import counted
from nonneg.processes import launched_processes


def demo(
    data: str = "digits",
    out: Path = Path("runs/demo"),
    seed: int = 0,
    epochs: int | None = None,
    overwrite: bool = False,
) -> None:
    """Train CL and NCL side by side on bundled data or a graph of yours; print a table and write a report.

    For example:
        nonneg demo --data shapes --out runs/shapes

    Args:
        data: handwritten digits; shapes, drawn, with known factors; intents, customers' questions; emoji, pictures with
            their words (these two need the extra text); cora, a graph of papers; citations, a generated one; or
            the path of a graph, such as photo.npz.
        out: folder for both runs, their features and report.html.
        seed: seed of weights, order and views.
        epochs: number of epochs; by default the recipe's.
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
    side: str = "",
) -> None:
    """Turn data into features with a trained model. Under torchrun, each process embeds a part of the data.

    For example:
        nonneg embed runs/photos photos/ --out runs/photos.features

    Args:
        run: a run of nonneg train, a model's folder, or hub:owner/name.
        data: anything that the model's modality reads; for images digits, shapes, or the path of a folder, tar, Parquet
            or array of images; for texts intents, lines.txt, or a column of a table as file.csv:column; for pairs
            emoji, a table of both sides, or data of the side alone; for nodes cora, an .npz or tables of a graph; for
            whole graphs motifs, a TU folder, or a .txt as in pytorch_DGCNN.
        split: which part of the data: train (everything if the data has no splits) or test.
        layer: the projector's output, the encoder's output, or both in separate folders.
        out: the features' folder; by default next to the run, named after the run and the data.
        batch_size: samples per batch; by default 1,024, or 4,096 for small samples on a GPU; all nodes of a graph.
        accelerator: device to compute on.
        precision: precision of the forward pass.
        skip_broken: skip samples that cannot be read.
        media: do not store images, texts or suggested names with the features.
        overwrite: replace earlier features in that folder.
        side: for a run trained on pairs: image or text; by default the first side.
    """
    from nonneg.models import EmbedOptions, embed_data

    options = EmbedOptions(split, layer, batch_size, accelerator, precision, skip_broken, media, overwrite, side)
    written = embed_data(run, data, out, options)
    if launched_processes().is_first:
        print(f"Embedded: {', '.join(map(str, written))}")


def _embedding_options() -> type:
    """Return the parameters of `NonNegativeEmbedding` as a dataclass; tyro calls this only for `nonneg convert`."""
    from nonneg.convert import NonNegativeEmbedding

    types = get_type_hints(NonNegativeEmbedding.__init__)
    parameters = signature(NonNegativeEmbedding).parameters.values()
    fields = [
        (each.name, tidied_hint(types[each.name], each.default), each.default)
        for each in parameters
        if each.name not in ("random_state", "verbose")
    ]
    options = dataclasses.make_dataclass("EmbeddingOptions", fields, frozen=True)
    options.__doc__ = NonNegativeEmbedding.__doc__
    return options


def convert(
    vectors: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="VECTORS")],
    options: Annotated[Any, tyro.conf.arg(name="", constructor_factory=_embedding_options)],
    pairs: File = None,
    labels: File = None,
    ids: File = None,
    texts: File = None,
    media: Annotated[str | None, tyro.conf.arg(metavar="FOLDER")] = None,
    label_names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = (),
    sentence_model: str | None = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    seed: int = 0,
    classify: bool = False,
    overwrite: bool = False,
    compare: bool = False,
    sweep: bool = False,
    seeds: int = 1,
    train_rows: int | None = None,
) -> None:
    """Turn existing vectors, or texts, into sparse non-negative codes. An unfinished run is resumed.

    A file is a path, or path:name if it holds several arrays or columns: news.npz:title, news.csv:text, or by
    position from 0, news.csv:2. For example:
        nonneg convert news.npz:description --labels news.npz:label --texts news.csv:2 --out runs/news
        nonneg convert texts.txt --sentence-model all-MiniLM-L6-v2 --out runs/texts

    Args:
        vectors: a .npy, .npz, .safetensors, .parquet, .arrow, .feather or .csv file; with --sentence-model also texts:
            the lines of a .txt file, or a column of a .csv, .jsonl or .parquet file.
        options: the parameters of NonNegativeEmbedding.
        pairs: vectors of the same shape; row i of both are two views of the same thing.
        labels: one label per row, in a .txt, .csv, .jsonl, .parquet, .npy or .npz file.
        ids: one unique id per row.
        texts: one text per row, for browsing and searching; by default those that are encoded.
        media: a folder of images, named by the ids, or as many as there are rows, in the order of their names.
        label_names: the names of the labels, in their sorted order: --label-names World Sports Business Sci/Tech.
        sentence_model: the sentence-transformers model that encodes the texts, or that made the vectors; recorded, so
            that new texts can be encoded later.
        out: the run's folder, with the features next to it; with --sweep, a .png, .svg or .pdf file.
        seed: seed of the start, the order of the rows and the noise.
        classify: also fit a classifier on the codes and labels; nonneg explore then shows its predictions.
        overwrite: replace an earlier run and its features.
        compare: write nothing; print a table that compares this with other methods on the same held-out rows.
        sweep: write no run; compare other sizes on held-out rows and recommend one.
        seeds: with --compare: number of seeds, from --seed on.
        train_rows: with --compare or --sweep: number of rows to fit on; by default 80%.
    """
    require_seed(seed)
    require_paths((vectors, pairs, labels, ids, texts, media))
    _check_uses_of_labels(options.supervised, classify, labels, pairs)
    if compare and sweep:
        raise InputError("--compare and --sweep are both given, expected one of them")
    reject_options({"--seeds": None if compare or seeds == 1 else seeds}, "with --compare")
    files: dict[str, Any] = {"pairs": pairs, "labels": labels, "sentence_model": sentence_model}
    writing: dict[str, Any] = {"ids": ids, "texts": texts, "media": media, "out": out}
    writing |= {"label_names": label_names or None, "classify": classify or None, "overwrite": overwrite or None}
    if sweep:
        _sweep(vectors, labels, sentence_model, writing | {"pairs": pairs}, options, seed, train_rows)
    elif compare:
        reject_options(_flags(writing), "without --compare")
        _compare(vectors, files, options, range(seed, seed + seeds), train_rows)
    else:
        reject_options({"--train-rows": train_rows}, "with --compare or --sweep")
        _convert(vectors, files | {name: value for name, value in writing.items() if value}, options, seed)


def _convert(vectors: str, settings: dict[str, Any], options: Any, seed: int) -> None:
    from nonneg.convert import NonNegativeEmbedding, convert_file

    embedding = NonNegativeEmbedding(**vars(options), random_state=seed)
    made = convert_file(vectors, embedding=embedding, **settings)
    print(f"Converted: {made.run}, {made.features}")
    compared = counted(made.neighbours, "nearest neighbour")
    print(f"{embedding.report_}; {made.neighbours_kept:.0%} of the {compared} kept")
    model = settings.get("sentence_model")
    # A recorded folder is not used unless it is given again, because features may come from strangers.
    option = ["--sentence-model", model] if model and Path(model).exists() else []
    print(f"Next: {shlex.join(['nonneg', 'explore', str(made.run), *option])}")


def _compare(vectors: str, files: dict[str, Any], options: Any, seeds: range, train_rows: int | None) -> None:
    from nonneg.convert import NonNegativeEmbedding
    from nonneg.studies import compare_files

    require_counts({"--seeds": len(seeds)})
    embedding = NonNegativeEmbedding(**vars(options), random_state=seeds[0])
    print_result(compare_files(vectors, **files, embedding=embedding, seeds=seeds, train_rows=train_rows))


def _check_uses_of_labels(supervised: bool, classify: bool, labels: str | None, pairs: str | None) -> None:
    for option, is_given in (("--supervised", supervised), ("--classify", classify)):
        if is_given and labels is None:
            raise InputError(f"{option} is given without --labels, expected one label per row")
    if supervised and pairs is not None:
        raise InputError("--supervised is given with --pairs, expected only one of them")


def _flags(options: dict[str, Any]) -> dict[str, Any]:
    return {f"--{name.replace('_', '-')}": value for name, value in options.items()}


def _sweep(
    vectors: str,
    labels: str | None,
    sentence_model: str | None,
    others: dict[str, Any],
    options: Any,
    seed: int,
    train_rows: int | None,
) -> None:
    from nonneg.convert import NonNegativeEmbedding
    from nonneg.studies import sweep_sizes_of_file

    out, overwrite = others.pop("out"), bool(others.pop("overwrite"))
    reject_options(_flags(others), "without --sweep")
    settings: dict[str, Any] = {"embedding": NonNegativeEmbedding(**vars(options)), "seed": seed}
    found = sweep_sizes_of_file(vectors, labels, out, overwrite, sentence_model, train_rows=train_rows, **settings)
    print_result(found)
    if out is not None:
        print(f"Drawn: {out}")
