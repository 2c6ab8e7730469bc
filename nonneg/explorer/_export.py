"""A static copy of the page for sharing: one file that opens by a double click, or files for any web server."""

import itertools
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nonneg.durable import (
    TEMPORARY_PREFIX,
    check_claimable,
    claim_folder,
    folder_lock,
    is_leftover,
    made_by,
    os_errors_as_input_errors,
    remove,
)
from nonneg.errors import InputError
from nonneg.explorer._answers import Answer, SetOverview
from nonneg.explorer._bundle import single_page
from nonneg.explorer._explorer import STRIP, Explorer
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._open import open_explorer
from nonneg.explorer._server import STATIC
from nonneg.features import Features, content_type
from nonneg.progress import progress_bar

_MAKER, _MARKER, _PAGE = "nonneg export", "export.json", "index.html"
_PARTS = {_PAGE, "static", "data", "media"}
_DIGITS = 4
_EXAMPLE_PARTS = 3  # features of its example that the overview shows, PARTS of static/overview.js
_SINGLE = 20_000_000  # bytes up to which index.html holds everything
_MAPPED, _COLOURED = 100_000, 2_000  # samples up to which a copy has a map, and colours it by each feature
# Shown until the scripts run, which browsers do not load from a file.
_NEEDS_SERVER = """<p>If nothing appears here, this copy needs a web server: in a terminal, run
<code>python -m http.server -d FOLDER</code> with the folder of this file, then open
<a href="http://localhost:8000">http://localhost:8000</a>.</p>"""
# Replaces the headers of our server, which a static server does not send.
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
    """Write the overview, feature table, map, feature pages and sample pages as files for any static web server.

    Up to 20 MB, `index.html` also holds everything itself: it can be sent alone and opens by a double click.

    Args:
        *given: one or two sets of features, as for `explore`.
        out: the folder to write.
        features: the maximum number of feature pages per set; the most active features are chosen.
        samples: the maximum number of sample pages per set; the strongest samples of the features are chosen.
        overwrite: replace an earlier copy after the new one is complete.
        progress: show a progress bar on standard error.
    """
    for name, count in (("features", features), ("samples", samples)):
        if count < 1:
            raise InputError(f"{name} is {count}, expected at least 1")
    folder = Path(out)
    with folder_lock(folder):
        _remove_leftovers(folder)
        replace = overwrite or _is_incomplete(folder)
        check_claimable(folder, _MARKER, _MAKER, _PARTS, replace)
        explorer = open_explorer(given)
        # An earlier copy remains until the new one is complete.
        with (
            os_errors_as_input_errors(folder),
            TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder, ignore_cleanup_errors=True) as made,
        ):
            _write_site(explorer, Path(made), features, samples, progress)
            claim_folder(folder, _MARKER, {"made_by": _MAKER}, _PARTS, replace)
            for part in sorted(Path(made).iterdir(), key=lambda part: part.name == _PAGE):  # index.html last
                part.rename(folder / part.name)
    return folder


def needs_server(folder: str | Path) -> bool:
    """Return whether a copy is too large for one file, so that browsers show it only through a web server."""
    return _NEEDS_SERVER in (Path(folder) / _PAGE).read_text("utf-8")


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of an interrupted export, provided that the folder belongs to `export` or is empty."""
    with os_errors_as_input_errors(folder):
        entries = list(folder.iterdir())
        leftovers = [path for path in entries if is_leftover(path)]
        if len(leftovers) == len(entries) or made_by(folder / _MARKER) == _MAKER:
            for path in leftovers:
                remove(path)


def _is_incomplete(folder: Path) -> bool:
    """Whether the folder holds an export that was interrupted."""
    with os_errors_as_input_errors(folder):
        return made_by(folder / _MARKER) == _MAKER and not (folder / _PAGE).exists()


def _write_site(explorer: Explorer, folder: Path, features: int, samples: int, progress: bool) -> None:
    explorer.prepare()
    if len(explorer.sets) == 2:
        explorer.comparison()  # cached for its page; fails early if the two sets contain different samples
    overviews = explorer.overview().sets
    selections = [_Selection(*each, features, samples) for each in zip(explorer.sets, overviews, strict=True)]
    with progress_bar(progress) as bar:
        for name, answer in bar.track(list(_files(explorer, selections)), description="writing"):
            _write(folder / "data", name, answer(), selections)
    for number, each in enumerate(selections):
        _write_pictures(folder / "media" / str(number), each)
    shutil.copytree(str(STATIC), folder / "static", ignore=shutil.ignore_patterns(_PAGE))
    (folder / _PAGE).write_text(_page(folder, selections), "utf-8")


def _page(folder: Path, selections: "Sequence[_Selection]") -> str:
    """The page: with everything in it if that is small, otherwise one that loads the other files."""
    page = (STATIC / _PAGE).read_text("utf-8")
    data, media = (sorted(path for path in (folder / part).rglob("*") if path.is_file()) for part in ("data", "media"))
    if sum(path.stat().st_size for path in (*data, *media)) > _SINGLE:
        page = page.replace('<p class="soft">Loading…</p>', _NEEDS_SERVER)
        return page.replace('<base href="/">\n', _POLICY).replace("<html ", '<html data-mode="static" ')
    answers = {_name(path, folder / "data"): json.loads(path.read_text("utf-8")) for path in data}
    pictures = {_name(path, folder / "media"): path.read_bytes() for path in media}
    return single_page(page, STATIC, answers, pictures)


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


class _Selection:
    """The features and samples of a set that get a page, and the samples shown anywhere."""

    def __init__(self, features: FeatureSet, overview: SetOverview, max_features: int, max_samples: int) -> None:
        self.set = features
        example = overview.example.sample.row
        first_page = [part.caption.feature for part in overview.example.parts[:_EXAMPLE_PARTS]]
        first_page += [row.feature for row in overview.spread_features]
        chosen = list(dict.fromkeys([*first_page, *features.features.ranked()]))[:max_features]
        is_complete = len(features.active) <= max_features
        self.features = list(range(len(features.active))) if is_complete else sorted(chosen)
        strips = [[sample.row for sample in features.strongest(f, STRIP)] for f in chosen]
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*strips, fillvalue=-1))
        rows = range(len(features)) if len(features) <= max_samples else in_turn
        wanted = dict.fromkeys([example, *(row for row in rows if row >= 0)])
        self.rows = sorted(itertools.islice(wanted, max_samples))
        self.shown: set[int] = set()
        first = features.features.media(0)
        self.extension = _EXTENSIONS.get(content_type(first) or "", "png")

    def description(self) -> dict[str, Any]:
        """What the page needs to know about the copy."""
        omitted = len(self.set.active) - len(self.features)
        return {
            "key": "",  # random, and only addresses of the server use it: the same features give the same copy
            "can_name": False,
            "can_encode": None,
            "is_settled": True,
            "searchable": False,
            "sample_pages": self.rows,
            "extension": self.extension,
            "omitted_features": omitted,
            "feature_pages": self.features if omitted else None,
            "has_map": len(self.set) <= _MAPPED,
            "map_features": len(self.set) <= _COLOURED,
        }

    def note(self) -> str:
        """A sentence about the samples that are left out."""
        total = len(self.set)
        if len(self.rows) == total:
            return ""
        return f"{len(self.rows):,} of {total:,} {self.set.features.kind} of {self.set.name} have a page here. "


def _files(explorer: Explorer, selections: Sequence[_Selection]) -> Iterator[tuple[str, Any]]:
    """The name of each file and the function that returns its content."""
    yield "overview", lambda: explorer.overview(can_write=False)
    if len(explorer.sets) == 2:
        yield "comparison", explorer.comparison
    for number, each in enumerate(selections):
        yield f"sets/{number}/features", lambda number=number: explorer.table(number)
        yield f"sets/{number}/figures", lambda number=number: explorer.figures(number)
        yield f"sets/{number}/samples", lambda n=number, rows=each.rows: explorer.samples(n, rows)
        if len(each.set) <= _MAPPED:
            yield f"sets/{number}/map", lambda number=number: explorer.map(number)
        if len(each.set) <= _COLOURED:
            for feature in each.features:
                yield f"sets/{number}/map/{feature}", lambda n=number, f=feature: explorer.map_colours(n, f)
        for feature in each.features:
            yield f"sets/{number}/strip/{feature}", lambda n=number, f=feature: explorer.strip(n, f)
            yield f"sets/{number}/feature/{feature}", lambda n=number, f=feature: explorer.feature(n, f)
        for row in each.rows:
            yield f"sets/{number}/sample/{row}", lambda n=number, r=row: explorer.sample(n, r)


def _write(folder: Path, name: str, answer: Answer, selections: Sequence[_Selection]) -> None:
    content, path = _rounded(answer.model_dump()), folder / f"{name}.json"
    if name == "overview":
        content["note"] = "".join(copy.note() for copy in selections)
        for each, copy in zip(content["sets"], selections, strict=True):
            each.update(copy.description())
            copy.shown.update(_rows(each["example"]))
    elif name.startswith("sets/"):
        copy = selections[int(name.split("/")[1])]
        copy.shown.update(_rows(content))
        if name.endswith("/features") and len(copy.features) < len(content["rows"]):
            content["rows"] = [content["rows"][feature] for feature in copy.features]
            kept = set(copy.features)
            content["families"] = [each for each in content["families"] if kept.issuperset(each["features"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")


def _write_pictures(folder: Path, selection: _Selection) -> None:
    if not selection.set.features.has_media:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for row in sorted(selection.shown):
        content = selection.set.features.media(row)
        if content is not None and content_type(content) is not None:
            (folder / f"{row}.{selection.extension}").write_bytes(content)


def _rows(content: Any) -> Iterator[int]:
    """The rows of all samples in an answer, at any depth."""
    if isinstance(content, dict):
        if "has_picture" in content:
            yield content["row"]
        for value in content.values():
            yield from _rows(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _rows(value)


def _rounded(content: Any) -> Any:
    """The content with numbers rounded to the precision that pages show; browsers do not read NaN."""
    if isinstance(content, float):
        if not math.isfinite(content):
            return None
        return float(np.format_float_positional(content, _DIGITS, fractional=False))
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    return [_rounded(value) for value in content] if isinstance(content, list | tuple) else content
