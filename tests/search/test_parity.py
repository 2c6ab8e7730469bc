"""One suite for every engine: inner products, as a plain loop computes them."""

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import InputError
from nonneg.search import ENGINES, Index, Where
from nonneg.search._exact import Exact
from nonneg.search._index import Found
from tests.search.conftest import some_codes
from tests.search.parity import check

LIBRARIES = {"seismic": ("seismic",), "milvus": ("pymilvus", "milvus_lite")}


@pytest.fixture(params=ENGINES, scope="module")
def engine(request):
    for module in LIBRARIES.get(request.param, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the package {module} is not installed: pip install 'nonneg[{request.param}]'")
    return request.param


@pytest.fixture
def index(engine, features):
    with Index.build(features, engine) as index:
        yield index


def test_it_finds_what_a_loop_finds(index, codes, queries):
    check(index, codes, queries)


def test_it_finds_the_same_after_saving_and_opening(index, codes, queries, tmp_path):
    index.save(tmp_path / "x.index")
    with Index.open(tmp_path / "x.index") as opened:
        assert repr(opened) == repr(index)
        check(opened, codes, queries)


def test_it_finds_the_same_after_adding_and_deleting(index, codes, queries, tmp_path):
    index.save(tmp_path / "x.index")
    if index.engine == "seismic":
        with pytest.raises(InputError, match="engine seismic is static and cannot add rows"):
            index.add(codes[:2], ["a", "b"])
        with pytest.raises(InputError, match="engine seismic is static and cannot delete rows"):
            index.delete(["s1"])
        check(index, codes, queries)
        return
    more = some_codes(20, seed=5)
    index.add(more, [f"n{row}" for row in range(20)])
    index.delete(["s0", "s7", "n2"])
    both = sp.csr_array(sp.vstack((codes, more)))
    allowed = np.ones(320, bool)
    allowed[[0, 7, 302]] = False
    check(index, both, queries, allowed=allowed)
    index.close()
    with Index.open(tmp_path / "x.index") as opened:
        check(opened, both, queries, allowed=allowed)
        assert len(opened) == 317


def test_it_filters_by_label_features_and_rows(index, codes, queries, labels):
    if index.engine == "seismic":
        with pytest.raises(InputError, match="engine seismic has no filter, expected engine exact or milvus"):
            index.query(queries, where=Where(labels=(1,)))
        return
    dense = codes.toarray()
    off = (dense[:, 0] == 0) & (dense[:, 4] == 0)
    some = np.random.default_rng(2).random(300) < 0.3
    check(index, codes, queries, where=Where(labels=(1,)), allowed=labels == 1)
    check(index, codes, queries, where=Where(without=(0, 4)), allowed=off)
    check(index, codes, queries, where=some, allowed=some)
    everything = Where(labels=(0, 2), without=(0, 4), rows=some)
    check(index, codes, queries, where=everything, allowed=np.isin(labels, (0, 2)) & off & some)


def test_rows_of_an_addition_that_never_finished_are_no_hits_in_milvus(features, codes, queries, tmp_path):
    for module in LIBRARIES["milvus"]:
        pytest.importorskip(module, reason="the extra milvus is not installed")
    with Index.build(features, "milvus") as index:
        index.save(tmp_path / "x.index")
        index._engine.add(300, codes[20:40], None)  # and then the process died before the commit
    with Index.open(tmp_path / "x.index") as opened:
        check(opened, codes, queries)
        opened.add(codes[:10], [f"n{row}" for row in range(10)])  # row 3 of it is empty, as Milvus takes none
        check(opened, sp.csr_array(sp.vstack((codes, codes[:10]))), queries)


def test_a_milvus_server_is_used_by_its_uri(features, codes, queries, tmp_path):
    """Milvus Lite, started as a server, stands in for a cluster: the calls are the same."""
    pytest.importorskip("pymilvus", reason="the extra milvus is not installed")
    server = pytest.importorskip("milvus_lite.adapter.grpc.server", reason="the extra milvus is not installed")
    running, database, port = server.start_server_in_thread(str(tmp_path / "data"), host="127.0.0.1", port=0)
    try:
        uri = f"http://127.0.0.1:{port}"
        with Index.build(features, "milvus", uri=uri) as index:
            index.save(tmp_path / "x.index")
        with Index.open(tmp_path / "x.index") as one, Index.open(tmp_path / "x.index") as other:
            check(one, codes, queries)
            one.delete(["s5"])
            other.add(codes[[5]], ["again"])
            assert other.row("again") == 300 and 5 not in other.query(codes[[5]], 300).rows
        assert uri in (tmp_path / "x.index" / "meta.json").read_text()
    finally:
        running.stop(grace=0)
        database.close()


def test_it_explains_what_it_finds(index, codes, queries):
    rows = [row for row in index.query(queries[0], 5).rows[0].tolist() if row >= 0]
    for row, parts in zip(rows, index.contributions(queries[0], rows), strict=True):
        products = queries[0] * codes[[row]].toarray()[0].astype(np.float64)
        assert [part.feature for part in parts] == np.flatnonzero(products).tolist()
        assert [part.value for part in parts] == products[products > 0].tolist()


class BySharedFeatures(Exact):
    """Counts shared features instead of multiplying: a wrong scorer."""

    def search(self, table, queries, k, where):
        return super().search(table, queries._replace(values=np.ones_like(queries.values)), k, where)


class ByRarity(Exact):
    """Weighs features by how rare they are, as BM25 does: a wrong scorer."""

    def search(self, table, queries, k, where):
        lengths = np.diff(table.parts[0].lists.starts)
        rarity = np.log(1 + table.rows / (1 + lengths[queries.places]))
        return super().search(table, queries._replace(values=queries.values * rarity), k, where)


class Scaled(Exact):
    """Right rows with other scores: a wrong scorer."""

    def search(self, table, queries, k, where):
        found = super().search(table, queries, k, where)
        return Found(found.rows, found.scores * 1.001)


@pytest.mark.parametrize("wrong", [BySharedFeatures, ByRarity, Scaled])
@pytest.mark.parametrize("name", ENGINES)
def test_the_suite_fails_an_engine_that_scores_by_anything_else(wrong, name, features, codes, queries, monkeypatch):
    index = Index.build(features)
    monkeypatch.setattr(index, "_engine", wrong())
    monkeypatch.setattr(wrong, "name", name)
    with pytest.raises(AssertionError):
        check(index, codes, queries)
