"""Commands that evaluate features: measure, doctor, select, match, reproduce, theory, verify."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nonneg.cli._checks import reject_options, require_known, require_paths, require_seed
from nonneg.cli._help import File
from nonneg.cli._output import print_result
from nonneg.errors import InputError

_By = Literal[
    "expected-activation",
    "absolute-activation",
    "unrectified-activation",
    "variance",
    "reconstruction",
    "mutual-information",
    "elimination",
    "sepin",
    "random",
]
_TWO_OR_MORE = tyro.conf.arg(metavar="FEATURES ...", help_behavior_hint="(two or more)")


def measure(
    subjects: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN ...")],
    train: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FEATURES ...")] = (),
    labels: File = None,
    train_labels: File = None,
    data: str | None = None,
    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART ...")] = (),
    transfer_to: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DATA ...")] = (),
    shifted_to: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DATA ...")] = (),
    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = (),
    probe_epochs: int = 50,
    fine_tune_epochs: int = 30,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
) -> None:
    """Measure features or runs side by side, with error bars and chance floors.

    For example:
        nonneg measure runs/cl runs/ncl --names CL NCL --out table.md

    Args:
        subjects: trained runs, features folders or files of vectors, one column each; runs with different seeds share
            a column if commas separate them: runs/a-0,runs/a-1.
        train: for features: features to fit probes on, one for each subject; by default 80% of their own rows.
        labels: one label per row, for files of vectors.
        train_labels: the same for --train, if that is a file of vectors.
        data: samples to measure runs on, instead of those they were trained on.
        parts: some of structure, probe, neighbours, few-labels, label-noise (the default), random-splits (20 splits
            10/10/80), folds (10-fold cross-validation), clusters, and for runs public-split, sepin, partners,
            zero-shot and agreement (for pairs), corruptions, augmented-probe, fine-tuning; or all.
        transfer_to: for runs: other data sets on whose features a probe is fitted and evaluated.
        shifted_to: for runs: other samples of the same classes on which the run's own probe is evaluated.
        names: names of the columns.
        probe_epochs: epochs of augmented-probe.
        fine_tune_epochs: epochs of fine-tuning.
        out: also write the table to a .md, .json, .html or .csv file.
    """
    require_paths([*(path for each in subjects for path in each.split(",")), *train, labels, train_labels])

    from nonneg.evaluate import require_table
    from nonneg.trials import PARTS, USUAL_PARTS
    from nonneg.trials import measure as run_measure

    require_known("--parts", parts, (*PARTS, "all"))
    if out is not None:
        require_table(out)
    found = run_measure(
        *subjects,
        train=train,
        labels=labels,
        train_labels=train_labels,
        data=data,
        parts=PARTS if "all" in parts else parts or USUAL_PARTS,
        transfer_to=transfer_to,
        shifted_to=shifted_to,
        names=names,
        probe_epochs=probe_epochs,
        fine_tune_epochs=fine_tune_epochs,
    )
    print_result(found)
    if out is not None:
        found.save(out)


def doctor(
    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="VECTORS_OR_RUN")],
    labels: File = None,
    n_components: int | None = None,
    max_active: int | None = 32,
    max_iter: int = 600,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Diagnose an embedding: are its features readable, and would a conversion help?

    For example:
        nonneg doctor news.npz:description --labels news.npz:label

    Args:
        subject: a file of vectors, a features folder, or a run.
        labels: one label per row, in a .txt, .csv, .parquet, .npy or .npz file.
        n_components: number of features of the non-negative version; by default four times the width, 64 to 1,024.
        max_active: maximum number of active features per row.
        max_iter: number of training steps of the non-negative version.
        seed: seed of the drawn rows, the rotation and the fit.
        json: print figures and findings as JSON.
    """
    require_seed(seed)
    require_paths((subject, labels))

    from nonneg.studies import examine

    settings = {"n_components": n_components, "max_active": max_active, "max_iter": max_iter, "seed": seed}
    print_result(examine(subject, labels, **settings), json)


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
    """Keep fewer features; or, with --test, compare all selectors and write only a plot.

    For example:
        nonneg select runs/news.features --keep 256 --by reconstruction

    Args:
        features: a features folder, or a run with features next to it.
        keep: number of features to keep; with --test it can be given several times.
        by: selection method, expected-activation by default; with --test all, or those given.
        indices: a .kept.npy file of an earlier selection: keep the same features.
        views: features of a second view of the same samples, needed by sepin.
        test: labelled features on which probe, retrieval and size are measured; selectors are fitted on FEATURES.
        out: the folder to write, by default NAME-COUNT.features next to FEATURES; with --test a .png file.
        seed: seed of all random choices.
        overwrite: replace earlier features or an earlier plot.
    """
    require_paths((features, views, test))

    from nonneg.select import select_folder, sweep_folders

    shared: dict[str, Any] = {"views": views, "seed": seed, "overwrite": overwrite}
    if test is not None:
        reject_options({"--indices": indices}, "without --test")
        print_result(sweep_folders(features, test, keep or None, by or None, out, **shared))
        if out is not None:
            print(f"Drawn: {out}")
        return
    for option, given in (("--keep", keep), ("--by", by)):
        if len(given) > 1:
            raise InputError(f"{option} is given {len(given)} times, expected once, or --test to compare")
    if indices is not None:
        reject_options({"--by": by or None, "--views": views}, "without --indices")
    chosen = by[0] if by else "expected-activation"
    made = select_folder(features, keep[0] if keep else None, chosen, out, indices=indices, **shared)
    print(f"Selected: {made.features}, {made.kept}")


def match(
    features: Annotated[tuple[str, ...], tyro.conf.Positional, _TWO_OR_MORE],
    least: float = 0.5,
    absolute: bool = False,
    carry_names: bool = False,
    reorder: bool = False,
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    json: bool = False,
    overwrite: bool = False,
) -> None:
    """Match features of the same samples across seeds, models and retrainings.

    For example:
        nonneg match runs/a.features runs/b.features --carry-names --out runs/b-named.features

    Args:
        features: features folders, or runs with features next to them; all are matched to the first.
        least: minimum cosine for two features to count as the same.
        absolute: match by absolute cosine, for features with an arbitrary sign.
        carry_names: write the second set with the names of the matching features of the first.
        reorder: write the second set with matching features in the same columns as in the first.
        out: the folder for the renamed or reordered features.
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
    print_result(found, json)
    if out is not None and not json:
        print(f"Written: {out}")


def reproduce(
    recipe: Annotated[
        Literal["digits", "cifar10", "cifar100", "imagenet100"], tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")
    ],
    data: str = "",
    seeds: int | None = None,
    epochs: int | None = None,
    probe_epochs: int | None = None,
    fine_tune_epochs: int | None = None,
    supervised_epochs: int | None = None,
    supervised_seeds: int | None = None,
    ablation_epochs: int | None = None,
    transfer_to: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DATA ...")] = (),
    shifted_to: Annotated[tuple[str, ...], tyro.conf.arg(metavar="DATA ...")] = (),
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    page: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    overwrite: bool = False,
) -> None:
    """Reproduce the paper: train CL and NCL over seeds, measure both, write a page. Can be interrupted and resumed.

    The default numbers depend on the recipe: digits takes minutes on a laptop.

    For example:
        nonneg reproduce digits --seeds 2 --out runs/reproduce-digits --page digits.md

    Args:
        recipe: digits, cifar10, cifar100 or imagenet100.
        data: path of the images; digits are bundled.
        seeds: number of seeds of CL and NCL, from 0 on.
        epochs: epochs of CL and NCL; by default the recipe's.
        probe_epochs: epochs of the linear layer trained on views.
        fine_tune_epochs: epochs of fine-tuning.
        supervised_epochs: epochs of cross entropy from scratch.
        supervised_seeds: number of seeds of the supervised runs.
        ablation_epochs: epochs of each activation; 0 skips them.
        transfer_to: other data sets on whose features a probe is fitted and evaluated.
        shifted_to: other images of the same classes (sketches, another style) on which the probe is evaluated.
        out: folder for runs and figures; by default runs/reproduce-RECIPE.
        page: the Markdown page; by default docs/results/RECIPE.md.
        overwrite: start again, discarding what that folder holds.
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

    For example:
        nonneg theory --seed 1

    Args:
        seed: seed of the population and the random starts.
    """
    from nonneg.studies import print_theory

    if not print_theory(seed):
        sys.exit(1)


def verify(folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]) -> None:
    """Verify the integrity of features, an index, a run or a model by their stored hashes.

    For example:
        nonneg verify runs/news.features

    Args:
        folder: the folder to read.
    """
    from nonneg.runs import kind_of, verify_records

    kind = kind_of(folder)
    verify_records(folder)
    rooms = {"index": "search", "conversion": "convert", "estimator": "convert", "trained run": "models"}
    found = import_module(f"nonneg.{(rooms | {'model': 'models'}).get(kind or '', 'features')}").verify(folder)
    print(f"{folder} is intact: {found or kind}")
