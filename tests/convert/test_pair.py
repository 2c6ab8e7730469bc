import numpy as np
import pytest

from nonneg.convert import NonNegativePair

SMALL = {"n_components": 64, "max_active": 8, "max_iter": 200, "batch_size": 100, "random_state": 0}


@pytest.fixture(scope="module")
def modalities():
    """Two linear pictures, of different widths, of the same hidden things."""
    rng = np.random.default_rng(0)
    hidden = np.maximum(rng.normal(size=(500, 12)) - 0.5, 0)
    return tuple(hidden @ rng.normal(size=(12, width)) + 0.05 * rng.normal(size=(500, width)) for width in (20, 30))


def test_partners_find_each_other_across_modalities(modalities):
    A, B = modalities
    pair = NonNegativePair(**SMALL).fit(A[:400], B[:400])
    a, b = pair.transform_a(A[400:]), pair.transform_b(B[400:])
    assert a.shape == b.shape == (100, 64)
    for codes in (a, b):
        assert (codes.data > 0).all() and np.diff(codes.indptr).max() <= 8
    found = float(((a @ b.T).toarray().argmax(1) == np.arange(100)).mean())
    assert pair.score(A[400:], B[400:]) == pytest.approx(found)
    assert found > 0.3  # chance is 0.01


def test_the_seed_decides(modalities):
    A, B = modalities
    settings = SMALL | {"max_iter": 5}
    first, second = (NonNegativePair(**settings).fit(A, B).transform_a(A) for _ in range(2))
    assert (first != second).nnz == 0


def test_what_does_not_fit_is_refused(modalities):
    A, B = modalities
    with pytest.raises(ValueError, match="A has 500 rows and B 10"):
        NonNegativePair(**SMALL).fit(A, B[:10])
    pair = NonNegativePair(**SMALL | {"max_iter": 1}).fit(A, B)
    with pytest.raises(ValueError, match="A has vectors of 30 numbers, expected 20"):
        pair.transform_a(B)
    with pytest.raises(ValueError, match="max_iter is 0"):
        NonNegativePair(max_iter=0).fit(A, B)
