"""The recipe `images` over seeds, beside contrastive learning that differs only in the rectifier.

    python -m benchmarks.no_loss --data cifar100.npz --out runs/choice --hold-out 0.1 --methods cl-0.1 cl-0.2 images
    python -m benchmarks.no_loss --data cifar100.npz --out runs/final --seeds 0 1 2 3 4 --methods cl-0.2 images

With --hold-out, this part of the training split is kept aside and evaluated instead of the test split, which is not
opened: choose there, then look at the test split once. Runs that are finished are not repeated, so several processes
can share the work by seeds; the last table covers all of them. Differences are to the first method. With --shares,
trained networks are also read at other shares, as further methods such as images@0.05. With --images 1000, training
has so few images.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import nonneg
from benchmarks.hardware import described
from nonneg import metrics
from nonneg.evaluate import linear_probe, markdown_table, match_features, neighbour_hits, paired_difference
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.models import Model
from nonneg.select import Reconstruction, keep
from nonneg.training import TrainConfig, adapted, load_recipe, read_log, train

TEMPERATURES = (0.05, 0.1, 0.2, 0.5)
# What differs from the recipe; names that begin with cl have no rectifier.
METHODS: dict[str, dict[str, Any]] = {
    "images": {},
    **{f"cl-{t}": {"temperature": t} for t in TEMPERATURES},
    **{f"cl-plain-{t}": {"temperature": t, "standardise": False} for t in TEMPERATURES},
    "relu": {"standardise": False, "share": 0.0, "first_share": 0.0, "dense_weight": 0.0},
    **{f"images-{share}": {"share": share} for share in (0.015, 0.02, 0.05, 0.08)},
    "images-constant": {"first_share": 0.0},
    **{f"images-fades-to-{weight}": {"first_dense_weight": 0.5, "dense_weight": weight} for weight in (0, 0.1)},
}
ROWS = {
    "probe_encoder": "linear probe, encoder",
    "probe_projector": "linear probe, projector",
    "neighbours_encoder": "20 nearest neighbours, encoder",
    "neighbours_projector": "20 nearest neighbours, projector",
    "precision_at_10": "precision@10, projector",
    "live": "live features",
    "sparsity": "sparsity",
    "consistency": "class consistency, 50 or more active",
    "chance": "its chance level",
    "excess": "above chance",
    "ceiling": "its ceiling at these shares",
    "half": "linear probe, half of the features",
    "views_per_second": "views per second, median epoch",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["cl-0.2", "images"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--hold-out", type=float, default=0.0)
    parser.add_argument("--images", type=int, help="train on so many images only, as many of each class")
    parser.add_argument("--shares", nargs="+", type=float, default=[])
    parser.add_argument("--set", nargs="*", default=[], help="settings of all methods: --set features=2048 share=0.05")
    args = parser.parse_args()
    args.set = {name: json.loads(value) for name, value in (each.split("=", 1) for each in args.set)}
    if args.images:
        args.data, args.hold_out = smaller(args), 0.0
    for seed in args.seeds:
        for method in args.methods:
            run_one(method, seed, args)
    read = [f"{method}@{share}" for method in args.methods for share in args.shares if _has_share(method)]
    print(described())
    print(table(args.out, args.methods + read))


def run_one(method: str, seed: int, args: argparse.Namespace) -> None:
    """Train and evaluate one method with one seed, unless that is done."""
    name = args.out / f"{method}-{seed}"
    if Path(f"{name}.json").exists():
        return
    given = {"seed": seed, **METHODS[method], **args.set, **({"epochs": args.epochs} if args.epochs else {})}
    config, sentence = adapted(load_recipe("images").replace(data=args.data, **given), given)
    config = config.without_rectifier() if method.startswith("cl") else config
    print(f"{name}: {sentence}", flush=True)
    sources = divided(config, args.hold_out)
    train(config, name, source=sources[0], title=name.name)
    model = nonneg.load(name).to(nonneg.devices.choose_device())
    known = {"views_per_second": statistics.median(line["views_per_second"] for line in read_log(name))}
    known |= evaluate_encoder(model, *sources)  # the same at all shares
    for share in [None, *(args.shares if _has_share(method) else [])]:
        other = model if share is None else model.at_share(share, sources[0])
        read = method if share is None else f"{method}@{share}"
        figures = known | evaluate_projector(args.out / f"{read}-{seed}", other, *sources)
        (args.out / f"{read}-{seed}.json").write_text(json.dumps({"method": read, "seed": seed, **figures}))
        print(f"{read}-{seed}: {figures}", flush=True)


def _has_share(method: str) -> bool:
    return method.startswith("images")


def divided(config: TrainConfig, hold_out: float) -> tuple[Source, Source]:
    """Return what is trained on and what is evaluated, with equally many samples of each class held out."""
    source = config.modality.open(config.data)
    if not hold_out:
        return source, config.modality.open(config.data, "test")
    is_held_out = some_of_each_class(source, hold_out)
    return source.take(~is_held_out), source.take(is_held_out)


def some_of_each_class(source: Source, share: float) -> npt.NDArray[np.bool_]:
    """Choose this share of the samples of each class, the same in every run."""
    labels, rng = np.asarray(source.labels), np.random.default_rng(0)
    chosen = np.zeros(len(source), bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        chosen[rows[: round(share * len(rows))]] = True
    return chosen


def smaller(args: argparse.Namespace) -> str:
    """Write what is trained on and evaluated as data of their own, for which the recipe chooses its settings."""
    path = args.out / "images.npz"
    if not path.exists():
        fitted, tested = divided(load_recipe("images").replace(data=args.data), args.hold_out)
        few = fitted.take(some_of_each_class(fitted, args.images / len(fitted)))
        parts = {"train": few, "test": tested}
        arrays = {f"x_{split}": np.asarray(part.samples[:]) for split, part in parts.items()}
        arrays |= {f"y_{split}": np.asarray(part.labels) for split, part in parts.items()}
        args.out.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)
    return str(path)


def evaluate_encoder(model: Model, fitted: Source, tested: Source) -> dict[str, float]:
    """Return the probe and the neighbours of the encoder's output."""
    return _probe_and_neighbours("encoder", *(model.embed(data, "encoder", media=False) for data in (fitted, tested)))


def _probe_and_neighbours(layer: str, known: Features, test: Features) -> dict[str, float]:
    hits = neighbour_hits(known, test).mean()
    return {f"probe_{layer}": linear_probe(known, test).accuracy, f"neighbours_{layer}": float(hits)}


def evaluate_projector(name: Path, model: Model, fitted: Source, tested: Source) -> dict[str, float]:
    """Return the figures of a model's features; those of the evaluated samples are saved for matching over seeds."""
    known, codes = (model.embed(data, media=False) for data in (fitted, tested))
    codes.save(f"{name}.features", overwrite=True)
    consistency = metrics.class_consistency(codes.codes, codes.labels, min_support=50)
    support = consistency.support.numpy()
    largest = np.bincount(np.asarray(codes.labels)).max()
    counted = np.minimum(1.0, largest / support[support >= 50])
    half = keep(known, Reconstruction(codes.shape[1] // 2))
    same = keep(codes, half.provenance["selected"]["kept"])
    return {
        **_probe_and_neighbours("projector", known, codes),
        "precision_at_10": metrics.precision_at_k(codes.codes, codes.labels, k=10),
        "live": consistency.live / codes.shape[1],
        "sparsity": metrics.sparsity(codes.codes),
        "consistency": consistency.supported,
        "chance": consistency.floor,
        "excess": consistency.supported - consistency.floor,
        "ceiling": float(counted.mean()) if len(counted) else float("nan"),
        "half": linear_probe(half, same).accuracy,
    }


def table(out: Path, methods: list[str]) -> str:
    """Return means over seeds, and paired differences to the first method with 95% intervals, as Markdown."""
    found: dict[str, dict[int, dict[str, float]]] = {method: {} for method in methods}
    for path in sorted(out.glob("*.json")):
        figures = json.loads(path.read_text())
        if figures["method"] in found:
            found[figures["method"]][figures["seed"]] = figures
    rows = [
        [title, *(_cell(found[method], found[methods[0]], key, method != methods[0]) for method in methods)]
        for key, title in ROWS.items()
    ]
    rows.append(["mean matched cosine over seeds", *(_matched(out, each, sorted(found[each])) for each in methods)])
    rows.append(["seeds", *(str(len(found[method])) for method in methods)])
    return markdown_table(["", *methods], rows)


def _cell(own: dict[int, dict[str, float]], first: dict[int, dict[str, float]], key: str, compare: bool) -> str:
    scale, digits = (1, 0) if key == "views_per_second" else (100, 2)
    values = [scale * figures[key] for figures in own.values()]
    text = f"{statistics.mean(values):,.{digits}f}" if values else "–"
    shared = sorted(set(own) & set(first))
    if compare and len(shared) > 1:
        change = paired_difference(*([scale * each[seed][key] for seed in shared] for each in (first, own)), "seeds")
        text += f" ({change.mean:+.{digits}f}, {change.low:+.{digits}f} to {change.high:+.{digits}f})"
    return text


def _matched(out: Path, method: str, seeds: list[int]) -> str:
    if len(seeds) < 2:
        return "–"
    sets = [Features.load(out / f"{method}-{seed}.features") for seed in seeds]
    return f"{match_features(*sets).agreement.value:.3f}"


if __name__ == "__main__":
    main()
