"""Commands that use features: search, index, explore, export."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nonneg.cli._checks import reject_options, require_counts, require_paths
from nonneg.cli._output import print_result
from nonneg.extras import require_installed

_ONE_OR_TWO = tyro.conf.arg(metavar="FEATURES_OR_RUN ...", help_behavior_hint="(one or two)")


def search(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    like: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="ID")] = (),
    minus: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="ID")] = (),
    feature: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME:WEIGHT")] = (),
    image: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    vector: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    text: str | None = None,
    sample: str | None = None,
    without: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = (),
    require: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = (),
    label: str | None = None,
    k: int | None = None,
    cosine: bool = True,
    query: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    index: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    run: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None,
    sentence_model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    uri: str = "",
    json: bool = False,
) -> None:
    """Search samples by other samples, by features, or by a new image, vector or text; each hit shows its reasons.

    For example:
        nonneg search runs/news.features --like 17 --without 4 --k 5

    Args:
        features: a features folder, or a run with features beside it.
        like: a sample that the hits should resemble; can be given several times, as can the next two.
        minus: a sample that the hits should not resemble.
        feature: a feature by number, name or part of a name, and its weight: 17:1.0, wheels:0.5, or wheels for 1.
        image: an image file, encoded by the trained run that made the features.
        vector: a file with one vector, encoded by the run of nonneg convert that made the features.
        text: a text; encoded by the run, and for a run of nonneg convert by its sentence model (--sentence-model, or
            the recorded one).
        sample: a new sample of any kind that the run encodes: a path, or the text itself.
        without: exclude samples on which this feature is active; can be given several times.
        require: only samples on which this feature is active; can be given several times.
        label: only samples with this label.
        k: the largest number of hits, 10 by default.
        cosine: rank by the inner product instead of cosine similarity.
        query: run a saved query; it replaces the options above.
        save: save the query as a JSON file, which may replace an earlier query.
        index: the index's folder; NAME.index beside NAME.features by default, if it exists.
        run: the run that made the features; by default, the run that they name, if it is beside them.
        sentence_model: the sentence-transformers model for --text; by default the one that the features record.
        uri: the address of the Milvus cluster that holds the index; MILVUS_URI by default.
        json: print hits with all contributions as JSON.
    """
    from nonneg.search import search_folder

    given: dict[str, Any] = {"like": like, "minus": minus, "image": image, "vector": vector, "text": text}
    given |= {"sample": sample, "label": label, "feature": feature, "without": without, "require": require}
    asked = _query(features, given, k, cosine, query)
    found = search_folder(features, asked, index, run=run, sentence_model=sentence_model, uri=uri)
    if save is not None:
        asked.save(save)
    print_result(found, json)
    if not len(found):
        print("No sample was found: none that the query allows has a score above 0.", file=sys.stderr)


def _query(features: str, given: dict[str, Any], k: int | None, cosine: bool, saved: Path | None) -> Any:
    """Return the query of the options given, or a saved one, with which no option may be given."""
    from nonneg.search import Query, numbered, parsed_features

    if saved is not None:
        given |= {"k": k, "no-cosine": not cosine}
        reject_options({f"--{name}": value or None for name, value in given.items()}, "without --query")
        return Query.load(saved)
    given["features"] = parsed_features(features, given.pop("feature"))
    given |= {name: tuple(map(numbered, given[name])) for name in ("without", "require")}
    return Query(**given, k=10 if k is None else k, cosine=cosine)


def index(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    engine: Literal["exact", "seismic", "milvus"] = "exact",
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    uri: str = "",
    cosine: bool = True,
    quantised: bool = False,
    overwrite: bool = False,
) -> None:
    """Build an index of features for nonneg search.

    For example:
        nonneg index runs/news.features --engine exact

    Args:
        features: a features folder, or a run with features beside it.
        engine: exact; seismic, which is faster and approximate; or milvus, in a file or on a cluster.
        out: the index's folder; NAME.index beside NAME.features by default.
        uri: the address of a Milvus cluster, http://host:19530.
        cosine: rank by the inner product instead of cosine similarity.
        quantised: store values in 8 bits: a smaller index with rounded scores.
        overwrite: replace an earlier index in the folder.
    """
    from rich.console import Console

    from nonneg.search import index_folder

    with Console(stderr=True).status("indexing"):
        made = index_folder(features, engine, out, uri=uri, cosine=cosine, quantised=quantised, overwrite=overwrite)
    print(f"Indexed: {made}")


def explore(
    features: Annotated[tuple[str, ...], tyro.conf.Positional, _ONE_OR_TWO],
    host: str = "127.0.0.1",
    port: int | None = None,
    sentence_model: str | None = None,
    read_only: bool = False,
    browser: bool = True,
) -> None:
    """Show what each feature means on a local web page, or compare two sets of features side by side.

    For example:
        nonneg explore runs/news.features --sentence-model all-MiniLM-L6-v2

    Args:
        features: features folders, runs with features beside them, or files of vectors.
        host: the address to listen on; if other machines can reach it, the printed address contains a token.
        port: the port to listen on; by default 8765, or any free port if that one is in use.
        sentence_model: the sentence model that made the vectors of a run of nonneg convert, to try new texts.
        read_only: do not allow names to be changed.
        browser: do not open the page in a browser.
    """
    require_paths(features)
    if sentence_model is not None:
        require_installed("sentence_transformers", "--sentence-model", "sentence")

    from nonneg.explorer import explore as run_explore

    run_explore(*features, host=host, port=port, sentence_model=sentence_model, read_only=read_only, browser=browser)


def export(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN")],
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SITE")],
    beside: str | None = None,
    max_features: int = 1000,
    max_samples: int = 1000,
    overwrite: bool = False,
) -> None:
    """Write the pages of nonneg explore, to keep and share.

    They are one file that opens by a double click or, if it would be larger than 20 MB, files for a web server.

    For example:
        nonneg export runs/news.features site/ --max-features 200

    Args:
        features: a features folder, a run with features beside it, or a file of vectors.
        out: the folder to write.
        beside: a second set of features to show side by side.
        max_features: the maximum number of feature pages; the most active features are chosen.
        max_samples: the maximum number of sample pages; the strongest samples of the features are chosen.
        overwrite: replace an earlier copy in that folder.
    """
    require_counts({"--max-features": max_features, "--max-samples": max_samples})
    require_paths((features, beside))

    from nonneg.explorer import export as run_export
    from nonneg.explorer import needs_server

    given = (features,) if beside is None else (features, beside)
    written = run_export(*given, out=out, features=max_features, samples=max_samples, overwrite=overwrite)
    if needs_server(written):
        size = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
        server = shlex.join(["python", "-m", "http.server", "-d", str(written)])
        print(f"Exported: {written} ({size / 1e6:,.0f} MB). To look at it: {server}")
    else:
        print(f"Exported: {written / 'index.html'}, which opens by a double click")
