"""The linear probe: logistic regression whose regularisation is chosen on held-out train samples."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from nonneg import Features
from nonneg.errors import InputError
from nonneg.evaluate import fit_logistic, linear_probe


def blobs(seed: int, samples: int = 300, noise: float = 0.1) -> Features:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, samples)
    codes = np.eye(3)[labels] + rng.normal(0, noise, (samples, 3))
    return Features(codes.astype(np.float32), labels=labels)


def test_linearly_separable_classes_are_predicted_perfectly():
    assert linear_probe(blobs(0), blobs(1)).accuracy == 1.0


def test_random_test_labels_give_chance_accuracy():
    test = blobs(1, samples=3000)
    shuffled = Features(test.codes, labels=np.random.default_rng(2).permutation(test.labels))
    assert linear_probe(blobs(0), shuffled).accuracy == pytest.approx(1 / 3, abs=0.05)


def test_validation_chooses_stronger_regularisation_for_noisy_features():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 80)
    codes = rng.normal(size=(80, 200))
    codes[:, 0] += labels
    noisy = Features(codes.astype(np.float32), labels=labels)
    assert linear_probe(noisy, noisy).C < 1


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (Features(np.ones((4, 3), np.float32)), "the test features have no labels"),
        (Features(np.ones((4, 3), np.float32), labels=[-1] * 4), "the test features have no labels"),
        (Features(np.ones((4, 2), np.float32), labels=[0] * 4), "train has 3 features and test 2"),
        (Features(np.ones((4, 3), np.float32), labels=[0] * 4, label_names="abd"), "test has the class 'd'"),
    ],
)
def test_test_features_without_labels_or_with_other_columns_or_classes_are_errors(test, message):
    train = blobs(0)
    train = Features(train.codes, labels=train.labels, label_names="abc")
    with pytest.raises(InputError, match=message):
        linear_probe(train, test)


def test_classes_are_matched_by_name():
    train, test = blobs(0), blobs(1)
    named = Features(train.codes, labels=train.labels, label_names="abc")
    renamed = Features(test.codes, labels=2 - test.labels, label_names="cba")
    assert linear_probe(named, renamed).accuracy == 1.0


def test_hits_cover_the_labelled_test_samples():
    test = blobs(1, noise=0.6)
    found = linear_probe(
        blobs(0, noise=0.6), Features(test.codes, labels=np.where(np.arange(300) < 50, -1, test.labels))
    )
    assert found.hits.shape == (250,) and found.hits.mean() == found.accuracy < 1


def test_label_numbers_may_have_large_gaps():
    train, test = (Features(f.codes, labels=10**7 * f.labels) for f in (blobs(0), blobs(1)))
    assert linear_probe(train, test).accuracy == 1.0


def test_a_column_that_varies_only_by_rounding_is_ignored():
    train, test = blobs(0), blobs(1)
    wide = [np.hstack((f.codes.astype(np.float64), np.full((300, 1), value))) for f, value in ((train, 0.1), (test, 9))]
    wide[0][::2, 3] += 1e-17 * np.arange(150)
    found = linear_probe(Features(wide[0], labels=train.labels), Features(wide[1], labels=test.labels))
    assert found.accuracy == 1.0


@pytest.mark.parametrize(("labels", "classes"), [([1, 1, 1], 1), ([0, 1, 2], 3), ([0, 1, -1], 2)])
def test_a_probe_needs_two_classes_and_a_sample_to_validate_on(labels, classes):
    few = Features(np.eye(3, dtype=np.float32), labels=labels)
    with pytest.raises(InputError, match=f"train.* in {classes} classes"):
        linear_probe(few, few)


def test_classes_with_one_or_two_samples_are_learnt():
    codes = np.repeat(np.eye(4, dtype=np.float32), [50, 50, 2, 1], axis=0)
    features = Features(codes, labels=codes.argmax(1))
    assert linear_probe(features, features).accuracy > 0.98


def test_more_classes_than_held_out_samples_can_be_probed():
    codes = np.repeat(np.eye(20, dtype=np.float32), 2, axis=0)
    features = Features(codes, labels=codes.argmax(1))
    assert linear_probe(features, features).accuracy == 1.0


@pytest.mark.parametrize("C", [0.001, 0.1, 10.0])
def test_logistic_regression_equals_scikit_learns(C):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 20))
    y = (x @ rng.normal(size=(20, 4)) + rng.normal(size=(500, 4))).argmax(1)
    theirs = LogisticRegression(C=C, max_iter=5000, tol=1e-10).fit(x, y)
    ours = fit_logistic(torch.from_numpy(x), torch.from_numpy(y), 4, C)
    # Adding a constant to all intercepts changes nothing.
    intercept = ours.intercept - ours.intercept.mean()
    np.testing.assert_allclose(ours.weight.numpy(), theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(intercept.numpy(), theirs.intercept_ - theirs.intercept_.mean(), atol=1e-4)


def test_the_minimum_is_found_for_nearly_collinear_features():
    rng = np.random.default_rng(0)
    few = rng.normal(size=(400, 8))
    x = torch.from_numpy(few @ rng.normal(size=(8, 60)) + 1e-3 * rng.normal(size=(400, 60)))
    y = torch.from_numpy(few[:, :3].argmax(1))
    found = fit_logistic(x, y, 3, C=10.0)
    weight = found.weight.requires_grad_()
    penalty = weight.square().sum() / (2 * 10.0 * len(x))
    (F.cross_entropy(x @ weight.T + found.intercept, y) + penalty).backward()
    assert float(weight.grad.abs().max()) < 2e-6


def test_unlabelled_samples_and_sparse_storage_do_not_change_the_result():
    train, test = blobs(0, noise=0.6), blobs(1, noise=0.6)
    plain = linear_probe(train, test)
    extra = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    padded = Features(
        sp.csr_array(np.concatenate((extra, train.codes))), labels=np.concatenate((np.full(50, -1), train.labels))
    )
    assert linear_probe(padded, test) == plain
    assert plain.accuracy < 1
