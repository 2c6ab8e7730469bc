"""A static copy of the page: files that any web server can show, for sharing."""

import itertools
import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.durable import (
    TEMPORARY_PREFIX,
    check_claimable,
    claim_folder,
    folder_lock,
    made_by,
    os_errors_as_input_errors,
)
from nonneg.errors import InputError
from nonneg.explorer._answers import Answer
from nonneg.explorer._explorer import STRIP, Explorer
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._media import content_type
from nonneg.explorer._open import open_explorer
from nonneg.explorer._server import STATIC
from nonneg.features import Features
from nonneg.progress import progress_bar

_MAKER, _MARKER, _PAGE = "nonneg export", "export.json", "index.html"
_PARTS = {_PAGE, "static", "data", "media"}
_DIGITS = 4
# What the server sends as headers; a static one sends none.
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'self'; img-src 'self' blob:;"
    " object-src 'none'; base-uri 'self'; form-action 'self'\">\n"
)
_EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def export(
    *given: str | Path | Features,
    out: str | Path,
    features: int = 1000,
    samples: int = 1000,
    overwrite: bool = False,
    progress: bool = True,
) -> Path:
    """Write overview, features, feature and sample pages as files that open from any static web server.

    Args:
        *given: one or two sets of features, as for `explore`.
        out: the folder to write.
        features: at most so many of each set get a page, the most active ones.
        samples: at most so many of each set get a page, those strongest for some feature.
        overwrite: replace an earlier copy, once the new one is whole.
        progress: show a bar on standard error.
    """
    for name, count in (("features", features), ("samples", samples)):
        if count < 1:
            raise InputError(f"{name} is {count}, expected at least 1")
    folder = Path(out)
    with folder_lock(folder):
        replaces = overwrite or _is_unfinished(folder)
        check_claimable(folder, _MARKER, _MAKER, _PARTS, replaces)
        explorer = open_explorer(given)
        with _aside(folder) as made:
            _write_site(explorer, made, features, samples, progress)
            claim_folder(folder, _MARKER, {"made_by": _MAKER}, _PARTS, replaces)
            with os_errors_as_input_errors(folder):
                for part in sorted(made.iterdir(), key=lambda part: part.name == _PAGE):  # last: what opens is whole
                    part.rename(folder / part.name)
    return folder


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A place in the folder to write to, so that a copy that was there stays until the new one is whole."""
    made = folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    try:
        with os_errors_as_input_errors(folder):
            made.mkdir()
        yield made
    finally:
        for leftover in folder.glob(f"{TEMPORARY_PREFIX}*"):  # this one, and what a kill has left
            shutil.rmtree(leftover, ignore_errors=True)


def _is_unfinished(folder: Path) -> bool:
    """Whether a copy was begun there and never became one."""
    with os_errors_as_input_errors(folder):
        return made_by(folder / _MARKER) == _MAKER and not (folder / _PAGE).exists()


def _write_site(explorer: Explorer, folder: Path, features: int, samples: int, progress: bool) -> None:
    explorer.prepare()
    if len(explorer.sets) == 2:
        explorer.comparison()  # kept for its page; refused at once where the two are not of the same samples
    examples = [each.example.sample.row for each in explorer.overview().sets]
    chosen = [_Chosen(*each, features, samples) for each in zip(explorer.sets, examples, strict=True)]
    with progress_bar(progress) as bar:
        for name, answer in bar.track(list(_names(explorer, chosen)), description="writing"):
            _write(folder / "data", name, answer(), chosen)
    for number, each in enumerate(chosen):
        _write_pictures(folder / "media" / str(number), each)
    _copy(STATIC, folder / "static", skip={_PAGE})
    page = (STATIC / _PAGE).read_text("utf-8")
    page = page.replace('<base href="/">\n', _POLICY).replace("<html ", '<html data-mode="static" ')
    with os_errors_as_input_errors(folder):
        (folder / _PAGE).write_text(page, "utf-8")


class _Chosen:
    """Which features and samples of a set get a page, and which samples are seen."""

    def __init__(self, features: FeatureSet, example: int, most_features: int, most_samples: int) -> None:
        self.set = features
        ranked = features.by_activation()
        everything = len(features.active) <= most_features
        self.features = list(range(len(features.active))) if everything else sorted(ranked[:most_features])
        strips = [[sample.row for sample in features.strongest(f, STRIP)] for f in ranked[:most_features]]
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*strips, fillvalue=-1))
        rows = range(len(features)) if len(features) <= most_samples else in_turn
        wanted = dict.fromkeys([example, *(row for row in rows if row >= 0)])
        self.rows = sorted(itertools.islice(wanted, most_samples))
        self.seen: set[int] = set()
        first = features.features.media(0) if features.features.kind == "images" else None
        self.extension = _EXTENSIONS.get(content_type(first) or "", "png")

    def described(self) -> dict[str, Any]:
        """What the page must know of a copy."""
        left_out = len(self.set.active) - len(self.features)
        return {
            "can_name": False,
            "can_encode": None,
            "is_settled": True,
            "searchable": False,
            "rows": self.rows,
            "extension": self.extension,
            "left_out": left_out,
            "kept": self.features if left_out else None,
        }

    def note(self) -> str:
        """What is left out, in a sentence."""
        total = len(self.set)
        if len(self.rows) == total:
            return ""
        return f"{len(self.rows):,} of {total:,} {self.set.features.kind} of {self.set.name} have a page here. "


def _names(explorer: Explorer, chosen: Sequence[_Chosen]) -> Iterator[tuple[str, Any]]:
    """Name of each file and what makes its content."""
    yield "overview", lambda: explorer.overview(can_write=False)
    if len(explorer.sets) == 2:
        yield "comparison", explorer.comparison
    for number, each in enumerate(chosen):
        yield f"sets/{number}/features", lambda number=number: explorer.table(number)
        yield f"sets/{number}/figures", lambda number=number: explorer.figures(number)
        for feature in each.features:
            yield f"sets/{number}/strip/{feature}", lambda n=number, f=feature: explorer.strip(n, f)
            yield f"sets/{number}/feature/{feature}", lambda n=number, f=feature: explorer.feature(n, f)
        for row in each.rows:
            yield f"sets/{number}/sample/{row}", lambda n=number, r=row: explorer.sample(n, r)


def _write(folder: Path, name: str, answer: Answer, chosen: Sequence[_Chosen]) -> None:
    content, path = _rounded(answer.model_dump()), folder / f"{name}.json"
    if name == "overview":
        for each, copy in zip(content["sets"], chosen, strict=True):
            each.update(copy.described())
        content["note"] = "".join(copy.note() for copy in chosen)
        for each, copy in zip(content["sets"], chosen, strict=True):
            copy.seen.update(_rows(each["example"]))
    elif name.startswith("sets/"):
        copy = chosen[int(name.split("/")[1])]
        copy.seen.update(_rows(content))
        if name.endswith("/features") and len(copy.features) < len(content["rows"]):
            content["rows"] = [content["rows"][feature] for feature in copy.features]
    with os_errors_as_input_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")


def _write_pictures(folder: Path, chosen: _Chosen) -> None:
    if chosen.set.features.kind != "images":
        return
    with os_errors_as_input_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for row in sorted(chosen.seen):
            content = chosen.set.features.media(row)
            if content is not None and content_type(content) is not None:
                (folder / f"{row}.{chosen.extension}").write_bytes(content)


def _rows(content: Any) -> Iterator[int]:
    """Samples that are spoken of, wherever they stand."""
    if isinstance(content, dict):
        if "has_picture" in content:
            yield content["row"]
        for value in content.values():
            yield from _rows(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _rows(value)


def _rounded(content: Any) -> Any:
    """Numbers as exact as a page shows them."""
    if isinstance(content, float):
        return float(np.format_float_positional(content, _DIGITS, fractional=False))
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    return [_rounded(value) for value in content] if isinstance(content, list | tuple) else content


def _copy(source: Traversable, target: Path, skip: set[str]) -> None:
    with os_errors_as_input_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        for each in source.iterdir():
            if each.is_file() and each.name not in skip:
                (target / each.name).write_bytes(each.read_bytes())
