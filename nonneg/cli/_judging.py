"""Commands that judge features: measure, doctor, select, match, reproduce, theory, verify."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nonneg.cli._refusals import refuse_given, require_paths, require_seed
from nonneg.errors import InputError

_By = Literal[
    "expected-activation",
    "absolute-activation",
    "unrectified-activation",
    "variance",
    "mutual-information",
    "elimination",
    "sepin",
    "random",
]


def measure(
    subjects: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN")],
    train: tuple[str, ...] = (),
    labels: str | None = None,
    train_labels: str | None = None,
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
        train_labels: the same for --train, where that is a file of vectors.
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
    require_paths([*(path for each in subjects for path in each.split(",")), *train, labels, train_labels])

    from rich.console import Console

    from nonneg.evaluate import require_table
    from nonneg.trials import PARTS, USUAL_PARTS
    from nonneg.trials import measure as run_measure

    asked = PARTS if "all" in parts else parts or USUAL_PARTS
    if out is not None:
        require_table(out)
    found = run_measure(
        *subjects,
        train=train,
        labels=labels,
        train_labels=train_labels,
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
    require_seed(seed)
    require_paths((subject, labels))

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
    require_paths((features, views, test))

    from nonneg.select import select_folder

    if test is not None:
        refuse_given({"--indices": indices}, "without --test")
        _sweep(features, test, keep, by, views, out, seed, overwrite)
        return
    for option, given in (("--keep", keep), ("--by", by)):
        if len(given) > 1:
            raise InputError(f"{option} is given {len(given)} times, expected once, or --test to compare")
    if indices is not None:
        refuse_given({"--by": by or None, "--views": views}, "without --indices, which says what to keep")
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
    require_paths(features)

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


def verify(folder: Annotated[Path, tyro.conf.Positional]) -> None:
    """Read a features folder whole and compare it with the hashes it was saved with.

    Args:
        folder: a features folder.
    """
    from nonneg.features import verify

    print(f"{folder} is whole: {verify(folder)}")
