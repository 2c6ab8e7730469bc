"""`nonneg index` and `nonneg search`: features in a folder, an index beside them, hits."""

from collections.abc import Sequence
from pathlib import Path

from nonneg.errors import InputError
from nonneg.features import Features, find_features, journal
from nonneg.search._find import Hits, find
from nonneg.search._index import Index
from nonneg.search._query import Feature, Query, parsed_feature


def index_folder(
    features: str | Path,
    engine: str = "exact",
    out: Path | None = None,
    *,
    cosine: bool = False,
    quantised: bool = False,
    uri: str = "",
    overwrite: bool = False,
) -> Path:
    """Build an index of the features in a folder and save it.

    Args:
        features: a features folder, or a run with features beside it.
        engine: exact, seismic or milvus.
        out: the index's folder; `NAME.index` beside `NAME.features` if left out.
        cosine: bring each code to length 1 first.
        quantised: keep values in 8 bits.
        uri: of a Milvus cluster.
        overwrite: replace an earlier index there.
    """
    folder = _found(features)
    out = beside(folder) if out is None else out
    if out.exists() and not overwrite and any(out.iterdir() if out.is_dir() else [out]):
        raise InputError(f"{out} exists already; choose another --out, or --overwrite to replace an index")
    if uri and engine != "milvus":
        raise InputError(f"--uri is {uri} with --engine {engine}, expected it with --engine milvus alone")
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
) -> Hits:
    """Search the features in a folder, by the index beside them, or by one made for the moment where there is none.

    Args:
        features: a features folder, or a run with features beside it.
        query: what to look for.
        index: the index's folder, if it is not `NAME.index` beside `NAME.features`.
        run: the run that made the features; the one that they name, beside them, if left out.
        sentence_model: the sentence-transformers model that made the vectors, for a text.
    """
    folder = _found(features)
    opened = Features.load(folder)
    place = beside(folder) if index is None else index
    if query.inputs and run is None:
        run = _named_run(folder, opened)
    if index is None and not place.exists():
        return find(opened, query, run=run, sentence_model=sentence_model)
    with Index.open(place) as known:
        if known.fingerprint != journal(folder).codes:
            raise InputError(f"{place} is an index of other features than {folder}; build it again with nonneg index")
        return find(opened, query, known, run=run, sentence_model=sentence_model)


def parsed_features(features: str | Path, given: Sequence[str]) -> tuple[tuple[Feature, float], ...]:
    """Features with their weights, as a person types them; those of a folder or a run say which names there are."""
    are_weighed = any(":" in each for each in given)
    names = set(Features.load(_found(features)).names.values()) if are_weighed else set()
    return tuple(parsed_feature(each, names) for each in given)


def beside(folder: Path) -> Path:
    """`NAME.index` of `NAME.features`."""
    return folder.with_name(f"{folder.name.removesuffix('.features')}.index")


def _found(features: str | Path) -> Path:
    if Path(features).is_file():
        raise InputError(f"{features} is a file, expected a features folder or a run that has some (nonneg convert)")
    return find_features(features)


def _named_run(folder: Path, features: Features) -> str:
    named = features.provenance.get("run")
    if not isinstance(named, str):
        raise InputError(f"{folder} does not say which run made it, expected --run RUN to encode with")
    if named.startswith("hub:"):
        return named
    place = folder.resolve().parent / named
    if not place.is_dir():
        raise InputError(f"{folder} was made by the run {named}, which is not beside it, expected --run RUN")
    return str(place)
