"""Selectors: their scores equal brute-force references, and scikit-learn accepts them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from nonneg import Features, InputError, metrics
from nonneg.select import (
    Elimination,
    ExpectedActivation,
    MutualInformation,
    RandomFeatures,
    Reconstruction,
    Sepin,
    Variance,
)

PLAIN = [ExpectedActivation(1), Variance(1), RandomFeatures(1), MutualInformation(1)]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize(
    ("settings", "taken"),
    [
        ({}, lambda row: np.maximum(row, 0)),
        ({"rectify": False}, lambda row: row),
        ({"absolute": True}, np.abs),
    ],
)
def test_expected_activation_is_the_mean_of_unit_rows(codes, make, settings, taken):
    expected = np.zeros(8)
    for row in codes:
        value = taken(row)
        if value.any():
            expected += value / np.sqrt((value**2).sum()) / len(codes)
    found = ExpectedActivation(2, **settings).fit(make(codes)).scores_
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_unrectified_activation_equals_that_of_features(codes):
    found = ExpectedActivation(2, rectify=False).fit(codes).scores_
    np.testing.assert_allclose(found, Features(codes).expected_activation, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_variance_equals_numpys(codes, make):
    np.testing.assert_allclose(Variance(2).fit(make(codes)).scores_, codes.var(axis=0), atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_reconstruction_chooses_what_explains_most_of_all_features(codes, make):
    found = Reconstruction(5).fit(make(codes)).scores_
    centred = codes - codes.mean(0)

    def left(columns):
        basis = np.linalg.qr(centred[:, columns])[0]
        return np.square(centred - basis @ (basis.T @ centred)).sum()

    expected: list[int] = []
    for _ in range(5):
        others = [feature for feature in range(8) if feature not in expected and codes[:, feature].any()]
        expected.append(min(others, key=lambda feature: left([*expected, feature])))
    np.testing.assert_array_equal(np.argsort(-found)[:5], expected)


def test_reconstruction_leaves_out_repeated_and_constant_features(codes):
    four = codes[:, np.flatnonzero(codes.any(0))[:4]]
    repeated = np.hstack([np.ones((60, 3)), four, 0.5 * four, four.sum(1, keepdims=True) / 9])
    kept = Reconstruction(4).fit_transform(repeated)  # four of them span all
    assert kept.std(0).min() > 0 and np.linalg.matrix_rank(kept - kept.mean(0)) == 4
    assert Reconstruction(9).fit(repeated).get_support().sum() == 9


def test_a_covariance_that_does_not_fit_into_memory_is_an_error():
    wide = sp.random_array((10, 10_000_000), density=1e-6, format="csr", rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="10,000,000 features, whose covariance takes 1,600,000 GB"):
        Reconstruction(1).fit(wide)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bins", [1, 4])
def test_mutual_information_equals_scikit_learns_on_zero_and_quantiles(codes, make, bins):
    labels = np.arange(60) % 3
    for feature, found in enumerate(MutualInformation(2, bins=bins).fit(make(codes), labels).scores_):
        column = codes[:, feature]
        edges = np.quantile(column[column != 0], np.arange(1, bins) / bins) if column.any() else []
        read = [0 if value == 0 else 1 + sum(value >= edge for edge in edges) for value in column]
        assert found == pytest.approx(mutual_info_score(read, labels), abs=1e-12)


def test_duplicate_sparse_entries_are_summed(codes):
    twice = sp.csr_array(codes)
    halves = sp.csr_array(
        (np.repeat(twice.data / 2, 2), np.repeat(twice.indices, 2), 2 * twice.indptr), shape=twice.shape
    )
    labels = np.arange(60) % 3
    for selector in PLAIN[:2]:
        np.testing.assert_allclose(clone(selector).fit(halves).scores_, clone(selector).fit(codes).scores_)
    found = MutualInformation(1).fit(halves, labels).scores_
    np.testing.assert_allclose(found, MutualInformation(1).fit(codes, labels).scores_, atol=1e-12)
    assert halves.nnz == 2 * twice.nnz  # the input is not changed


@pytest.mark.parametrize("selector", PLAIN, ids=lambda selector: type(selector).__name__)
def test_sparse_codes_stay_sparse(selector):
    # Dense, they would take 37 GB.
    wide = sp.random_array((50_000, 100_000), density=1e-6, format="csr", rng=np.random.default_rng(0))
    kept = clone(selector).fit(wide, np.arange(50_000) % 2).transform(wide)
    assert sp.issparse(kept) and kept.shape == (50_000, 1)


def test_sepin_keeps_features_with_unique_information():
    rng = np.random.default_rng(0)
    X = rng.random((40, 4))
    X[:, 3] = X[:, 2]  # redundant features
    views = X + 0.01 * rng.random(X.shape)
    selector = Sepin(2).fit(X, views=views)
    np.testing.assert_allclose(selector.scores_, metrics.sepin(X, views).per_feature, atol=1e-9)
    assert selector.get_support(indices=True).tolist() == [0, 1]


def test_sepin_draws_at_most_max_samples():
    X = np.random.default_rng(0).random((50, 3))
    drawn = np.sort(np.random.RandomState(7).choice(50, 20, replace=False))
    found = Sepin(1, max_samples=20, random_state=7).fit(X, views=X**2).scores_
    np.testing.assert_allclose(found, Sepin(1).fit(X[drawn], views=X[drawn] ** 2).scores_)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_elimination_removes_the_features_that_a_probe_needs_least(codes, make):
    rng = np.random.default_rng(1)
    X = np.hstack((codes, codes[:, :3] + 0.5 * rng.normal(size=(60, 3))))
    labels = np.argmax(X[:, :3] + 0.5 * rng.normal(size=(60, 3)), axis=1)
    remaining = [feature for feature in range(11) if X[:, feature].any()]
    standard = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)
    order = []
    while remaining:
        part = standard[:, remaining]
        weight = LogisticRegression(C=1 / (0.02 * 60), tol=1e-10, max_iter=10_000).fit(part, labels).coef_
        curvature = part.T @ part / 60 + 0.04 * np.eye(len(remaining))
        stays = list(range(len(remaining)))
        for _ in range(2 if len(remaining) > 8 else 1):
            rises = {}
            for out in stays:
                # The smallest increase of a quadratic loss with this feature's weights at 0 and the others free.
                others = [i for i in stays if i != out]
                gone = [i for i in range(len(remaining)) if i not in others]
                block = curvature[np.ix_(gone, gone)]
                if others:
                    cross = curvature[np.ix_(gone, others)]
                    block = block - cross @ np.linalg.solve(curvature[np.ix_(others, others)], cross.T)
                rises[out] = np.trace(weight[:, gone] @ block @ weight[:, gone].T)
            stays.remove(min(rises, key=rises.get))
            order.append(remaining[min(rises, key=rises.get)])
        remaining = [remaining[i] for i in stays]
    expected = [order.index(feature) + 1 if feature in order else 0 for feature in range(11)]
    assert Elimination(2).fit(make(X), labels).scores_.tolist() == expected


def test_elimination_keeps_one_of_two_redundant_features(labelled):
    train, test = labelled
    X, Y = (np.hstack((f.codes, f.codes[:, :2] * 3)) for f in (train, test))  # 16 repeats 0, 17 repeats 1
    selector = Elimination(4).fit(X, train.labels)
    kept = set(selector.get_support(indices=True).tolist())
    assert {2, 3} < kept and len(kept & {0, 16}) == len(kept & {1, 17}) == 1
    fitted = LogisticRegression().fit(selector.transform(X), train.labels)
    assert fitted.score(selector.transform(Y), test.labels) > 0.9
    assert np.array_equal(
        Elimination(9).fit(X, train.labels).scores_, selector.scores_
    )  # scores do not depend on the number kept


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_elimination_ranks_constant_features_last(codes, make):
    labels = np.arange(60) % 3
    still = np.hstack((codes[:, :5], np.full((60, 1), 0.1), np.zeros((60, 1)), np.full((60, 1), 1e9 + 0.1)))
    found = Elimination(2).fit(make(still), labels).scores_
    assert found[5:].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(found[:5], Elimination(2).fit(make(codes[:, :5]), labels).scores_)
    assert not Elimination(2).fit(make(still[:, 5:]), labels).scores_.any()
    for size in (1e160, 1e-200):  # squares of such numbers overflow or underflow
        np.testing.assert_array_equal(Elimination(2).fit(make(codes[:, :5] * size), labels).scores_, found[:5])


def test_elimination_keeps_the_first_of_equal_features():
    rng = np.random.default_rng(0)
    for _ in range(5):
        labels = rng.integers(0, 4, 300)
        X = rng.normal(size=(300, 6))
        X[:, :3] += np.eye(4)[labels][:, :3]
        scores = Elimination(3, alpha=np.float32(0.02)).fit(np.hstack((X, X)), labels).scores_
        assert (scores[:6] > scores[6:]).all()


@pytest.mark.parametrize(
    "selector", [*PLAIN, Reconstruction(1), Elimination(1)], ids=lambda selector: type(selector).__name__
)
def test_selectors_pass_scikit_learns_estimator_checks(selector):
    check_estimator(selector, on_skip=None)


def test_ties_go_to_the_first_features():
    X = np.ones((5, 6))
    assert ExpectedActivation(3).fit(X).get_support(indices=True).tolist() == [0, 1, 2]


def test_the_inverse_transform_fills_removed_features_with_zeros(codes):
    selector = Variance(3).fit(codes)
    kept = selector.get_support()
    back = selector.inverse_transform(selector.transform(codes))
    np.testing.assert_array_equal(back, np.where(kept, codes, 0))


def test_a_selector_works_in_a_pipeline(labelled):
    train, test = labelled
    pipeline = make_pipeline(MutualInformation(4), LogisticRegression()).fit(train.codes, train.labels)
    assert pipeline[0].get_support(indices=True).tolist() == [0, 1, 2, 3]
    assert pipeline.score(test.codes, test.labels) > 0.9


def test_random_features_depend_only_on_the_seed(codes):
    first, same, other = (RandomFeatures(4, random_state=seed).fit(codes) for seed in (0, 0, 1))
    assert (first.scores_ == same.scores_).all() and (first.get_support() != other.get_support()).any()


@pytest.mark.parametrize("count", [0, 9, -1, 2.0, True, "2", None])
def test_an_invalid_number_of_features_is_an_error(codes, count):
    with pytest.raises(InputError, match=r"n_features_to_select is .* 1 to 8"):
        ExpectedActivation(count).fit(codes)


def test_missing_labels_or_views_and_invalid_settings_are_errors(codes):
    with pytest.raises(InputError, match="target y is None"):
        MutualInformation(1).fit(codes, None)
    with pytest.raises(InputError, match="bins is 0"):
        MutualInformation(1, bins=0).fit(codes, np.arange(60) % 2)
    with pytest.raises(InputError, match=r"Elimination.*y is None"):
        Elimination(1).fit(codes, None)
    for alpha in (0, -1.0, 1e-20, 10**400, float("nan"), float("inf"), True, "a"):
        with pytest.raises(InputError, match="alpha is"):
            Elimination(1, alpha=alpha).fit(codes, np.arange(60) % 2)
    with pytest.raises(InputError, match="views is None"):
        Sepin(1).fit(codes)
    with pytest.raises(InputError, match="max_samples is 1"):
        Sepin(1, max_samples=1).fit(codes, views=codes)
    with pytest.raises(InputError, match=r"views has shape \(60, 7\)"):
        Sepin(1).fit(codes, views=codes[:, :7])
