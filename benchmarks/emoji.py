"""Settings of the recipe `emoji`, compared on training emoji that are kept aside, and how to search with two words.

    python -m benchmarks.emoji --out runs/emoji --seeds 0 1 --set share=0.05 temperature=0.2

Parts 2 and 3 of the data (361 emoji, 722 pictures) are kept aside from the training split; the test split is not used.
A two-word query is a pair of words that some kept-aside emoji has and of which neither implies the other; the wanted
pictures are those of emoji with both. Ways to search for them: the two words encoded together as one text, or each
alone and then the sum of their codes, the smaller of their similarities, or the product.
"""

import argparse
import collections
import itertools
import json
import lzma
import time
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nonneg import metrics
from nonneg.modalities import Source
from nonneg.models import Model, load
from nonneg.rectify import NonNegative
from nonneg.studies import both_sides
from nonneg.training import TrainConfig, load_recipe, train

_KEPT_ASIDE = (2, 3)
_COMMON = 10  # emoji that have a word of a query
_IMPLIES = 0.5  # a word implies another if so many of its emoji have that one, too


def emoji() -> list[dict[str, Any]]:
    """Return the bundled names and words."""
    file = resources.files("nonneg.modalities.pairs.sources") / "emoji" / "words.json.xz"
    return json.loads(lzma.decompress(file.read_bytes()))  # type: ignore[no-any-return]


def split(config: TrainConfig) -> tuple[Source, Source]:
    """Return the pairs to train on and those kept aside."""
    part = {each["id"]: each["part"] for each in emoji()}
    pairs = config.modality.open("emoji", "train")
    texts = pairs.samples.sources[1].ids
    aside = np.array([part[texts[text]] in _KEPT_ASIDE for _, text in pairs.samples.links])
    return pairs.take(np.flatnonzero(~aside)), pairs.take(np.flatnonzero(aside))


def two_word_queries(ids: set[str]) -> dict[tuple[str, str], set[str]]:
    """Return pairs of words, and which of these emoji have both."""
    words = {each["id"]: {*each["words"], *each["name"].split()} for each in emoji()}
    count = collections.Counter(word for some in words.values() for word in some)
    common = {word for word, n in count.items() if n >= _COMMON and word.isalpha() and len(word) > 2}
    both = {id: list(itertools.combinations(sorted(some & common), 2)) for id, some in words.items()}
    together = collections.Counter(pair for pairs in both.values() for pair in pairs)
    found: dict[tuple[str, str], set[str]] = {}
    for id in ids:
        for a, b in both[id]:
            if together[a, b] < _IMPLIES * min(count[a], count[b]):
                found.setdefault((a, b), set()).add(id)
    return found


def unit(codes: Any) -> torch.Tensor:
    dense = torch.from_numpy(codes.toarray() if hasattr(codes, "toarray") else np.array(codes))
    return torch.nn.functional.normalize(dense, dim=1)


def measured(model: Model, aside: Source, active: int) -> dict[str, float]:
    pictures, texts = (model.embed(aside, side=side, media=False) for side in ("image", "text"))
    emoji_of = [pictures.id(row).rpartition("-")[0] for row in range(len(pictures))]
    number = {texts.id(row): row for row in range(len(texts))}
    text_of, numbers = np.array([number[id] for id in emoji_of]), np.arange(len(texts))
    p, t = unit(pictures.codes), unit(texts.codes)
    found = {f"words_at_{k}": float(metrics.group_recall_at_k(t, p, numbers, text_of, k).mean()) for k in (1, 10)}
    found["pictures_at_10"] = float(metrics.group_recall_at_k(p, t, text_of, numbers, 10).mean())
    a, b = (NonNegative("top_k", active)(each) if model.config.rectify == "none" else each for each in (p, t))
    consistency = metrics.class_consistency(a, pictures.labels)
    found |= {"auc": metrics.partner_auc(a, b[text_of]).value, "excess": consistency.supported - consistency.floor}
    queries = two_word_queries(set(number))
    wanted = torch.tensor([[id in ids for id in emoji_of] for ids in queries.values()])
    for name, scores in two_word_scores(model, list(queries), p).items():
        hits = wanted.gather(1, scores.topk(10).indices).sum(1)
        found[f"two words, {name}"] = float((hits / wanted.sum(1).clamp(max=10)).mean())
    return {**found, "queries": len(queries)}


def two_word_scores(model: Model, queries: list[tuple[str, str]], pictures: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the scores `(queries, pictures)` of each way to combine two words."""

    def codes(texts: list[str]) -> torch.Tensor:
        return unit(model.embed(texts, side="text", media=False).codes)

    words = list(dict.fromkeys(word for query in queries for word in query))
    of_word = dict(zip(words, codes(words), strict=True))
    a, b = (torch.stack([of_word[query[place]] for query in queries]) for place in (0, 1))
    similar = [each @ pictures.T for each in (a, b)]
    return {
        "together": codes([" ".join(query) for query in queries]) @ pictures.T,
        "sum": (a + b) @ pictures.T,
        "smaller": torch.minimum(*similar),
        "product": similar[0].clamp(min=0) * similar[1].clamp(min=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=("CL", "NCL"), default=["CL", "NCL"])
    parser.add_argument("--set", nargs="*", default=[], help="settings of the recipe, such as share=0.05")
    given = parser.parse_args()
    changes = {name: json.loads(value) for name, value in (each.split("=", 1) for each in given.set)}
    for seed, method in itertools.product(given.seeds, given.methods):
        recipe = load_recipe("emoji").replace(**changes, seed=seed)
        config, start = both_sides(recipe)[method], time.process_time()
        some, aside = split(config)
        run = train(config, given.out / f"{method}-{seed}", source=some, overwrite=True, progress=False)
        seconds = time.process_time() - start
        figures = measured(load(run), aside, round(recipe.share * recipe.features))
        shown = {name: round(value, 4) for name, value in figures.items()}
        print(
            json.dumps({"method": method, "seed": seed, **changes, **shown, "cpu_seconds": round(seconds)}), flush=True
        )


if __name__ == "__main__":
    main()
