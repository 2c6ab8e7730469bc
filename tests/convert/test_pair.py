"""NonNegativePair: two modalities in the same features."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from nonneg.convert import NonNegativePair

SMALL = {"n_components": 64, "max_active": 8, "max_iter": 200, "batch_size": 100, "random_state": 0}


@pytest.fixture(scope="module")
def modalities():
    """Two linear views of different widths of the same latent variables."""
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


def test_the_same_seed_gives_the_same_codes(modalities):
    A, B = modalities
    settings = SMALL | {"max_iter": 5}
    first, second = (NonNegativePair(**settings).fit(A, B).transform_a(A) for _ in range(2))
    assert (first != second).nnz == 0


def test_the_two_sides_get_different_noise(modalities):
    A = modalities[0]
    pair = NonNegativePair(**SMALL | {"max_iter": 2}).fit(A, A)
    assert float((pair.head_a_.weight - pair.head_b_.weight).abs().mean()) > 1e-4  # more than rounding


def test_wrong_shapes_and_parameters_are_named(modalities):
    A, B = modalities
    with pytest.raises(ValueError, match="A has 500 rows and B 10"):
        NonNegativePair(**SMALL).fit(A, B[:10])
    pair = NonNegativePair(**SMALL | {"max_iter": 1}).fit(A, B)
    with pytest.raises(ValueError, match=r"A .*30 numbers, expected 20"):
        pair.transform_a(B)
    with pytest.raises(ValueError, match=r"^B: all 500 rows have the same direction"):
        NonNegativePair(**SMALL | {"max_iter": 1}).fit(A, np.ones_like(B))
    with pytest.raises(ValueError, match="max_iter is 0"):
        NonNegativePair(max_iter=0).fit(A, B)


def test_tensors_and_arrow_columns_give_the_same_codes_as_arrays(modalities):
    A, B = (rows.astype(np.float32) for rows in modalities)
    settings = SMALL | {"max_iter": 5}
    expected = NonNegativePair(**settings).fit(A, B).transform_b(B)
    for given in (torch.from_numpy, lambda rows: pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])):
        pair = NonNegativePair(**settings).fit(given(A), given(B))
        assert (pair.transform_b(given(B)) != expected).nnz == 0
    assert pair.transform_a(torch.from_numpy(A).bfloat16()).shape == (500, 64)  # a type that NumPy lacks
    for wrong, found in ((torch.ones(20), r"A has shape \(20,\)"), (torch.full((2, 20), torch.nan), "contains NaN")):
        with pytest.raises(ValueError, match=found):
            pair.transform_a(wrong)


def test_each_side_has_a_report_on_its_features(modalities):
    A, B = modalities
    pair = NonNegativePair(**SMALL | {"max_iter": 5}).fit(A, B)
    for report, codes in ((pair.report_a_, pair.transform_a(A)), (pair.report_b_, pair.transform_b(B))):
        assert report.rows == 500 and report.live == len(np.unique(codes.indices))
        assert report.active == pytest.approx(codes.nnz / 500)


def test_a_loaded_pair_equals_the_saved_one(modalities, tmp_path):
    A, B = modalities
    pair = NonNegativePair(**SMALL | {"max_iter": 5, "n_components": np.int64(64)}).fit(A, B)
    folder = pair.save_pretrained(tmp_path / "pair", {"recall@1": 0.5})
    again = NonNegativePair.from_pretrained(folder)
    assert (again.transform_a(A) != pair.transform_a(A)).nnz == 0
    assert again.score(A, B) == pair.score(A, B) and again.get_params() == pair.get_params()
    assert (again.report_a_, again.report_b_, again.n_iter_) == (pair.report_a_, pair.report_b_, 5)
    card = (folder / "README.md").read_text()
    assert "| recall@1 | 0.500 |" in card and f"| live features of B | {pair.report_b_.live} |" in card
    assert "vectors of 20 numbers and their partners of 30" in card


def test_column_names_are_saved_and_checked(modalities, tmp_path):
    A, B = modalities
    frame = pd.DataFrame(A, columns=[f"x{i}" for i in range(20)])
    pair = NonNegativePair(**SMALL | {"max_iter": 1}).fit(frame, B)
    again = NonNegativePair.from_pretrained(pair.save_pretrained(tmp_path / "pair"))
    for each in (pair, again):
        assert each.feature_names_in_a_.tolist() == frame.columns.tolist() and not hasattr(each, "feature_names_in_b_")
        codes = each.transform_a(A).toarray()
        # Another memory order of the columns rounds differently.
        np.testing.assert_allclose(each.transform_a(frame).toarray(), codes, atol=1e-5)
        with pytest.raises(ValueError, match="A has the column 'x19' at 0, expected 'x0'"):
            each.transform_a(frame[frame.columns[::-1]])
    assert not hasattr(pair.fit(A, B), "feature_names_in_a_")
