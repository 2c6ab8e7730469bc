import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from nonneg import Features
from nonneg.errors import InputError
from nonneg.evaluate import linear_probe
from nonneg.evaluate._logistic import fit_logistic


def blobs(seed: int, samples: int = 300, noise: float = 0.1) -> Features:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, samples)
    codes = np.eye(3)[labels] + rng.normal(0, noise, (samples, 3))
    return Features(codes.astype(np.float32), labels=labels)


def test_what_a_linear_map_can_tell_apart_is_told_apart():
    assert linear_probe(blobs(0), blobs(1)).accuracy == 1.0


def test_labels_that_have_nothing_to_do_with_the_features_give_chance():
    test = blobs(1, samples=3000)
    shuffled = Features(test.codes, labels=np.random.default_rng(2).permutation(test.labels))
    assert linear_probe(blobs(0), shuffled).accuracy == pytest.approx(1 / 3, abs=0.05)


def test_noise_makes_validation_choose_a_stronger_regularisation():
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
        (Features(np.ones((4, 3), np.float32), labels=[0] * 4, label_names="abd"), "name their labels differently"),
    ],
)
def test_what_cannot_be_compared_is_refused(test, message):
    train = blobs(0)
    train = Features(train.codes, labels=train.labels, label_names="abc")
    with pytest.raises(InputError, match=message):
        linear_probe(train, test)


def test_classes_go_by_their_names():
    train, test = blobs(0), blobs(1)
    named = Features(train.codes, labels=train.labels, label_names="abc")
    turned = Features(test.codes, labels=2 - test.labels, label_names="cba")
    assert linear_probe(named, turned).accuracy == 1.0


def test_hits_are_those_of_the_labelled_test_samples():
    test = blobs(1, noise=0.6)
    found = linear_probe(
        blobs(0, noise=0.6), Features(test.codes, labels=np.where(np.arange(300) < 50, -1, test.labels))
    )
    assert found.hits.shape == (250,) and found.hits.mean() == found.accuracy < 1


def test_numbers_of_labels_may_be_far_apart():
    train, test = (Features(f.codes, labels=10**7 * f.labels) for f in (blobs(0), blobs(1)))
    assert linear_probe(train, test).accuracy == 1.0


def test_a_column_that_varies_by_rounding_alone_is_constant():
    train, test = blobs(0), blobs(1)
    wide = [np.hstack((f.codes.astype(np.float64), np.full((300, 1), value))) for f, value in ((train, 0.1), (test, 9))]
    wide[0][::2, 3] += 1e-17 * np.arange(150)
    told = linear_probe(Features(wide[0], labels=train.labels), Features(wide[1], labels=test.labels))
    assert told.accuracy == 1.0


def test_too_few_samples_are_refused():
    few = Features(np.eye(3, dtype=np.float32), labels=[0, 1, 1])
    with pytest.raises(InputError, match="train has 3 labelled samples of 2 classes, the smallest of 1"):
        linear_probe(few, few)


@pytest.mark.parametrize("C", [0.001, 0.1, 10.0])
def test_the_regression_is_scikit_learns(C):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 20))
    y = (x @ rng.normal(size=(20, 4)) + rng.normal(size=(500, 4))).argmax(1)
    theirs = LogisticRegression(C=C, max_iter=5000, tol=1e-10).fit(x, y)
    ours = fit_logistic(torch.from_numpy(x), torch.from_numpy(y), 4, C)
    # Adding the same to all intercepts changes nothing.
    intercept = ours.intercept - ours.intercept.mean()
    np.testing.assert_allclose(ours.weight.numpy(), theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(intercept.numpy(), theirs.intercept_ - theirs.intercept_.mean(), atol=1e-4)


def test_of_nearly_collinear_features_the_minimum_is_found_too():
    rng = np.random.default_rng(0)
    few = rng.normal(size=(400, 8))
    x = torch.from_numpy(few @ rng.normal(size=(8, 60)) + 1e-3 * rng.normal(size=(400, 60)))
    y = torch.from_numpy(few[:, :3].argmax(1))
    found = fit_logistic(x, y, 3, C=10.0)
    weight = found.weight.requires_grad_()
    penalty = weight.square().sum() / (2 * 10.0 * len(x))
    (F.cross_entropy(x @ weight.T + found.intercept, y) + penalty).backward()
    assert float(weight.grad.abs().max()) < 2e-6


def test_unlabelled_samples_and_sparse_codes_change_nothing():
    train, test = blobs(0, noise=0.6), blobs(1, noise=0.6)
    plain = linear_probe(train, test)
    extra = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    padded = Features(
        sp.csr_array(np.concatenate((extra, train.codes))), labels=np.concatenate((np.full(50, -1), train.labels))
    )
    assert linear_probe(padded, test) == plain
    assert plain.accuracy < 1
