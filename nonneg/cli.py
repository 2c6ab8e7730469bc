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

_By = Literal[
    "expected-activation",
    "absolute-activation",
    "unrectified-activation",
    "variance",
    "mutual-information",
    "sepin",
    "random",
]


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
        unused["--classify"] = classify or None
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
        classify=classify,
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


def measure(
    subjects: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN")],
    train: tuple[str, ...] = (),
    labels: str | None = None,
    data: str | None = None,
    parts: tuple[str, ...] = (),
    transfer_to: tuple[str, ...] = (),
    shifted_to: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    probe_epochs: int = 50,
    fine_tune_epochs: int = 30,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
) -> None:
    """Measure features or runs side by side, with error bars and chance floors.

    Args:
        subjects: trained runs, features folders or files of vectors, one column each; runs of one thing with several
            seeds share a column, with commas between: runs/a-0,runs/a-1.
        train: for features: what to fit probes on, one for each subject; 80% of their own rows if left out.
        labels: one label a row, for files of vectors.
        data: images to measure runs on instead of those they were trained on.
        parts: some of structure, probe, neighbours, few-labels, label-noise (these if left out), and for runs
            sepin, corruptions, augmented-probe, fine-tuning; or all.
        transfer_to: other data sets, on whose features a probe is fitted and told; for runs.
        shifted_to: other images of the same classes, on which the run's own probe is told; for runs.
        names: of the columns.
        probe_epochs: of augmented-probe.
        fine_tune_epochs: of fine-tuning.
        out: write the table to a .md, .json, .html or .csv file, too.
    """
    from rich.console import Console

    from nonneg.evaluate import PARTS, USUAL_PARTS, require_table
    from nonneg.evaluate import measure as run_measure

    asked = tuple(PARTS) if parts == ("all",) else parts or USUAL_PARTS
    if out is not None:
        require_table(out)
    found = run_measure(
        *subjects,
        train=train,
        labels=labels,
        data=data,
        parts=asked,
        transfer_to=transfer_to,
        shifted_to=shifted_to,
        names=names,
        probe_epochs=probe_epochs,
        fine_tune_epochs=fine_tune_epochs,
    )
    if sys.stdout.isatty():
        Console().print(found)
    else:
        print(found.markdown(), end="")  # as wide as it is, for a file
    if out is not None:
        found.save(out)


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


def select(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    keep: Annotated[tuple[int, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="COUNT")] = (),
    by: Annotated[tuple[_By, ...], tyro.conf.UseAppendAction] = (),
    indices: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    views: Annotated[str | None, tyro.conf.arg(metavar="FEATURES")] = None,
    test: Annotated[str | None, tyro.conf.arg(metavar="FEATURES")] = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Keep fewer features; or, with --test, try every selector and write nothing but a picture of it.

    Args:
        features: a features folder, or a run with features beside it.
        keep: how many features to keep; with --test it may be given several times.
        by: how to choose them: expected-activation if left out; with --test all, or those given.
        indices: a .kept.npy file of an earlier selection: keep the same ones.
        views: features of a second view of the same samples, which sepin chooses by.
        test: labelled features to measure probe, retrieval and size on, of selectors fitted on the others.
        out: the folder for what is kept, NAME-COUNT.features beside the other if left out; with --test a .png file.
        seed: of whatever is drawn at random.
        overwrite: replace earlier features or an earlier picture.
    """
    from nonneg.select import select_folder

    if test is not None:
        _refuse_given({"--indices": indices}, "without --test")
        _sweep(features, test, keep, by, views, out, seed, overwrite)
        return
    for option, given in (("--keep", keep), ("--by", by)):
        if len(given) > 1:
            raise InputError(f"{option} is given {len(given)} times, expected once, or --test to compare")
    if indices is not None:
        _refuse_given({"--by": by or None, "--views": views}, "without --indices, which says what to keep")
    count = keep[0] if keep else None
    made = select_folder(
        features,
        count,
        by[0] if by else "expected-activation",
        out,
        indices=indices,
        views=views,
        seed=seed,
        overwrite=overwrite,
    )
    print(f"Selected: {made.features}, {made.kept}")


def _sweep(
    train: str,
    test: str,
    keep: tuple[int, ...],
    by: tuple[str, ...],
    views: str | None,
    out: Path | None,
    seed: int,
    overwrite: bool,
) -> None:
    from nonneg.select import sweep_folders

    found = sweep_folders(train, test, keep or None, by or None, out, views=views, seed=seed, overwrite=overwrite)
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(found)
    else:
        print(found.markdown(), end="")  # as wide as it is, for a file
    if out is not None:
        print(f"Drawn: {out}")


def search(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    like: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="ID")] = (),
    minus: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="ID")] = (),
    feature: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME:WEIGHT")] = (),
    image: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    vector: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    text: str | None = None,
    without: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = (),
    label: str | None = None,
    k: int | None = None,
    query: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    index: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    run: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None,
    sentence_model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    json: bool = False,
) -> None:
    """Find samples by others, by features, by a new image, vector or text; each hit says which features made it one.

    Options that name something can be given several times. Features go by their number or their name.

    Args:
        features: a features folder, or a run with features beside it.
        like: a sample to be like.
        minus: a sample to be unlike; what falls below zero by that is off.
        feature: a feature and how much of it: 17:1.0, wheels:0.5, wheels.
        image: an image file, encoded by the trained run that made the features.
        vector: a file with one vector, encoded by the run of nonneg convert that made them.
        text: a text, encoded by the sentence model and that run.
        without: leave out samples on which this feature is active.
        label: only samples with this label.
        k: how many hits at most; 10 if left out.
        query: run a saved query again; nothing else can be asked then.
        save: write the query to a JSON file.
        index: where the index is; NAME.index beside NAME.features, or none, if left out.
        run: the run that made the features; the one they name, beside them, if left out.
        sentence_model: of sentence-transformers, for --text.
        json: print hits with all contributions as JSON.
    """
    from nonneg.search import Query, parsed_feature, search_folder

    if query is not None:
        given: dict[str, Any] = {"--like": like, "--minus": minus, "--feature": feature, "--image": image}
        given |= {"--vector": vector, "--text": text, "--without": without, "--label": label, "--k": k}
        _refuse_given({name: value or None for name, value in given.items()}, "without --query, which says it all")
        asked = Query.load(query)
    else:
        asked = Query(
            like=like,
            minus=minus,
            features=tuple(parsed_feature(named) for named in feature),
            image=image,
            vector=vector,
            text=text,
            without=tuple(int(named) if named.isdecimal() else named for named in without),
            label=label,
            k=10 if k is None else k,
        )
    found = search_folder(features, asked, index, run=run, sentence_model=sentence_model)
    if save is not None:
        asked.save(save)
    if json:
        from json import dumps

        print(dumps(found.to_dict(), indent=1))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(found)
    else:
        print(found.markdown(), end="")  # as wide as it is, for a file


def index(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    engine: Literal["exact", "seismic", "milvus"] = "exact",
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    uri: str = "",
    cosine: bool = False,
    quantised: bool = False,
    overwrite: bool = False,
) -> None:
    """Build an index of features, which nonneg search then uses.

    Args:
        features: a features folder, or a run with features beside it.
        engine: exact; seismic, faster and approximate; or milvus, in a file or on a cluster.
        out: the index's folder; NAME.index beside NAME.features if left out.
        uri: of a Milvus cluster, http://host:19530.
        cosine: bring each code to length 1 first, for codes whose lengths mean nothing.
        quantised: keep values in 8 bits: a smaller index with rounded scores.
        overwrite: replace an earlier index in that folder.
    """
    from rich.console import Console

    from nonneg.search import index_folder

    with Console(stderr=True).status("indexing"):
        made = index_folder(features, engine, out, uri=uri, cosine=cosine, quantised=quantised, overwrite=overwrite)
    print(f"Indexed: {made}")


def match(
    features: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    least: float = 0.5,
    absolute: bool = False,
    carry_names: bool = False,
    reorder: bool = False,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    json: bool = False,
    overwrite: bool = False,
) -> None:
    """Say which features are the same over seeds, models and retrainings, of the same samples.

    Args:
        features: two or more features folders, or runs with features beside them; all are matched to the first.
        least: cosine from which two features count as the same.
        absolute: match by the absolute cosine: features that are free up to their sign.
        carry_names: write the second's features, called as those of the first that they match.
        reorder: write the second's features, those that match having the number they have in the first.
        out: the folder for features so named or ordered.
        json: print figures and matches as JSON.
        overwrite: replace earlier features in that folder.
    """
    from nonneg.evaluate import match_folders

    found = match_folders(
        features,
        signed=not absolute,
        least=least,
        names=carry_names,
        reorder=reorder,
        out=out,
        overwrite=overwrite,
    )
    if json:
        from json import dumps

        print(dumps(found.to_dict(), indent=1))
        return
    from rich.console import Console

    Console().print(found)
    if out is not None:
        print(f"Written: {out}")


def reproduce(
    recipe: Annotated[Literal["digits", "cifar10", "cifar100", "imagenet100"], tyro.conf.Positional],
    data: str = "",
    seeds: int = -1,
    epochs: int = -1,
    probe_epochs: int = -1,
    fine_tune_epochs: int = -1,
    supervised_epochs: int = -1,
    supervised_seeds: int = -1,
    ablation_epochs: int = -1,
    transfer_to: tuple[str, ...] = (),
    shifted_to: tuple[str, ...] = (),
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    page: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    overwrite: bool = False,
) -> None:
    """Train CL and NCL over seeds, measure everything, write a page beside the paper's figures. It can be interrupted.

    Numbers that are left out are usual ones for the recipe: fewer for digits, which a laptop does in minutes.

    Args:
        recipe: what to reproduce.
        data: the images; digits are bundled.
        seeds: how many of CL and NCL, from 0 on.
        epochs: of CL and NCL; the recipe's if left out.
        probe_epochs: of the linear layer trained on views.
        fine_tune_epochs: of fine-tuning.
        supervised_epochs: of cross entropy from scratch.
        supervised_seeds: how many of those.
        ablation_epochs: of each activation; 0 leaves them out.
        transfer_to: other data sets, on whose features a probe is fitted and told.
        shifted_to: other images of the same classes (sketches, another style), which the probe is told.
        out: folder for runs and figures; runs/reproduce- and the recipe if left out.
        page: the Markdown page; docs/results/ and the recipe if left out.
        overwrite: start over, whatever is in that folder.
    """
    from nonneg.studies import plan_for
    from nonneg.studies import reproduce as run_reproduce

    plan = plan_for(
        recipe,
        data,
        seeds=seeds,
        epochs=epochs,
        probe_epochs=probe_epochs,
        fine_tune_epochs=fine_tune_epochs,
        supervised_epochs=supervised_epochs,
        supervised_seeds=supervised_seeds,
        ablation_epochs=ablation_epochs,
        transfer_to=transfer_to,
        shifted_to=shifted_to,
    )
    out = Path("runs") / f"reproduce-{recipe}" if out is None else out
    page = Path("docs/results") / f"{recipe}.md" if page is None else page
    print(f"Reproduced: {run_reproduce(plan, out, page, overwrite=overwrite)}")


def theory(seed: int = 0) -> None:
    """Check the theorems numerically; exit code 1 if one fails.

    Args:
        seed: of the population and the random starts.
    """
    from nonneg.studies import print_theory

    if not print_theory(seed):
        sys.exit(1)


def explore(
    features: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN")],
    host: str = "127.0.0.1",
    port: int | None = None,
    sentence_model: str | None = None,
    read_only: bool = False,
    browser: bool = True,
) -> None:
    """Show what each feature means on a web page of this machine; two sets side by side if two are given.

    Args:
        features: one or two features folders, runs with features beside them, or files of vectors.
        host: the address to listen on; with one that others can reach, the printed address holds a token.
        port: 8765 if left out, or a free one where that is taken.
        sentence_model: of a run of nonneg convert, the sentence model that made its vectors: texts can then be tried.
        read_only: names cannot be changed.
        browser: open the page in a browser.
    """
    from nonneg.explorer import explore as run_explore

    run_explore(*features, host=host, port=port, sentence_model=sentence_model, read_only=read_only, browser=browser)


def export(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN")],
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SITE")],
    beside: str | None = None,
    max_features: int = 1000,
    max_samples: int = 1000,
    overwrite: bool = False,
) -> None:
    """Write the pages of explore as files that any web server shows, for sharing.

    Args:
        features: a features folder, a run with features beside it, or a file of vectors.
        out: the folder to write.
        beside: a second set of features, to be shown side by side.
        max_features: how many features get a page at most, the most active ones.
        max_samples: how many samples get a page at most, those strongest for some feature.
        overwrite: replace an earlier copy in that folder.
    """
    from nonneg.explorer import export as run_export

    given = (features,) if beside is None else (features, beside)
    written = run_export(*given, out=out, features=max_features, samples=max_samples, overwrite=overwrite)
    print(f"Exported: {written}")


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
