"""The exact engine: ties, bounds, parts and errors."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError
from nonneg.search import Index, Where
from tests.search.conftest import some_codes
from tests.search.parity import brute_force, check


def test_ties_come_in_the_order_of_rows(codes, queries):
    twice = sp.csr_array(sp.vstack((codes, codes)))
    index = Index.build(Features(twice))
    check(index, twice, queries, k=9)
    first, again, second, again_too = index.query(codes[[8]], 4).rows[0].tolist()
    assert again == first + 300 and again_too == second + 300


def test_only_rows_that_share_a_feature_are_hits():
    index = Index.build(Features(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])), cosine=False)
    found = index.query([1.0, 0.0], k=10)
    assert found.rows.tolist() == [[2, 0, -1]] and found.scores.tolist() == [[2.0, 1.0, 0.0]]
    assert index.query([0.0, 0.0]).rows.tolist() == [[-1, -1, -1]]


def test_k_may_be_all_rows(codes, queries):
    check(Index.build(Features(codes)), codes, queries, k=5000)


def test_dense_and_sparse_matrices_give_the_same_results(codes, queries):
    check(Index.build(Features(codes.toarray())), codes, queries)
    a, b = (Index.build(Features(codes)).query(given) for given in (queries, sp.coo_array(queries)))
    np.testing.assert_array_equal(a.rows, b.rows)
    np.testing.assert_array_equal(a.scores, b.scores)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_gives_the_same_results_as_single_queries(codes, threads, monkeypatch):
    index = Index.build(Features(codes))
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    batch = index.query(codes, 7)
    for place in range(0, 300, 17):
        one = index.query(codes[[place]], 7)
        np.testing.assert_array_equal(one.rows[0], batch.rows[place])
        np.testing.assert_array_equal(one.scores[0], batch.scores[place])


def test_many_small_additions_make_few_parts_and_change_nothing(codes, queries, tmp_path):
    index = Index.build(Features(codes[:100]))
    index.save(tmp_path / "x.index")
    for start in range(100, 300, 5):
        index.add(codes[start : start + 5])
    assert len(index._table.parts) <= 8
    check(index, codes, queries)
    check(Index.open(tmp_path / "x.index"), codes, queries)
    left = {path.name for path in (tmp_path / "x.index").iterdir()} - {"meta.json"}
    assert left == index._meta.listed()


def test_a_merge_drops_the_codes_of_deleted_rows(codes):
    index = Index.build(Features(codes[:50]))
    index.delete([str(row) for row in range(25)])
    index.add(codes[50:100])
    assert len(index._table.parts) == 1
    assert len(index._table.parts[0].lists.places) == codes[25:100].nnz
    allowed = np.arange(100) >= 25
    check(index, sp.csr_array(codes[:100]), codes[:30].toarray(), allowed=allowed)


def test_a_deleted_id_can_be_added_again(codes):
    index = Index.build(Features(codes, ids=[f"s{row}" for row in range(300)]))
    with pytest.raises(InputError, match="ids: 's4'"):
        index.add(codes[[4]], ["s4"])
    index.delete(["s4"])
    index.add(codes[[4]], ["s4"])
    assert index.row("s4") == 300 and len(index) == 300


def test_cosine_compares_directions():
    codes = np.array([[3.0, 4.0], [10.0, 0.0], [0.0, 0.5]])
    found = Index.build(
        Features(codes),
    ).query([0.6, 0.8])
    assert found.rows.tolist() == [[0, 2, 1]]
    np.testing.assert_allclose(found.scores[0], [1.0, 0.8, 0.6], rtol=1e-6)


def test_an_index_takes_at_most_eight_and_a_half_bytes_per_value(tmp_path):
    codes = some_codes(5000, features=200, active=32)
    index = Index.build(Features(codes, labels=np.zeros(5000, np.int64)))
    index.save(tmp_path / "x.index")
    assert index.size_on_disk <= 8.5 * codes.nnz
    assert sum(path.stat().st_size for path in (tmp_path / "x.index").glob("*.npy")) == index.size_on_disk


def test_quantised_values_are_ranked_exactly(codes, queries, tmp_path):
    index = Index.build(Features(codes), cosine=False, quantised=True)
    index.save(tmp_path / "x.index")
    index = Index.open(tmp_path / "x.index")
    index.add(codes[:280])  # merging rounds values again where a feature's scale has grown
    index.add(codes[280:])
    rounded = sp.csr_array(np.array([index.code(row) for row in range(600)]))
    check(index, rounded, queries)
    twice = np.concatenate((codes.toarray(), codes.toarray()))
    assert ((rounded.toarray() > 0) == (twice > 0)).all()
    largest = twice.max(axis=0)
    assert (np.abs(rounded.toarray() - twice) <= largest / 127).all()
    rows = index.query(queries[0], 5).rows[0].tolist()
    score = 0.0
    for part in index.contributions(queries[0], rows)[0]:
        score += part.value
    assert score == index.query(queries[0], 5).scores[0, 0]


def test_a_quantised_index_takes_at_most_five_and_a_half_bytes_per_value(tmp_path):
    codes = some_codes(5000, features=200, active=32)
    index = Index.build(Features(codes), quantised=True)
    index.save(tmp_path / "x.index")
    assert index.size_on_disk <= 5.5 * codes.nnz


def test_added_rows_have_ids_and_labels(features, codes):
    index = Index.build(features)
    index.add(codes[:2], ["a", "b"], [2, -1])
    assert index.label(300) == "owl" and index.label(301) is None and index.label(1) == "cat"
    assert index.ids([300, 301, -1, 0]) == ["a", "b", "s0"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda index, codes: index.query(-codes[:1]), "queries hold negative, NaN or infinite"),
        (lambda index, codes: index.query(np.full(60, np.nan)), "queries hold negative, NaN or infinite"),
        (lambda index, codes: index.query(np.ones(59)), r"queries.*\(1, 59\).*60"),
        (lambda index, codes: index.query(codes, k=0), "k is 0"),
        (lambda index, codes: index.query(codes, where=np.ones(299, bool)), r"where is .*\(299,\).*300"),
        (lambda index, codes: index.delete(["s1", "nobody"]), "id 'nobody'"),
        (lambda index, codes: index.delete("s1"), "ids: a string"),
        (lambda index, codes: index.delete(["s1", "\ud800"]), r"ids: .*\\ud800"),
        (lambda index, codes: index.row("\ud800"), r"ids: .*\\ud800"),
        (lambda index, codes: index.row(5), "ids: .*'int'"),
        (lambda index, codes: Index.build(Features(codes)).row(None), "ids: some are missing"),
        (lambda index, codes: index.add(codes[:2], ["x"]), "ids: 1 given, expected 2"),
        (lambda index, codes: index.add(codes[:2], ["x", "x"]), "ids: .*same"),
        (lambda index, codes: index.add(codes[:2], ["x", "y"], [0.5, 1]), "labels are float64"),
        (lambda index, codes: index.add(codes[:2], ["x", "y"], ["cat", "dog"]), "labels are <U3"),
        (lambda index, codes: Index.build(Features(codes), "faiss"), "engine is 'faiss'.*seismic"),
        (lambda index, codes: Index.build(Features(codes), cut=3), "engine exact .*'cut'"),
        (
            lambda index, codes: Index.build(Features(codes), "milvus", quantised=True),
            "quantised is true with engine milvus",
        ),
        (lambda index, codes: Index.build(Features(-codes)), "codes hold negative, NaN or infinite"),
    ],
)
def test_an_invalid_call_is_an_error_and_changes_nothing(call, found, features, codes, queries):
    index = Index.build(features)
    with pytest.raises(InputError, match=found):
        call(index, codes)
    check(index, codes, queries)


def test_a_missing_library_is_named_with_its_extra(features, monkeypatch):
    for engine, module in (("seismic", "seismic"), ("milvus", "pymilvus")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(InputError, match=rf"engine {engine}.* {module}.*nonneg\[{engine}\]"):
            Index.build(features, engine)


def test_search_does_not_import_torch():
    code = "import sys, nonneg.search\nassert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_reference_loop_is_right():
    rows, scores = brute_force(sp.csr_array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0]]), [2.0, 1.0], 2)
    assert rows == [0, 2] and scores == [4.0, 4.0]


def test_deleted_and_unknown_rows_have_no_id(features):
    index = Index.build(features)
    index.delete(["s4"])
    for row in (4, 300):
        with pytest.raises(InputError, match=f"row is {row}"):
            index.ids([1, row])


def test_rows_without_a_label_are_found_by_minus_one_whether_or_not_others_have_labels(codes):
    index = Index.build(Features(codes[:20]))
    index.add(codes[20:22], labels=[1, -1])
    assert len(index._table.parts) == 2
    found = index.query(np.ones(60), 30, Where(labels=(-1,))).rows[0]
    assert sorted(row for row in found if row >= 0) == [row for row in range(22) if row not in (3, 20)]
