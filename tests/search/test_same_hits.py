"""The same query finds the same samples through `rank`, `find`, every engine and the command line."""

import importlib.util
import json

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features
from nonneg.search import ENGINES, Index, Query, contributions, find, rank, samples_without, search_folder

LIBRARIES = {"seismic": ("seismic",), "milvus": ("pymilvus", "milvus_lite")}


@pytest.fixture(scope="module")
def shifted(features):
    """Features whose rows differ in length, so that cosine and inner product disagree, with faint inactive entries."""
    rng = np.random.default_rng(3)
    dense = features.codes.toarray() * rng.lognormal(0, 1.5, size=(300, 1)).astype(np.float32)
    faint = 1e-7 * np.linalg.norm(dense, axis=1, keepdims=True).astype(np.float32)
    dense = np.where((dense == 0) & (rng.random(dense.shape) < 0.1), faint, dense)
    return Features(sp.csr_array(dense), ids=[f"s{row}" for row in range(300)], labels=features.labels)


def ranked(features, query):
    """Ids and scores by `rank`, with the query's code built by hand from unit codes and weights."""
    code, rows = np.zeros(60), [int(id[1:]) for id in (*query.like, *query.minus)]
    for place, row in enumerate(rows):
        code += features.units[[row]].toarray()[0] * (1 if place < len(query.like) else -1)
    for feature, weight in query.features:
        code[feature] += weight
    code = np.maximum(code, 0)
    allowed = samples_without(features, query.without)
    allowed[rows] = False
    found, scores = rank(features, code, k=query.k, cosine=query.cosine, allowed=allowed)
    for row, score in zip(found, scores, strict=True):
        _, values = contributions(features, code, int(row), query.cosine)
        assert values.sum() == pytest.approx(score)
    return [f"s{row}" for row in found], scores


def queries(cosine, with_filters=True):
    yield Query(like=("s4",), cosine=cosine)
    yield Query(like=("s4", "s9"), minus=("s20",), features=((2, 0.3),), k=25, cosine=cosine)
    yield Query(features=((17, 1.0), (1, 0.5)), k=5, cosine=cosine)
    if with_filters:
        yield Query(like=("s8",), without=(0, 5), cosine=cosine)


@pytest.mark.parametrize("cosine", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_same_hits(shifted, engine, cosine, tmp_path):
    for module in LIBRARIES.get(engine, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the package {module} is not installed")
    settings = {"heap_factor": 0.1} if engine == "seismic" else {}  # 300 rows are few: the default skips some
    with Index.build(shifted, engine, cosine=cosine, **settings) as index:
        index.save(tmp_path / "x.index")
        for query in queries(cosine, with_filters=engine != "seismic"):
            ids, scores = ranked(shifted, query)
            assert ids
            for hits in (find(shifted, query), find(shifted, query, index)):
                assert [hit.id for hit in hits] == ids
                np.testing.assert_allclose([hit.score for hit in hits], scores, rtol=1e-6)


@pytest.mark.parametrize("cosine", [True, False])
def test_the_command_line_finds_the_same_hits_with_and_without_an_index(shifted, cosine, tmp_path, command):
    folder = shifted.save(tmp_path / "x.features")
    flag = [] if cosine else ["--no-cosine"]
    for has_index in (False, True):
        if has_index:
            assert command("index", str(folder), *flag)[0] == 0
        for query in queries(cosine):
            options = [option for id in query.like for option in ("--like", id)]
            options += [option for id in query.minus for option in ("--minus", id)]
            options += [option for f, weight in query.features for option in ("--feature", f"{f}:{weight}")]
            options += [option for feature in query.without for option in ("--without", str(feature))]
            code, output, error = command("search", str(folder), *options, "--k", str(query.k), *flag, "--json")
            assert code == 0, error
            assert [hit["id"] for hit in json.loads(output)] == ranked(shifted, query)[0]
            assert [hit.id for hit in search_folder(folder, query)] == ranked(shifted, query)[0]


def test_cosine_and_the_inner_product_rank_these_features_differently(shifted):
    by_cosine, by_product = (ranked(shifted, next(queries(cosine)))[0] for cosine in (True, False))
    assert by_cosine != by_product


def test_an_index_of_the_other_ranking_is_an_error(shifted, tmp_path, command):
    folder = shifted.save(tmp_path / "x.features")
    command("index", str(folder), "--no-cosine")
    code, _, error = command("search", str(folder), "--like", "s4")
    assert code == 2 and "cosine is True in the query and False in the index" in error
    assert command("search", str(folder), "--like", "s4", "--no-cosine")[0] == 0


def test_a_saved_query_keeps_its_ranking(shifted, tmp_path, command):
    folder, saved = shifted.save(tmp_path / "x.features"), str(tmp_path / "q.json")
    _, first, _ = command("search", str(folder), "--like", "s4", "--no-cosine", "--save", saved, "--json")
    assert Query.load(saved).cosine is False
    assert command("search", str(folder), "--query", saved, "--json")[1] == first
    code, _, error = command("search", str(folder), "--query", saved, "--no-cosine")
    assert code == 2 and "--no-cosine is given" in error
