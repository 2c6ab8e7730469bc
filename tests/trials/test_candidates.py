"""Which partners are searched: each once, although samples share them or have several."""

import numpy as np

from nonneg import metrics
from nonneg.trials._parts import _candidates


def test_a_partner_that_samples_share_is_one_candidate():
    numbers = [np.array([7]), np.array([7]), np.array([3, 7]), np.array([5, 9])]
    rows, own = _candidates(numbers, 4)
    assert rows.tolist() == [2, 3, 0]  # the partners 3, 5 and 7; 9 is nobody's first partner
    assert own.toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 1], [0, 1, 0]]


def test_samples_with_the_same_partner_all_find_it():
    texts = np.eye(3)
    pictures, partners = np.repeat(texts, 2, axis=0), np.repeat(texts, 2, axis=0)
    rows, own = _candidates(list(np.repeat(np.arange(3), 2)[:, None]), 6)
    assert metrics.mean_reciprocal_rank(pictures, partners, 1) == 0.5  # against the copy of their own partner
    assert metrics.mean_reciprocal_rank(pictures, partners[rows], 1, own=own) == 1.0
