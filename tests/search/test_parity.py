"""One suite for every engine: its ranking equals that of a plain loop."""

import importlib.util
import json
import socket

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import InputError
from nonneg.manifest import with_checksum
from nonneg.search import ENGINES, Found, Index, Where, verify
from nonneg.search._exact import Exact
from tests.search.conftest import some_codes
from tests.search.parity import check, reference_codes

LIBRARIES = {"seismic": ("seismic",), "milvus": ("pymilvus", "milvus_lite")}
# Scores of 300 unit rows are so close that Seismic's default would skip 3% of the hits (0.2% of 50,000 rows).
SETTINGS = {"seismic": {"heap_factor": 0.5}}


@pytest.fixture(params=ENGINES, scope="module")
def engine(request):
    for module in LIBRARIES.get(request.param, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the package {module} is not installed: pip install 'nonneg[{request.param}]'")
    return request.param


@pytest.fixture
def index(engine, features):
    with Index.build(features, engine, **SETTINGS.get(engine, {})) as index:
        yield index


@pytest.mark.parametrize("cosine", [True, False])
def test_an_engine_finds_what_a_loop_finds(engine, cosine, features, codes, queries):
    with Index.build(features, engine, cosine=cosine, **SETTINGS.get(engine, {})) as index:
        check(index, codes, queries)


def test_results_are_the_same_after_saving_and_opening(index, codes, queries, tmp_path):
    index.save(tmp_path / "x.index")
    with Index.open(tmp_path / "x.index") as opened:
        assert repr(opened) == repr(index)
        check(opened, codes, queries)


def test_results_are_right_after_adding_and_deleting(index, codes, queries, tmp_path):
    index.save(tmp_path / "x.index")
    if index.engine == "seismic":
        with pytest.raises(InputError, match="engine seismic cannot add"):
            index.add(codes[:2], ["a", "b"])
        with pytest.raises(InputError, match="engine seismic cannot delete"):
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


def test_labels_inactive_features_and_rows_filter(index, codes, queries, labels):
    if index.engine == "seismic":
        with pytest.raises(InputError, match="engine seismic has no filters"):
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


def test_milvus_ignores_the_rows_of_an_interrupted_addition(features, codes, queries, tmp_path):
    for module in LIBRARIES["milvus"]:
        pytest.importorskip(module, reason="the extra milvus is not installed")
    with Index.build(features, "milvus") as index:
        index.save(tmp_path / "x.index")
        index._engine.add(300, codes[20:40], None)  # and then the process died before the commit
    with Index.open(tmp_path / "x.index") as opened:
        check(opened, codes, queries)
        opened.add(codes[:10], [f"n{row}" for row in range(10)])  # row 3 is empty, and Milvus accepts no empty code
        check(opened, sp.csr_array(sp.vstack((codes, codes[:10]))), queries)


def test_a_milvus_server_is_used_at_the_address_that_the_user_gives(features, codes, queries, tmp_path, monkeypatch):
    """Milvus Lite, started as a server, replaces a cluster: the calls are the same."""
    pytest.importorskip("pymilvus", reason="the extra milvus is not installed")
    server = pytest.importorskip("milvus_lite.adapter.grpc.server", reason="the extra milvus is not installed")
    running, database, port = server.start_server_in_thread(str(tmp_path / "data"), host="127.0.0.1", port=0)
    try:
        uri = f"http://127.0.0.1:{port}"
        with Index.build(features, "milvus", uri=uri) as index:
            index.save(tmp_path / "x.index")
        monkeypatch.setenv("MILVUS_URI", uri)
        with Index.open(tmp_path / "x.index", uri=uri) as one, Index.open(tmp_path / "x.index") as other:
            check(one, codes, queries)
            one.delete(["s5"])
            other.add(codes[[5]], ["again"])
            assert other.row("again") == 300 and 5 not in other.query(codes[[5]], 300).rows
        monkeypatch.delenv("MILVUS_URI")
        with pytest.raises(InputError, match=f"--uri .*MILVUS_URI; it was built at '{uri}'"):
            Index.open(tmp_path / "x.index")
    finally:
        running.stop(grace=0)
        database.close()


def test_an_engine_never_connects_to_the_address_that_a_folder_names(features, tmp_path, monkeypatch):
    """A stranger's index folder must not receive the user's token."""
    pytest.importorskip("pymilvus", reason="the extra milvus is not installed")
    monkeypatch.setenv("MILVUS_TOKEN", "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        folder = Index.build(features).save(tmp_path / "x.index")
        meta = json.loads((folder / "meta.json").read_text())
        del meta["sha256"]
        meta |= {"engine": "milvus", "settings": {"uri": address, "built_at": address, "collection": "c"}}
        (folder / "meta.json").write_bytes(with_checksum(meta))
        verify(folder)
        with pytest.raises(InputError, match=f"built at '{address}'"):
            Index.open(folder)
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_contributions_are_the_products_of_query_and_code(index, codes, queries):
    codes = reference_codes(codes, index.cosine)
    rows = [row for row in index.query(queries[0], 5).rows[0].tolist() if row >= 0]
    for row, parts in zip(rows, index.contributions(queries[0], rows), strict=True):
        products = queries[0] * codes[[row]].toarray()[0].astype(np.float64)
        assert [part.feature for part in parts] == np.flatnonzero(products).tolist()
        assert [part.value for part in parts] == products[products > 0].tolist()


class BySharedFeatures(Exact):
    """A wrong scorer: it counts shared features instead of multiplying."""

    def search(self, table, queries, k, where):
        return super().search(table, queries._replace(values=np.ones_like(queries.values)), k, where)


class ByRarity(Exact):
    """A wrong scorer: it weights features by their rarity, as BM25 does."""

    def search(self, table, queries, k, where):
        lengths = np.diff(table.parts[0].lists.starts)
        rarity = np.log(1 + table.rows / (1 + lengths[queries.places]))
        return super().search(table, queries._replace(values=queries.values * rarity), k, where)


class Scaled(Exact):
    """A wrong scorer: right rows with other scores."""

    def search(self, table, queries, k, where):
        found = super().search(table, queries, k, where)
        return Found(found.rows, found.scores * 1.001)


@pytest.mark.parametrize("wrong", [BySharedFeatures, ByRarity, Scaled])
@pytest.mark.parametrize("name", ENGINES)
def test_the_suite_detects_an_engine_with_wrong_scores(wrong, name, features, codes, queries):
    engine = type(wrong.__name__, (wrong,), {"name": name})()
    index = Index(Index.build(features)._table, engine, cosine=True, fingerprint="", label_names=())
    with pytest.raises(AssertionError):
        check(index, codes, queries)
