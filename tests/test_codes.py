"""Lengths, unit rows and activity against plain loops, for every kind of matrix."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nonneg.codes import EPSILON, active, active_units, row_lengths, unit_rows

KINDS = {
    "float64": np.float64,
    "float32": np.float32,
    "csr": lambda rows: sp.csr_array(np.array(rows)),
    "coo": lambda rows: sp.coo_array(np.array(rows)),
    "torch": lambda rows: torch.tensor(rows, dtype=torch.float64),
}


@pytest.fixture(params=KINDS)
def convert(request):
    make = KINDS[request.param]
    return (lambda rows: np.array(rows, make)) if isinstance(make, type) else make


def rows_drawn():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.6)
    rows[3] = 0
    rows[5, 0], rows[5, 1], rows[6, 2] = 0.9e-5, 1.1e-5, 1.0
    rows[5, 2:] = [1, 0, 0, 0]
    return rows.tolist()


def lengths_by_hand(rows):
    return [math.sqrt(sum(x * x for x in row)) for row in rows]


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def test_unit_rows_have_length_one_and_zero_rows_stay_zero(convert):
    rows = rows_drawn()
    by_hand = [[x / (length or 1) for x in row] for row, length in zip(rows, lengths_by_hand(rows), strict=True)]
    units = unit_rows(convert(rows))
    assert sp.issparse(units) == sp.issparse(convert(rows))
    assert isinstance(units, torch.Tensor) == isinstance(convert(rows), torch.Tensor)
    np.testing.assert_allclose(dense(units), by_hand, rtol=1e-6, atol=1e-12)


def test_row_lengths_are_euclidean(convert):
    if isinstance(convert([[0.0]]), torch.Tensor):
        pytest.skip("row_lengths is for NumPy and SciPy")
    lengths = row_lengths(convert(rows_drawn()))
    assert lengths.dtype == np.float64
    np.testing.assert_allclose(lengths, lengths_by_hand(rows_drawn()), rtol=1e-6)


def test_an_entry_is_active_above_a_share_of_its_rows_length(convert):
    rows = rows_drawn()
    by_hand = [
        [abs(x) > EPSILON * length for x in row] for row, length in zip(rows, lengths_by_hand(rows), strict=True)
    ]
    assert by_hand[5][:3] == [False, True, True]
    assert dense(active(convert(rows))).tolist() == by_hand
    if not isinstance(convert(rows), torch.Tensor):
        units = active_units(convert(rows))
        assert dense(units != 0).tolist() == by_hand
        assert units.nnz == np.sum(by_hand)


def test_the_matrix_given_is_not_changed(convert):
    given = convert(rows_drawn())
    active(given), unit_rows(given)
    if not isinstance(given, torch.Tensor):
        active_units(given)
    np.testing.assert_array_equal(dense(given), dense(convert(rows_drawn())))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_float32_tensors_neither_overflow_nor_underflow(scale):
    units = unit_rows(torch.tensor([[3.0, 4.0]]) * scale)
    torch.testing.assert_close(units, torch.tensor([[0.6, 0.8]]))
    assert active(torch.tensor([[3.0, 4.0]]) * scale).all()
