"""Commands that use features: search, index, explore, export."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from nonneg.cli._checks import reject_options, require_counts, require_paths


def search(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    like: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="ID")] = (),
    minus: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="ID")] = (),
    feature: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME:WEIGHT")] = (),
    image: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    vector: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    text: str | None = None,
    without: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = (),
    label: str | None = None,
    k: int | None = None,
    query: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    index: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    run: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None,
    sentence_model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    json: bool = False,
) -> None:
    """Find samples by others, by features, by a new image, vector or text; each hit says which features made it one.

    Options that name something can be given several times. Features go by their number or their name.

    Args:
        features: a features folder, or a run with features beside it.
        like: a sample to be like.
        minus: a sample to be unlike; what falls below zero by that is off.
        feature: a feature and how much of it: 17:1.0, wheels:0.5, wheels; a name that ends like a weight is a name.
        image: an image file, encoded by the trained run that made the features.
        vector: a file with one vector, encoded by the run of nonneg convert that made them.
        text: a text, encoded by the sentence model and that run.
        without: leave out samples on which this feature is active.
        label: only samples with this label.
        k: how many hits at most; 10 if left out.
        query: run a saved query again; nothing else can be asked then.
        save: write the query to a JSON file, a new one or one of an earlier query.
        index: where the index is; NAME.index beside NAME.features, or none, if left out.
        run: the run that made the features; the one they name, beside them, if left out.
        sentence_model: of sentence-transformers, for --text.
        json: print hits with all contributions as JSON.
    """
    from nonneg.search import Query, parsed_features, search_folder

    if query is not None:
        given: dict[str, Any] = {"--like": like, "--minus": minus, "--feature": feature, "--image": image}
        given |= {"--vector": vector, "--text": text, "--without": without, "--label": label, "--k": k}
        reject_options({name: value or None for name, value in given.items()}, "without --query, which says it all")
        asked = Query.load(query)
    else:
        asked = Query(
            like=like,
            minus=minus,
            features=parsed_features(features, feature),
            image=image,
            vector=vector,
            text=text,
            without=tuple(int(named) if named.isdecimal() else named for named in without),
            label=label,
            k=10 if k is None else k,
        )
    found = search_folder(features, asked, index, run=run, sentence_model=sentence_model)
    if save is not None:
        asked.save(save)
    if json:
        from json import dumps

        print(dumps(found.to_dict(), indent=1))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(found)
    else:
        print(found.markdown(), end="")  # as wide as it is, for a file


def index(
    features: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES")],
    engine: Literal["exact", "seismic", "milvus"] = "exact",
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None,
    uri: str = "",
    cosine: bool = False,
    quantised: bool = False,
    overwrite: bool = False,
) -> None:
    """Build an index of features, which nonneg search then uses.

    Args:
        features: a features folder, or a run with features beside it.
        engine: exact; seismic, faster and approximate; or milvus, in a file or on a cluster.
        out: the index's folder; NAME.index beside NAME.features if left out.
        uri: of a Milvus cluster, http://host:19530.
        cosine: bring each code to length 1 first, for codes whose lengths mean nothing.
        quantised: keep values in 8 bits: a smaller index with rounded scores.
        overwrite: replace an earlier index in that folder.
    """
    from rich.console import Console

    from nonneg.search import index_folder

    with Console(stderr=True).status("indexing"):
        made = index_folder(features, engine, out, uri=uri, cosine=cosine, quantised=quantised, overwrite=overwrite)
    print(f"Indexed: {made}")


def explore(
    features: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FEATURES_OR_RUN")],
    host: str = "127.0.0.1",
    port: int | None = None,
    sentence_model: str | None = None,
    read_only: bool = False,
    browser: bool = True,
) -> None:
    """Show what each feature means on a web page of this machine; two sets side by side if two are given.

    Args:
        features: one or two features folders, runs with features beside them, or files of vectors.
        host: the address to listen on; with one that others can reach, the printed address holds a token.
        port: 8765 if left out, or a free one where that is taken.
        sentence_model: of a run of nonneg convert, the sentence model that made its vectors: texts can then be tried.
        read_only: names cannot be changed.
        browser: open the page in a browser.
    """
    require_paths(features)

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
    """Write the pages of explore as files that any web server shows, for sharing.

    Args:
        features: a features folder, a run with features beside it, or a file of vectors.
        out: the folder to write.
        beside: a second set of features, to be shown side by side.
        max_features: how many features get a page at most, the most active ones.
        max_samples: how many samples get a page at most, those strongest for some feature.
        overwrite: replace an earlier copy in that folder.
    """
    require_counts({"--max-features": max_features, "--max-samples": max_samples})
    require_paths((features, beside))

    from nonneg.explorer import export as run_export

    given = (features,) if beside is None else (features, beside)
    written = run_export(*given, out=out, features=max_features, samples=max_samples, overwrite=overwrite)
    print(f"Exported: {written}")
