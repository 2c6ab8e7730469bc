"""Fashion products: pictures and names that share features, on the public queries of Marqo's KAGL benchmark.

    python -m benchmarks.pairs --names styles.csv --images images --attributes attributes.csv \\
        --queries ground_truth_text-image.json --out fashion --seeds 0 1 2

- `--names`: `id,productDisplayName`, and `--images`: `ID.jpg`, both of aishwaryab27/FashionWebsite;
- `--attributes`: `id,gender,…,articleType,baseColour,…` of animmala3942/FashionProductRecommendationSystem;
- `--queries`: `data/KAGL/gt_query_doc/ground_truth_text-image.json` of marqo-ai/marqo-FashionCLIP.

Every product that a query asks for is held out, and every product of the same name. Settings are chosen with
`--validate`, which holds out other names of the training part in the same way and uses no product of a public query.
Adds one JSON line per run to `results.jsonl` in `--out`. Published figures are zero-shot figures of large models; these
models are small and trained on products of the same shop.
"""

import argparse
import csv
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.hardware import described
from nonneg import metrics
from nonneg.modalities.images import Images
from nonneg.models import Model, load
from nonneg.rectify import NonNegative
from nonneg.studies import both_sides
from nonneg.training import TrainConfig, load_recipe, read_log, train

PUBLISHED = {  # R@1, R@10, zero-shot, of marqo-ai/marqo-FashionCLIP
    "Marqo-FashionSigLIP": (0.179, 0.489),
    "ViT-B-16-SigLIP": (0.169, 0.468),
    "OpenCLIP ViT-B-16": (0.155, 0.435),
    "FashionCLIP2.0": (0.122, 0.404),
}
ATTRIBUTES = ("articleType", "baseColour", "gender")
_VALIDATION_QUERIES = 1_000
_AT_ONCE = 500  # queries


def products(names: Path, images: Path, attributes: Path, limit: int | None) -> list[dict[str, str]]:
    """Return the products that have a name and a picture, with their attributes."""
    with attributes.open(newline="", encoding="utf-8") as file:
        known = {row["id"]: row for row in csv.DictReader(file)}
    rows = []
    with names.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            picture = images / f"{row['id']}.jpg"
            if row["productDisplayName"] and picture.is_file():
                found = {key: known.get(row["id"], {}).get(key, "") for key in ATTRIBUTES}
                rows.append(
                    {"id": row["id"], "image": str(picture.resolve()), "text": row["productDisplayName"], **found}
                )
            if limit is not None and len(rows) == limit:
                break
    return rows


def asked(rows: list[dict[str, str]], queries: Path, validate: bool) -> dict[str, set[str]]:
    """Return the ids that each query asks for: the published ones, or for validation other names of the data."""
    public: dict[str, dict[str, int]] = json.loads(queries.read_text(encoding="utf-8"))
    there = {row["id"] for row in rows}
    found = {query: {id for id in ids if id in there} for query, ids in public.items()}
    found = {query: ids for query, ids in found.items() if ids}
    if not validate:
        return found
    held_out = held_out_names(rows, found)
    by_name: dict[str, set[str]] = {}
    for row in rows:
        if key(row["text"]) not in held_out:
            by_name.setdefault(row["text"], set()).add(row["id"])
    chosen = random.Random(0).sample(sorted(by_name), min(_VALIDATION_QUERIES, len(by_name) // 5))
    return {name: by_name[name] for name in chosen}


def key(name: str) -> str:
    return " ".join(name.lower().split())


def held_out_names(rows: list[dict[str, str]], queries: dict[str, set[str]]) -> set[str]:
    wanted = set().union(*queries.values()) if queries else set()
    return {key(query) for query in queries} | {key(row["text"]) for row in rows if row["id"] in wanted}


def write_table(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def config_for(arguments: argparse.Namespace, data: Path, seed: int) -> TrainConfig:
    config = load_recipe("pairs")
    first = config.modality.first  # type: ignore[attr-defined]
    assert isinstance(first, Images)
    views = replace(first.views, size=arguments.side, crop_least=0.3, flip_p=0.5)
    first = replace(
        first,
        image_size=round(1.25 * arguments.side),
        stem="small" if arguments.encoder.startswith("resnet") else "standard",
        views=views,
    )
    return config.replace(
        data=str(data),
        first=first,
        labels="articleType",
        encoder=arguments.encoder,
        epochs=arguments.epochs,
        warmup_epochs=max(1, arguments.epochs // 10),
        batch_size=arguments.batch_size,
        features=arguments.features,
        share=arguments.share,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        seed=seed,
    )


def measured(run: Path, config: TrainConfig, documents: Path, queries: dict[str, set[str]]) -> dict[str, float]:
    """Measure a run: retrieval over all documents, the rest on those that queries ask for."""
    model = load(run)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    pictures = model.embed(str(documents / "all.csv"), media=False, side="image")
    ids = {Path(pictures.id(row)).stem: row for row in range(len(pictures))}
    words = model.embed(list(queries), media=False, side="text")
    found = {f"recall_at_{k}": recall(words.codes, pictures.codes, queries, ids, k) for k in (1, 10)}
    held_out = model.open(str(documents / "held_out.csv"), side="image")
    own, theirs = (model.embed(each, media=False) for each in (held_out, model.modality.partners(held_out)[0]))  # type: ignore[index]
    active = round(config.share * config.features)
    a, b = (sparse(each.codes, model, active) for each in (own, theirs))
    auc = metrics.partner_auc(a, b)
    found |= {"auc": auc.value, "sparsity": metrics.sparsity(own.codes)}
    for name, labels in attributes_of(documents / "held_out.csv", own).items():
        consistency = metrics.class_consistency(a, labels)
        found |= {f"{name}_excess": consistency.supported - consistency.floor, "live": consistency.live / own.shape[1]}
    names = model.embed(list(own.label_names), media=False, side="text")
    labels = own.labels
    known = np.flatnonzero(labels >= 0)
    hits = metrics.group_recall_at_k(own.codes[known], names.codes, labels[known], np.arange(len(names)), 1)
    return {**found, "zero_shot": float(hits.mean())}


def recall(words: Any, pictures: Any, queries: dict[str, set[str]], ids: dict[str, int], k: int) -> float:
    """Return the mean over queries of the share of the wanted documents among the first k, as BEIR does."""
    a, b = (torch.nn.functional.normalize(torch.from_numpy(dense(part)), dim=1) for part in (words, pictures))
    shares = []
    wanted = [{ids[id] for id in each if id in ids} for each in queries.values()]
    for start in range(0, len(a), _AT_ONCE):
        nearest = (a[start : start + _AT_ONCE] @ b.T).topk(k).indices.tolist()
        shares += [len(own & set(rows)) / max(1, len(own)) for own, rows in zip(wanted[start:], nearest, strict=False)]
    return float(np.mean(shares))


def dense(codes: Any) -> np.ndarray:
    return codes.toarray() if hasattr(codes, "toarray") else np.array(codes)


def sparse(codes: Any, model: Model, active: int) -> np.ndarray:
    """Return rectified codes, and of others as many of the largest values as the rectified model has active."""
    if model.config.rectify != "none":
        return dense(codes)
    return NonNegative("top_k", active)(torch.from_numpy(dense(codes))).numpy()


def attributes_of(table: Path, pictures: Any) -> dict[str, np.ndarray]:
    with table.open(newline="", encoding="utf-8") as file:
        rows = {Path(row["image"]).stem: row for row in csv.DictReader(file)}
    of_picture = [rows[Path(pictures.id(row)).stem] for row in range(len(pictures))]
    return {name: np.unique([row[name] for row in of_picture], return_inverse=True)[1] for name in ATTRIBUTES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("names", "images", "attributes", "queries", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", choices=("CL", "NCL"), default=["CL", "NCL"])
    parser.add_argument("--encoder", default="resnet18+transformer")
    parser.add_argument("--side", type=int, default=64, help="of a view in pixels")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--limit", type=int, help="use only so many products")
    parser.add_argument("--validate", action="store_true", help="hold out other names instead of the public queries")
    arguments = parser.parse_args()
    rows = products(arguments.names, arguments.images, arguments.attributes, arguments.limit)
    queries = asked(rows, arguments.queries, arguments.validate)
    public = held_out_names(rows, asked(rows, arguments.queries, False))
    if arguments.validate:  # the products of the public queries are not used at all
        rows = [row for row in rows if key(row["text"]) not in public]
    names = held_out_names(rows, queries)
    data = arguments.out / ("validation" if arguments.validate else "data")
    data.mkdir(parents=True, exist_ok=True)
    held_out = [row for row in rows if key(row["text"]) in names]
    write_table(data / "all.csv", rows)
    write_table(data / "held_out.csv", held_out)
    write_table(data / "train.csv", [row for row in rows if key(row["text"]) not in names])
    print(f"{len(rows):,} products, {len(queries):,} queries, {len(held_out):,} products held out")
    for seed in arguments.seeds:
        config = config_for(arguments, data / "train.csv", seed)
        for name, side in both_sides(config).items():
            if name not in arguments.only:
                continue
            start = time.perf_counter()
            run = train(side, arguments.out / f"{name.lower()}-{seed}", overwrite=True, title=name)
            log = read_log(run)
            line = {
                "method": name,
                "seed": seed,
                "validation": arguments.validate,
                **measured(run, config, data, queries),
                "pairs_per_second": float(np.median([each["views_per_second"] / 2 for each in log])),
                "seconds": time.perf_counter() - start,
                "hardware": described(),
            }
            with (arguments.out / "results.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in line.items()}))
    if not arguments.validate:
        for model, (first, ten) in PUBLISHED.items():
            print(f"{model} (published, zero-shot): R@1 {first:.3f}, R@10 {ten:.3f}")


if __name__ == "__main__":
    main()
