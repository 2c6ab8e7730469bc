"""Settings of the recipe `emoji`, compared on training emoji that are kept aside, and how to search with two words.

    python -m benchmarks.emoji --out runs/emoji --seeds 0 1 --set share=0.05 temperature=0.2 second.views.delete=0.2
    python -m benchmarks.emoji --out runs/emoji --settings settings.jsonl --part 0/4

Parts 2 and 3 of the data (361 emoji, 722 pictures) are kept aside from the training split; the test split is not used.
A two-word query is a pair of words that some kept-aside picture has and of which neither implies the other; the wanted
pictures are those with both. Queries with a colour are counted apart. Ways to search for them: the two words encoded
together as one text, or each alone and then the sum of their codes, the smaller of their similarities, or the product.
On the page, people search all emoji, most of which the model was trained on: `everywhere` is the same with those.

Each line of `--settings` is a JSON object of settings with `method`, `seed` and, if the learnt features are to be read
at other shares than that of training, `at_share`. A result is one line of `results-PART.jsonl`, written at once.
"""

import argparse
import collections
import itertools
import json
import lzma
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.emoji_words import COLOURS
from nonneg import metrics
from nonneg.codes import dense, unit_rows
from nonneg.devices import choose_device
from nonneg.modalities import Source
from nonneg.models import Model, load
from nonneg.rectify import NonNegative
from nonneg.studies import both_sides
from nonneg.training import TrainConfig, load_recipe, train

_KEPT_ASIDE = (2, 3)
_COMMON = 10  # emoji that have a word of a query
_WANTED = 4  # pictures that a query everywhere asks for, at least
_IMPLIES = 0.5  # a word implies another if so many of its emoji have that one, too


def emoji() -> list[dict[str, Any]]:
    """Return the bundled names and words."""
    file = resources.files("nonneg.modalities.pairs.sources") / "emoji" / "words.json.xz"
    return json.loads(lzma.decompress(file.read_bytes()))  # type: ignore[no-any-return]


def split(config: TrainConfig) -> tuple[Source, Source]:
    """Return the pairs to train on and those kept aside."""
    part = {each["id"]: each["part"] for each in emoji()}
    pairs = config.modality.open("emoji", "train")
    aside = np.array([part[emoji_of(id)] in _KEPT_ASIDE for id in pairs.ids])
    return pairs.take(np.flatnonzero(~aside)), pairs.take(np.flatnonzero(aside))


def emoji_of(id: str) -> str:
    """Return the emoji of a picture or of its text."""
    return id.rpartition("-")[0]


def two_word_queries(ids: set[str]) -> dict[tuple[str, str], set[str]]:
    """Return pairs of words, and which of these pictures have both."""
    words = {
        f"{each['id']}-{vendor}": {*each["words"], *each["name"].split(), *colours}
        for each in emoji()
        for vendor, colours in each["colours"].items()
    }
    count = collections.Counter(word for some in words.values() for word in some)
    common = {word for word, n in count.items() if n >= 2 * _COMMON and word.isalpha() and len(word) > 2}
    both = {id: list(itertools.combinations(sorted(some & common), 2)) for id, some in words.items()}
    together = collections.Counter(pair for pairs in both.values() for pair in pairs)
    found: dict[tuple[str, str], set[str]] = {}
    for id in ids:
        for a, b in both[id]:
            if together[a, b] < _IMPLIES * min(count[a], count[b]):
                found.setdefault((a, b), set()).add(id)
    return found


def unit(codes: Any) -> torch.Tensor:
    return unit_rows(torch.tensor(dense(codes)))


def measured(model: Model, some: Source, aside: Source, active: int) -> dict[str, float]:
    pictures, texts = (model.embed(aside, side=side, media=False) for side in ("image", "text"))
    ids = [pictures.id(row) for row in range(len(pictures))]
    row_of = {texts.id(row): row for row in range(len(texts))}
    text_of = np.array([row_of[id] for id in ids])
    number = {id: place for place, id in enumerate(dict.fromkeys(map(emoji_of, ids)))}
    own, theirs = (np.array([number[emoji_of(side.id(row))] for row in range(len(side))]) for side in (pictures, texts))
    p, t = unit(pictures.codes), unit(texts.codes)
    found = {f"words_at_{k}": float(metrics.group_recall_at_k(t, p, theirs, own, k).mean()) for k in (1, 10)}
    found["pictures_at_10"] = float(metrics.group_recall_at_k(p, t, own, theirs, 10).mean())
    a, b = (NonNegative("top_k", active)(each) if model.config.rectify == "none" else each for each in (p, t))
    consistency = metrics.class_consistency(a, pictures.labels)
    found |= {"auc": metrics.partner_auc(a, b[text_of]).value, "excess": consistency.supported - consistency.floor}
    queries = two_word_queries(set(ids))
    for name, scores in two_word_scores(model, list(queries), p).items():
        found |= precision(queries, scores, ids, name)
    trained = model.embed(some, side="image", media=False)
    every = [*ids, *(trained.id(row) for row in range(len(trained)))]
    common = {query: ids for query, ids in two_word_queries(set(every)).items() if len(ids) >= _WANTED}
    scores = unit(model.embed([" ".join(query) for query in common], side="text", media=False).codes)
    found |= precision(common, scores @ torch.cat((p, unit(trained.codes))).T, every, "everywhere")
    return {**found, "queries": len(queries), "queries everywhere": len(common)}


def precision(
    queries: dict[tuple[str, str], set[str]], scores: torch.Tensor, ids: list[str], name: str
) -> dict[str, float]:
    """Return the mean share of wanted pictures among the first ten, for all queries and for those with a colour."""
    has_colour = torch.tensor([any(word in COLOURS for word in query) for query in queries])
    wanted = torch.tensor([[id in some for id in ids] for some in queries.values()])
    hits = wanted.gather(1, scores.topk(10).indices).sum(1) / wanted.sum(1).clamp(max=10)
    return {f"two words, {name}": float(hits.mean()), f"colour and word, {name}": float(hits[has_colour].mean())}


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


def changed(config: TrainConfig, changes: dict[str, Any]) -> TrainConfig:
    """Return the config with settings changed; `second.views.delete` is one of the texts' views."""
    config = config.replace(**{path: value for path, value in changes.items() if "." not in path})
    for path, value in changes.items():
        side, *rest = path.split(".")
        if rest:
            config = config.replace(**{side: nested(getattr(config.modality, side), rest, value)})
    return config


def nested(of: Any, path: list[str], value: Any) -> Any:
    name, *rest = path
    return replace(of, **{name: nested(getattr(of, name), rest, value) if rest else value})


def compared(given: argparse.Namespace, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Train with the settings of a line; yield its figures, and those at other shares."""
    changes = {name: value for name, value in line.items() if name not in ("method", "seed", "at_share")}
    recipe = changed(load_recipe("emoji"), changes).replace(seed=line["seed"], compile="off")
    config, start, processor = both_sides(recipe)[line["method"]], time.perf_counter(), time.process_time()
    if line["method"] == "CL" and "temperature" in changes:
        config = config.replace(temperature=changes["temperature"])
    some, aside = split(config)
    run = train(config, given.out / f"{line['method']}-{given.part[0]}", source=some, overwrite=True, progress=False)
    times = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - processor}
    model = load(run).to(choose_device())
    yield {**line, **measured(model, some, aside, round(recipe.share * recipe.features)), **times}
    for share in line.get("at_share", ()):
        figures = measured(model.at_share(share, some), some, aside, 0)
        yield {**{name: value for name, value in line.items() if name != "at_share"}, "read_at_share": share, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=("CL", "NCL"), default=["CL", "NCL"])
    parser.add_argument("--set", nargs="*", default=[], help="settings of the recipe, such as share=0.05")
    parser.add_argument("--settings", type=Path, help="a file of settings instead, one JSON object per line")
    parser.add_argument("--part", default="0/1", help="only every fourth line from the third one on: 2/4")
    parser.add_argument("--results", type=Path, help="folder of the results; by default --out")
    given = parser.parse_args()
    given.part = tuple(map(int, given.part.split("/")))
    changes = {name: json.loads(value) for name, value in (each.split("=", 1) for each in given.set)}
    lines = [{"method": m, "seed": s, **changes} for s, m in itertools.product(given.seeds, given.methods)]
    if given.settings:
        lines = [json.loads(line) for line in given.settings.read_text().splitlines() if line.strip()]
    folder = given.results or given.out
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / f"results-{given.part[0]}.jsonl"
    for line in lines[given.part[0] :: given.part[1]]:
        try:
            for figures in compared(given, line):
                shown = {name: round(v, 4) if isinstance(v, float) else v for name, v in figures.items()}
                with results.open("a") as file:
                    file.write(json.dumps(shown) + "\n")
                print(json.dumps(shown), flush=True)
        except Exception as error:  # the other settings are tried all the same
            print(f"{line}: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
