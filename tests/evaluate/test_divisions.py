"""Probes on random splits and on a published one, against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from nonneg.errors import InputError
from nonneg.evaluate import PARTS, measure_features, published_split, random_splits, split_features
from nonneg.features import Features

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    codes = np.eye(3)[labels] * 2 + rng.normal(size=(300, 3))
    return Features(codes.astype(np.float32), labels=labels)


def test_a_published_split_gives_the_accuracy_of_the_best_validated_logistic_regression(features):
    split = np.repeat([0, 1, 2, -1], [60, 60, 150, 30])
    x = features.codes / np.linalg.norm(features.codes, axis=1, keepdims=True)
    y = features.labels
    scores = []
    for C in 4.0 ** np.arange(-1, 7):
        model = LogisticRegression(C=C, max_iter=5000, tol=1e-8).fit(x[split == 0], y[split == 0])
        scores.append([model.score(x[split == part], y[split == part]) for part in (1, 2)])
    found = published_split(features, split)
    best = max(scores, key=lambda score: score[0])
    assert found.validation.tolist() == [pytest.approx(best[0])]
    assert found.accuracies.tolist() == [pytest.approx(best[1])]


def test_the_protocol_tells_of_no_probe_if_every_part_divides_the_samples_itself(features):
    def protocol(*names):
        return measure_features(split_features(features), {name: PARTS[name] for name in names}).protocol

    labelled = int((features.labels >= 0).sum())
    assert protocol("random-splits") == f"{labelled} labelled samples"
    assert protocol("structure") == f"structure: {len(features)} samples"
    assert protocol("structure", "random-splits").endswith(f"; structure: {len(features)} samples")
    assert protocol("probe", "random-splits").startswith("probes fitted on")


def test_random_splits_are_the_same_for_all_features_of_the_same_samples(features):
    first, again = random_splits(features, splits=3), random_splits(features, splits=3)
    scaled = random_splits(Features(features.codes * 7, labels=features.labels), splits=3)
    assert len(first.accuracies) == 3
    np.testing.assert_array_equal(first.accuracies, again.accuracies)
    np.testing.assert_array_equal(first.accuracies, scaled.accuracies)  # rows are scaled to length 1
    assert len(set(random_splits(features, splits=3, seed=1).accuracies) | set(first.accuracies)) > 3


def test_splits_that_are_fitted_side_by_side_do_not_change_each_other(features):
    many = random_splits(features, splits=6)
    np.testing.assert_array_equal(many.accuracies[:2], random_splits(features, splits=2).accuracies)
    np.testing.assert_array_equal(many.validation[:1], random_splits(features, splits=1).validation)


def test_unlabelled_samples_are_left_out(features):
    labels = np.where(np.arange(400) < 300, np.resize(features.labels, 400), -1)
    codes = np.concatenate((features.codes, np.zeros((100, 3), np.float32)))
    more = random_splits(Features(codes, labels=labels), splits=2)
    np.testing.assert_array_equal(more.accuracies, random_splits(features, splits=2).accuracies)


def test_they_are_parts_of_a_measurement_that_must_be_asked_for(features):
    subject = split_features(features)
    assert not any("split" in key for key, _ in measure_features(subject).figures)


@pytest.mark.parametrize("labels", [np.full(300, -1), np.where(np.arange(300) < 9, 1, -1)])
def test_too_few_labels_are_an_error(features, labels):
    with pytest.raises(InputError, match="random_splits"):
        random_splits(Features(features.codes, labels=labels))


def test_a_split_with_an_empty_part_is_an_error(features):
    with pytest.raises(InputError, match="published_split"):
        published_split(features, np.zeros(300, int))
