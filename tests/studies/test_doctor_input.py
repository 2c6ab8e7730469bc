"""Input that the doctor accepts, ignores or rejects."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.studies import diagnose
from tests.studies.conftest import QUICK, clusters, codes, sentences

pytestmark = pytest.mark.usefixtures("one_thread")


def test_dead_features_are_counted_over_all_rows():
    z, labels = codes(rows=8000, dead=1)
    z[0, -1] = 1
    found = diagnose(sp.csr_array(z), labels, **QUICK)
    assert (found.rows_seen, found.rows, found.dead) == (5000, 8000, 0)


def test_sparse_and_dense_input_give_the_same_figures():
    z, labels = codes(dead=3)
    dense, sparse = diagnose(z, labels, **QUICK), diagnose(sp.csr_matrix(z), labels.astype(str), **QUICK)
    assert (dense.dead, dense.dense, dense.active, dense.axes) == (
        sparse.dead,
        sparse.dense,
        sparse.active,
        sparse.axes,
    )
    assert dense.given.sparsity == pytest.approx(sparse.given.sparsity)
    assert dense.given.consistency == pytest.approx(sparse.given.consistency)
    assert dense.effective_rank == pytest.approx(sparse.effective_rank, rel=1e-4)


def test_signed_sparse_vectors_are_converted():
    vectors, labels = clusters(rows=300, noise=0)
    vectors[:, 0] *= -1
    found = diagnose(sp.csr_array(vectors), labels, **QUICK)
    assert found.negative > 0
    assert found.conversion.held_out_rows == 75


def test_a_memory_map_in_half_precision_is_accepted(tmp_path):
    vectors, labels = clusters(rows=200)
    np.save(tmp_path / "vectors.npy", vectors.astype(np.float16))
    found = diagnose(np.load(tmp_path / "vectors.npy", mmap_mode="r"), labels, **QUICK)
    assert (found.rows, found.features, found.dead) == (200, 24, 0)


def test_wide_sparse_features_are_examined_in_part():
    rng = np.random.default_rng(0)
    columns = 10 * rng.integers(0, 300, (400, 5))  # most of 3,000 columns stay empty
    z = sp.csr_array((rng.random(2000), (np.repeat(np.arange(400), 5), columns.ravel())), shape=(400, 3000))
    found = diagnose(z, **QUICK)
    assert found.dead >= 2700
    assert found.axes == "sparse"
    assert "may be rare rather than dead" in sentences(found)


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        (np.zeros(300, int), "1 class on 300 rows"),
        (np.full(300, -1), "0 classes on 0 rows"),
        (np.arange(300), "300 classes on 300 rows"),
    ],
)
def test_unusable_labels_are_ignored_and_mentioned(labels, part):
    found = diagnose(clusters(rows=300)[0], labels, **QUICK)
    assert found.classes == 0
    assert found.given.excess is None
    assert part in sentences(found, "note")


def test_unlabelled_rows_are_left_out_and_mentioned():
    z, labels = codes()
    labels[::3] = -1
    found = diagnose(z, labels, **QUICK)
    known = labels >= 0
    assert "400 of 1,200 rows have no label" in sentences(found, "note")
    assert found.given.consistency == pytest.approx(metrics.class_consistency(z[known], labels[known]).supported)


def with_nan(*rows):
    vectors = clusters(rows=200)[0]
    vectors[list(rows), 1] = np.nan
    return vectors


def test_single_features_and_rows_are_described_in_the_singular():
    z = np.zeros((200, 3))
    z[1:, 0] = np.random.default_rng(0).random(199) + 1
    z[30, 1] = 1
    told = " ".join(finding.sentence for finding in diagnose(z, **QUICK).findings)
    assert "1 of 3 features is dead: active on none of the 200 rows" in told
    assert "1 of the 2 live features is active on more than half of the rows" in told
    assert "1 of 200 rows has no active feature, so it is similar to no other row" in told


def test_rows_of_zeros_are_left_out_of_the_conversion_without_a_warning():
    z = clusters(rows=200)[0].copy()
    z[5] = 0
    assert diagnose(z, **QUICK).empty == 1


@pytest.mark.parametrize(
    ("vectors", "options", "message"),
    [
        (np.ones(300), {}, r"vectors has shape \(300,\)"),
        (clusters(rows=99)[0], {}, "vectors has 99 rows.*100"),
        (clusters(rows=99)[0][:1], {}, "vectors has 1 row,.*100"),
        (with_nan(17), {}, r"in 1 of 200 rows \(17\)"),
        (with_nan(3, 50, 60, 199), {}, r"in 4 of 200 rows \(3, 50, 60, …\)"),
        (1e300 * clusters(rows=200)[0], {}, "too large for float32 in 200 of 200 rows"),
        (np.ones((200, 4)), {}, "vectors.*one direction"),
        (np.arange(1.0, 201)[:, None], {}, "one direction"),
        (with_nan(17), {"name": "mine.npy"}, "^mine.npy.*NaN"),
        (np.full((200, 4), "a"), {}, "vectors holds <U1"),
        (clusters(rows=200)[0], {"labels": np.zeros(199, int)}, r"labels has shape \(199,\).*\(200,\)"),
        (clusters(rows=200)[0], {"labels": np.full(200, 0.5)}, "labels.*0.5"),
        (clusters(rows=200)[0], {"max_iter": 0}, "max_iter is 0"),
        (clusters(rows=200)[0], {"n_components": 2.5}, "n_components is 2.5"),
    ],
)
def test_invalid_input_is_rejected(vectors, options, message):
    with pytest.raises(InputError, match=message):
        diagnose(vectors, **{**QUICK, **options})
