"""`nonneg index` and `nonneg search`: features in a folder and an index beside them."""

import os
from collections.abc import Sequence
from pathlib import Path

from nonneg.errors import InputError
from nonneg.features import Features, find_features, journal
from nonneg.search._find import Hits, find
from nonneg.search._index import Index
from nonneg.search._meta import Meta
from nonneg.search._query import Feature, Query, parsed_feature


def index_folder(
    features: str | Path,
    engine: str = "exact",
    out: Path | None = None,
    *,
    cosine: bool = True,
    quantised: bool = False,
    uri: str = "",
    overwrite: bool = False,
) -> Path:
    """Build an index of the features in a folder and save it.

    Args:
        features: a features folder, or a run with features beside it.
        engine: exact, seismic or milvus.
        out: the index's folder; `NAME.index` beside `NAME.features` by default.
        cosine: compare directions: codes are scaled to length 1. If false, codes are used as they are.
        quantised: store values in 8 bits.
        uri: the address of a Milvus cluster.
        overwrite: replace an earlier index in the folder.
    """
    folder = find_features(features)
    out = index_beside(folder) if out is None else out
    Meta.check_writable(out, overwrite)
    if uri and engine != "milvus":
        raise InputError(f"--uri is {uri} with --engine {engine}, expected --uri only with --engine milvus")
    settings = {"uri": uri} if uri else {}
    key = journal(folder).codes
    opened = Features.load(folder)
    with Index.build(opened, engine, cosine=cosine, quantised=quantised, fingerprint=key, **settings) as index:
        return index.save(out, overwrite=overwrite)


def search_folder(
    features: str | Path,
    query: Query,
    index: Path | None = None,
    *,
    run: str | None = None,
    sentence_model: str | None = None,
    uri: str = "",
) -> Hits:
    """Search the features in a folder with the index beside them; without one, an index is built in memory.

    Args:
        features: a features folder, or a run with features beside it.
        query: what to search for.
        index: the index's folder; `NAME.index` beside `NAME.features` by default.
        run: the run that made the features; by default, the run that they name, if it is beside them.
        sentence_model: the sentence-transformers model that made the vectors, for a text.
        uri: the address of the Milvus cluster that holds the index; MILVUS_URI by default.
    """
    folder = find_features(features)
    opened = Features.load(folder)
    place = index_beside(folder) if index is None else index
    if query.inputs and run is None:
        run = named_run(folder, opened)
    if index is None and not place.exists():
        return find(opened, query, run=run, sentence_model=sentence_model)
    with Index.open(place, uri=uri) as known:
        if known.fingerprint != journal(folder).codes:
            raise InputError(f"{place} was not built from {folder}; build it again with nonneg index")
        return find(opened, query, known, run=run, sentence_model=sentence_model)


def parsed_features(features: str | Path, given: Sequence[str]) -> tuple[tuple[Feature, float], ...]:
    """Parse features and weights as people type them; names are those of the features in a folder or of a run."""
    has_weights = any(":" in each for each in given)
    names = set(Features.load(find_features(features)).titles.values()) if has_weights else set()
    return tuple(parsed_feature(each, names) for each in given)


def index_beside(folder: Path) -> Path:
    """Return `NAME.index` for `NAME.features`."""
    return folder.with_name(f"{folder.name.removesuffix('.features')}.index")


def named_run(folder: Path, features: Features) -> str:
    """Return the run that features in a folder name, if it is beside them or in the hub's cache."""
    named = features.provenance.get("run")
    if not isinstance(named, str):
        raise InputError(f"{folder} names no run that can encode new inputs, expected one as --run")
    # Features may come from strangers: a model that they name is used if it is here, but never fetched.
    if named.startswith("hub:"):
        from nonneg.models import fetched

        try:
            return str(fetched(named, local_only=True))
        except InputError as error:
            raise InputError(f"{folder} names a model to fetch: {error}; to fetch it, pass --run {named}") from error
    place = folder.resolve().parent / named
    # A name, not a path: on Windows, a path can name another machine.
    if named != Path(named).name or not os.path.isdir(place):  # noqa: PTH112, of a name that is too long: false
        raise InputError(f"{folder} was made by the run {named}, which is not beside it, expected its path as --run")
    return str(place)
