"""`keep` returns the chosen features with everything known about the samples."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError
from nonneg.codes import dense
from nonneg.select import (
    MutualInformation,
    Sepin,
    Variance,
    keep,
    named_selector,
)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_keep_preserves_samples_labels_names_and_provenance(codes, make):
    text = [f"text {i}" for i in range(60)]
    features = Features(
        make(codes),
        ids=[f"s{i}" for i in range(60)],
        labels=np.arange(60) % 2,
        label_names=("even", "odd"),
        media=[bytes([i]) for i in range(60)],
        texts=text,
        names={1: "one", 6: "six"},
        provenance={"model": "mine"},
    )
    selected_features = keep(features, [6, 0])
    np.testing.assert_array_equal(dense(selected_features.codes), codes[:, [6, 0]])
    assert selected_features.is_sparse == features.is_sparse and selected_features.names == {0: "six"}
    assert selected_features.samples == features.samples and selected_features.label_names == ("even", "odd")
    assert (selected_features.labels == features.labels).all()
    assert selected_features.provenance["selected"] == {"by": "indices", "kept": [6, 0], "of": 8}
    assert selected_features.provenance["model"] == "mine" and selected_features.model_columns.tolist() == [6, 0]


def test_keep_fits_a_copy_of_the_selector(codes):
    selector = Variance(3)
    selected_features = keep(Features(codes), selector)
    selected = selected_features.provenance["selected"]
    assert selected["kept"] == np.sort(np.argsort(-codes.var(axis=0))[:3]).tolist()
    assert selected["by"] == "Variance(n_features_to_select=3)" and not hasattr(selector, "scores_")


def test_a_fitted_selector_is_not_fitted_again(codes):
    selector = Variance(3).fit(codes)
    other = Features(codes[:, ::-1])
    assert keep(other, selector).provenance["selected"]["kept"] == selector.get_support(indices=True).tolist()


def test_unlabelled_samples_are_ignored(labelled):
    train, _ = labelled
    some = np.where(np.arange(200) < 100, train.labels, -1)
    found = keep(Features(train.codes, labels=some), MutualInformation(6)).provenance["selected"]["kept"]
    expected = MutualInformation(6).fit(train.codes[:100], train.labels[:100])
    assert found == expected.get_support(indices=True).tolist()


def test_views_are_matched_to_samples_by_id(labelled):
    train, _ = labelled
    order = np.random.default_rng(0).permutation(200)
    views = Features(train.codes[order], ids=[f"s{i}" for i in order])
    assert keep(train, Sepin(4), views).provenance["selected"]["kept"] == [
        *keep(train, Sepin(4), train).provenance["selected"]["kept"]
    ]


def test_a_selection_of_a_selection_records_both(codes):
    twice = keep(keep(Features(codes), [7, 3, 1]), [2, 0]).provenance["selected"]
    assert twice["kept"] == [2, 0] and twice["before"]["kept"] == [7, 3, 1]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([8], "index 8 .* 0 to 7"),
        ([-1], "index -1"),
        ([1, 1], "indices are repeated"),
        ([], "indices are float64 of shape"),
        ([0.5], "indices are float64"),
        (Variance(3).fit(np.eye(5)), "fitted on 5 features, expected 8"),
        (Sepin(3), "views is None"),
        (MutualInformation(3), "the features have no labels"),
    ],
    ids=str,
)
def test_invalid_choices_are_errors(codes, chosen, message):
    with pytest.raises(InputError, match=message):
        keep(Features(codes), chosen)


def test_labels_of_one_class_are_an_error(codes):
    with pytest.raises(InputError, match="all labels are 3"):
        keep(Features(codes, labels=np.full(len(codes), 3)), MutualInformation(3))


def test_an_unknown_selector_is_an_error():
    with pytest.raises(InputError, match="selector is 'luck'"):
        named_selector("luck", 3)
