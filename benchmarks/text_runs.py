"""One run of `benchmarks.text`: train, embed, evaluate."""

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.stats import spearmanr

import nonneg
from benchmarks import text_peers
from benchmarks.text_data import TASKS, Rated, captions, divided, parted, rated
from nonneg import metrics
from nonneg.codes import dense, unit_rows
from nonneg.convert import NonNegativeEmbedding
from nonneg.devices import choose_device
from nonneg.evaluate import clustering, linear_probe
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.modalities.texts import Texts, ViewConfig
from nonneg.rectify import top_k
from nonneg.studies import METHODS as CODERS
from nonneg.studies import Settings
from nonneg.training import TrainConfig, load_recipe, train

LENGTH, BATCH = 64, 256
_SUPPORT = 10  # active test rows that a feature needs to count for consistency
_STEPS = 400  # of the autoencoder
_RANK = 400
_FEW = 256  # features, to try the benchmark


def run_one(task: dict[str, Any], data: Path, out: Path, seen: int, limit: int) -> dict[str, Any]:
    """Return the figures of a run."""
    start = time.perf_counter()
    if task["part"] == "captions":
        return caption_run(task, data, 4 * seen, limit)
    if task["part"] == "intents":
        return intents_run(task, limit)
    known, tested = divided(data, task["set"], validate=task["part"] == "search")
    if limit:
        known, tested = (s.take(np.linspace(0, len(s) - 1, limit).astype(np.int64)) for s in (known, tested))
    epochs = max(1, round(seen / len(known)))
    if task["method"] in text_peers.KINDS:
        return peer_run(task, data, known, tested, epochs, limit)
    config = configured(task, data, epochs, min(BATCH, len(known) // 2))
    config = config.replace(features=_FEW) if limit else config
    with tempfile.TemporaryDirectory() as folder:
        if task["method"] == "raw":
            model = nonneg.training.new_model(config, known)
        else:
            model = nonneg.load(train(config, Path(folder) / "run", source=known, progress=False))
        device = choose_device()
        a, b = (model.to(device).embed(source, "both", media=False, device=device) for source in (known, tested))
    trained = {"seconds_until_trained": time.perf_counter() - start}
    figures = trained | judged(a["encoder"], b["encoder"], "encoder")
    if task["method"] == "raw":
        return figures
    figures |= judged(a["projector"], b["projector"], "projector")
    if task["method"] == "cl" and task["part"] == "sets":
        figures |= made_sparse(a, b, task["active"], task["seed"])
    return figures


def configured(task: dict[str, Any], data: Path, epochs: int, batch_size: int) -> TrainConfig:
    """Return the settings of a run: MiniLM, a linear projector, standardised features."""
    settings = dict(task.get("settings", {}))
    modality = Texts(length=LENGTH, views=ViewConfig(delete=settings.pop("delete", 0.0)))
    base = TrainConfig(
        seed=task["seed"],
        encoder=f"transformers:{data / 'minilm'}",
        modality=modality,
        epochs=epochs,
        warmup_epochs=min(1, epochs - 1),
        batch_size=batch_size,
        projector_depth=1,
        standardise=True,
        lr=1e-3,
        weight_decay=0.01,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        compile="off",  # compiling takes longer than one of these runs
    )
    if task["method"] != "ncl":
        return base.replace(rectify="none", **settings)
    return base.replace(first_share=0.5, **settings)


def peer_run(
    task: dict[str, Any], data: Path, known: Source, tested: Source, epochs: int, limit: int
) -> dict[str, Any]:
    """Train with sentence-transformers; its one output counts as the encoder (dense) or as the projector (sparse)."""
    settings = {**task["settings"], "seed": task["seed"], "active": task["active"], "length": LENGTH}
    settings["features"] = _FEW if limit else task.get("features", 1024)
    texts = [_texts(known), _texts(tested)]
    pairs = text_peers.views(texts[0], settings["delete"], epochs, task["seed"])
    folder = Path(tempfile.mkdtemp())
    try:
        batch_size = min(BATCH, len(texts[0]) // 2)
        model, _ = text_peers.trained(task["method"], data / "minilm", pairs, folder, settings, batch_size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    a, b = (
        Features(_stored(text_peers.codes(model, some)), labels=np.asarray(source.labels))
        for some, source in zip(texts, (known, tested), strict=True)
    )
    return judged(a, b, "encoder" if task["method"] == "dense" else "projector")


def _texts(source: Source) -> list[str]:
    return list(Texts().preview(source, range(len(source)))["texts"])


def judged(known: Features, tested: Features, layer: str) -> dict[str, float]:
    """Return the figures of one layer on the test rows; probes are fitted on the training rows."""
    groups = clustering(_rotated(tested))
    figures = {
        "probe": linear_probe(known, tested).accuracy,
        "precision": metrics.precision_at_k(tested.codes, tested.labels, k=10),
        "clusters": float(groups.hits.mean()),
        "information": groups.information,
    }
    return {f"{name}_{layer}": value for name, value in (figures | readable(tested, layer)).items()}


def _rotated(features: Features) -> Features:
    """Return dense features of a low rank in as few numbers, at the same distances: k-means is then much faster.

    A linear projector of 384 numbers has a rank of at most 385, however many features it has.
    """
    if features.is_sparse or features.shape[1] <= _RANK:
        return features
    rows = unit_rows(dense(features.codes))
    drawn = np.random.default_rng(0).standard_normal((_RANK, len(rows)))
    rotated = rows @ np.linalg.qr((drawn @ rows).T)[0]
    is_exact = np.allclose(np.linalg.norm(rotated, axis=1), 1, atol=1e-3)
    return Features(rotated.astype(np.float32), labels=features.labels) if is_exact else features


def readable(tested: Features, layer: str = "projector") -> dict[str, float]:
    """Return how readable features are; nothing for the encoder, whose numbers have a sign."""
    if layer == "encoder":
        return {}
    consistency = metrics.class_consistency(tested.codes, tested.labels, min_support=_SUPPORT)
    sparsity = metrics.sparsity(tested.codes)
    return {
        "consistency": consistency.supported,
        "chance": consistency.floor,
        "excess": consistency.excess,
        "supported": consistency.n_supported / tested.shape[1],
        "live": consistency.live / tested.shape[1],
        "sparsity": sparsity,
        "active": (1 - sparsity) * tested.shape[1],
    }


def made_sparse(known: dict[Any, Features], tested: dict[Any, Features], active: int, seed: int) -> dict[str, float]:
    """Return the figures of CL made sparse afterwards: by top-k, and by TopK autoencoders on either layer."""
    figures: dict[str, float] = {}
    for name, layer in (("topk", "projector"), ("auto", "projector"), ("autoencoder", "encoder")):
        rows = [unit_rows(dense(each[layer].codes)).astype(np.float32) for each in (known, tested)]
        if name == "topk":
            codes = [sp.csr_array(top_k(torch.from_numpy(some), active).numpy()) for some in rows]
        else:
            settings = Settings(known["projector"].shape[1], active, _STEPS, seed, NonNegativeEmbedding())
            fitted = CODERS["autoencoder"].fit(rows[0], None, settings)
            codes = [fitted.encode(some) for some in rows]
        a, b = (Features(c, labels=each[layer].labels) for c, each in zip(codes, (known, tested), strict=True))
        found = {"probe": linear_probe(a, b).accuracy, "precision": metrics.precision_at_k(b.codes, b.labels, k=10)}
        figures |= {f"{key}_{name}": value for key, value in (found | readable(b)).items()}
    return figures


def _stored(codes: Any) -> Any:
    return sp.csr_array(codes) if (codes == 0).mean() > 0.5 else codes


def intents_run(task: dict[str, Any], limit: int) -> dict[str, Any]:
    """Train the recipe `text` from scratch on a part of the bundled training questions; evaluate it on the others.

    Probes are fitted on a quarter of that part, which takes less time.
    """
    recipe = load_recipe("text").replace(seed=task["seed"], compile="off")
    settings = dict(task["settings"])
    if "delete" in settings:
        settings["views"] = replace(recipe.modality.views, delete=settings.pop("delete"))
    config = recipe.replace(**settings)
    config = config if task["method"] == "ncl" else config.without_rectifier()
    known, tested = parted(config.modality.open("intents"), 0.2)
    if limit:
        config = config.replace(epochs=1, warmup_epochs=0)
        known, tested = (s.take(np.linspace(0, len(s) - 1, 10 * limit).astype(np.int64)) for s in (known, tested))
    with tempfile.TemporaryDirectory() as folder:
        model = nonneg.load(train(config, Path(folder) / "run", source=known, progress=False))
    device, fitted = choose_device(), parted(known, 0.25)[1]
    a, b = (model.to(device).embed(source, "both", media=False, device=device) for source in (fitted, tested))
    return judged(a["encoder"], b["encoder"], "encoder") | judged(a["projector"], b["projector"], "projector")


def caption_run(task: dict[str, Any], data: Path, seen: int, limit: int) -> dict[str, Any]:
    """Train from scratch on captions, with those of one picture as partners; return rank correlations."""
    columns = captions(data, limit)
    count = len(columns["text"])
    epochs = max(1, round(seen / count))
    sizes = {"width": 256, "depth": 2, "heads": 4, "vocabulary": 8000, "length": 48}
    config = replace(
        configured(task, data, epochs, min(2 * BATCH, count // 2)),
        encoder="transformer",
        modality=Texts(groups="picture", views=ViewConfig(delete=0.2), **sizes),
        lr=1e-3,
    )
    config = config.replace(features=_FEW) if limit else config
    with tempfile.TemporaryDirectory() as folder:
        model = nonneg.load(train(config, Path(folder) / "run", source=columns, progress=False))
    device = choose_device()
    model.to(device)
    figures: dict[str, float] = {}
    for name in (*TASKS, "STSB-dev"):
        pairs = rated(data, name)
        pairs = Rated(*(column[: limit or None] for column in pairs))
        both = [model.embed(texts, "both", media=False, device=device) for texts in (pairs.first, pairs.second)]
        for layer in ("encoder", "projector"):
            x, y = (unit_rows(dense(each[layer].codes)) for each in both)
            figures[f"{name}_{layer}"] = float(spearmanr((x * y).sum(1), pairs.scores).statistic)
    for layer in ("encoder", "projector"):
        figures[f"sts_{layer}"] = float(np.mean([figures[f"{name}_{layer}"] for name in TASKS]))
    codes = both[0]["projector"].codes
    return {**figures, "sparsity": metrics.sparsity(codes), "live": float(metrics.live_features(codes).double().mean())}
