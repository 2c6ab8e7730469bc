"""What functions say that are given something else than `Features`."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError, explore, measure, search
from nonneg.evaluate import match_features
from nonneg.select import keep
from nonneg.studies import diagnose

CODES = np.abs(np.random.default_rng(0).normal(size=(120, 6)))
FEATURES = Features(CODES, labels=np.arange(120) % 3)


@pytest.mark.parametrize(
    "call",
    [
        measure,
        lambda given: measure([FEATURES, given]),
        lambda given: measure(FEATURES, train=given),
        lambda given: match_features(FEATURES, given),
        lambda given: keep(given, [1, 2]),
        search.Index.build,
        lambda given: explore(given, block=False),
    ],
)
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (CODES, "is a NumPy array, expected Features.*; wrap it: Features"),
        (sp.csr_array(CODES), "is a SciPy matrix, expected Features.*; wrap it: Features"),
        (7, "is an int, expected Features"),
        (None, "is None, expected Features"),
    ],
)
def test_arrays_in_place_of_features_are_an_error_that_says_what_to_do(call, given, found):
    with pytest.raises(InputError, match=found):
        call(given)


def test_a_path_in_place_of_features_is_an_error_that_says_what_to_do():
    with pytest.raises(InputError, match=r"features is a str, expected Features; open it: Features\.load"):
        keep("x.features", [1])
    with pytest.raises(InputError, match=r"vectors is the path x\.npy, expected an array.*examine"):
        diagnose("x.npy")


def test_labels_in_place_of_their_file_are_an_error():
    with pytest.raises(InputError, match="labels is a ndarray, expected the path of a file"):
        measure("x.npy", labels=np.arange(3))


def test_features_are_diagnosed_with_their_labels():
    quick = {"n_components": 8, "max_active": 4, "max_iter": 3, "progress": False}
    found, same = diagnose(FEATURES, **quick), diagnose(CODES, FEATURES.labels, **quick)
    assert found.classes == 3 and found.given == same.given


def test_lists_of_features_and_single_words_are_measured():
    found = measure([FEATURES, FEATURES], parts="structure", progress=False)
    same = measure(FEATURES, FEATURES, parts=["structure"], progress=False)
    assert found.markdown() == same.markdown()
