import re
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nonneg.errors import InputError
from nonneg.labels import is_labelled, label_numbers


@pytest.mark.parametrize(
    ("values", "numbers", "names"),
    [
        (["10", "9", "-1", "", "-2"], [1, 0, -1, -1, -1], ("9", "10")),
        (["a", "-1", "", None], [1, 0, -1, -1], ("-1", "a")),  # next to words, "-1" is a word
        (["a", -1, float("nan"), "b"], [0, -1, -1, 1], ("a", "b")),
        (["007", "1"], [0, 1], ("007", "1")),
        ([10, None, 9], [1, -1, 0], ("9", "10")),
        ([1.0, np.nan, -3.0], [0, -1, -1], ("1",)),
        ([2**60, 2**60 + 1, None], [0, 1, -1], (str(2**60), str(2**60 + 1))),
        (np.array(["2", "-1"]), [0, -1], ("2",)),
        (np.array([5, 3, 5, -7], np.int8), [1, 0, 1, -1], ("3", "5")),
        (np.array([1.0, np.nan, -np.inf], np.float32), [0, -1, -1], ("1",)),
        (np.array([True, False]), [1, 0], ("False", "True")),
        ([True, False, None], [1, 0, -1], ("False", "True")),  # as in a column with missing values
        (pa.array(["x", None, "w", ""]), [1, -1, 0, -1], ("w", "x")),
        (pa.chunked_array([[4, None], [2]]), [1, -1, 0], ("2", "4")),
        (pd.Series(["b", None, "a"], dtype="string"), [1, -1, 0], ("a", "b")),
        ([pd.NA, 3], [-1, 0], ("3",)),
    ],
)
def test_labels_are_numbered_in_order_and_unlabelled_samples_get_minus_one(values, numbers, names):
    found, called = label_numbers(values)
    assert found.dtype == np.int64
    assert (found.tolist(), called) == (numbers, names)
    assert is_labelled(values).tolist() == [number >= 0 for number in numbers]


@pytest.mark.parametrize("value", [0.5, np.inf, 1e30])
def test_numbers_that_are_not_whole_or_too_large_are_rejected_by_file_and_value(value):
    with pytest.raises(InputError, match=rf"y\.csv.*{re.escape(str(value))}"):
        label_numbers([1.0, value], name="y.csv")


@pytest.mark.parametrize("values", [[], [-1, -2], ["", None], [np.nan]])
def test_labels_of_unlabelled_samples_only_are_rejected(values):
    assert not is_labelled(values).any()
    with pytest.raises(InputError, match=r"y\.csv holds no label"):
        label_numbers(values, "y.csv")


@pytest.mark.parametrize("values", [np.zeros((2, 3), int), np.full((2, 3), "cat")])
def test_labels_with_several_columns_are_rejected(values):
    with pytest.raises(InputError, match=r"y\.csv .*\(2, 3\)"):
        label_numbers(values, "y.csv")


def test_one_long_label_does_not_take_its_length_for_every_sample():
    tracemalloc.start()
    numbers, names = label_numbers(["cat"] * 50_000 + ["x" * 1_000_000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(names) == 2 and numbers[-1] == 1 and peak < 30_000_000
