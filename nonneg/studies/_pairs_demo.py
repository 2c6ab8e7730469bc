"""What the demo measures and shows for pairs: whether words find pictures, and what a feature stands for in both."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nonneg import metrics
from nonneg.codes import dense, unit_rows
from nonneg.features import Features
from nonneg.modalities import Source
from nonneg.models import Model, with_agreement
from nonneg.rectify import NonNegative

QUERIES = ("red animal", "sad face", "green food", "blue sky", "flying animal", "fruit", "winter sport", "time")
_HITS = 10
ROWS = (
    ("words find the picture, R@1", "a held-out emoji's words find a picture of it first", "words_at_1"),
    ("… R@10", "… among the first ten", "words_at_10"),
    (
        "picture finds the words, R@10",
        "a held-out picture finds its emoji's words among the first ten",
        "pictures_at_10",
    ),
    ("zero-shot, 5 guesses", "the subgroup's name is among the five nearest of all subgroups' names", "zero_shot_at_5"),
    ("words and pictures agree", "median AUC: does a picture's feature tell if its words have it", "partner_auc"),
)
"""Label, meaning and key of the figures that only pairs have."""


@dataclass(frozen=True)
class PairsMeasured:
    """The held-out pictures of one side of the comparison, and what was measured on them."""

    features: Features
    shown: Features
    figures: dict[str, float]


def measure_pairs(model: Model, test: Source, every: Source, most_active: int) -> PairsMeasured:
    """Measure a model of pairs on held-out pairs, and embed all pictures to show them.

    Args:
        model: the trained model.
        test: held-out pairs.
        every: all pairs, whose pictures the page shows.
        most_active: for codes without zeros, how many of the largest values per sample count as active, as many as
            the rectified model has.
    """
    first, second = model.modality.sides
    pictures, texts = (model.embed(test, side=side) for side in (first, second))
    codes, words = (_sparse(features.codes, model, most_active) for features in (pictures, texts))
    text_of = _first_partner(model.open(test).samples, texts)
    own, theirs = _groups(test, pictures, texts)
    consistency = metrics.class_consistency(codes, pictures.labels)
    names = model.embed(list(pictures.label_names), side=second, media=False).codes
    guesses = metrics.group_recall_at_k(pictures.codes, names, pictures.labels, np.arange(names.shape[0]), 5)
    figures = {
        "words_at_1": float(metrics.group_recall_at_k(texts.codes, pictures.codes, theirs, own, 1).mean()),
        "words_at_10": float(metrics.group_recall_at_k(texts.codes, pictures.codes, theirs, own, 10).mean()),
        "pictures_at_10": float(metrics.group_recall_at_k(pictures.codes, texts.codes, own, theirs, 10).mean()),
        "zero_shot_at_5": float(guesses.mean()),
        "partner_auc": metrics.partner_auc(codes, words[text_of]).value,
        "class_consistency": consistency.value,
        "class_consistency_supported": consistency.supported,
        "class_consistency_floor": consistency.floor,
        "sparsity": metrics.sparsity(pictures.codes),
        "correlation": metrics.correlation(pictures.codes),
        "effective_rank": metrics.effective_rank(pictures.codes),
        "live": float(consistency.live),
        "features": float(pictures.shape[1]),
    }
    shown = with_agreement(model.embed(every, side=first), model, test, pictures)
    return PairsMeasured(pictures, shown, figures)


def found_by_words(model: Model, pictures: Features) -> dict[str, list[int]]:
    """Return the rows of the pictures nearest to each of `QUERIES`."""
    texts = model.embed(list(QUERIES), side=model.modality.sides[1], media=False)
    a, b = (unit_rows(dense(side.codes)) for side in (texts, pictures))
    nearest = np.argsort(-(a @ b.T), axis=1, kind="stable")[:, :_HITS]
    return {query: rows.tolist() for query, rows in zip(QUERIES, nearest, strict=True)}


def _first_partner(pictures: Any, texts: Features) -> Any:
    """Return the row of the text of each picture."""
    rows = {texts.id(row): row for row in range(len(texts))}
    return np.array([rows[pictures.others.ids[partners[0]]] for partners in pictures.partners])


def _groups(test: Source, *sides: Features) -> list[Any]:
    """Return the group of each sample of each side: pairs of one group show the same, such as the same emoji."""
    rows = test.samples
    numbers = np.arange(len(rows)) if rows.groups is None else rows.groups
    found = []
    for place, features in enumerate(sides):
        by_id = {
            rows.sources[place].ids[row]: number for row, number in zip(rows.links[:, place], numbers, strict=True)
        }
        found.append(np.array([by_id[features.id(row)] for row in range(len(features))]))
    return found


def _sparse(codes: Any, model: Model, most_active: int) -> Any:
    """Return rectified codes as they are, and of others the largest positive values of each sample."""
    if model.config.rectify != "none":
        return dense(codes)
    return NonNegative("top_k", most_active)(torch.tensor(dense(codes))).numpy()
