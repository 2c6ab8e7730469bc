"""K-means on features beside the classes."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, measure
from nonneg.errors import InputError
from nonneg.evaluate import clustering


def features(noise=0.0, labels=None, sparse=False):
    labels = np.repeat([0, 1, 2], 20) if labels is None else labels
    codes = np.eye(3)[np.repeat([2, 0, 1], 20)] + noise * np.random.default_rng(0).random((60, 3))
    codes = codes.astype(np.float32)
    return Features(sp.csr_array(codes) if sparse else codes, labels=labels)


@pytest.mark.parametrize("sparse", [False, True])
def test_clusters_that_are_the_classes_are_found_whatever_their_numbers(sparse):
    found = clustering(features(0.1, sparse=sparse))
    assert found.hits.all() and found.information == pytest.approx(1)


def test_classes_are_found_where_features_are_much_finer_than_classes():
    rng, labels, per_class, active = np.random.default_rng(0), np.arange(400) % 4, 128, 4
    codes = np.zeros((400, 4 * per_class), np.float32)
    for row, label in enumerate(labels):  # two samples of a class seldom share a feature
        codes[row, label * per_class + rng.choice(per_class, active, replace=False)] = rng.uniform(0.5, 1, active)
    for kind in (np.asarray, sp.csr_array):
        assert clustering(Features(kind(codes), labels=labels)).hits.all()


def test_each_class_gets_one_cluster():
    labels = np.repeat([0, 1, 2], 20)
    labels[:5] = 1  # in the cluster of class 0
    found = clustering(features(0.1, labels))
    assert found.hits.sum() == 55 and not found.hits[:5].any() and 0 < found.information < 1


def test_unlabelled_samples_are_left_out():
    labels = np.repeat([0, 1, -1], 20)
    assert len(clustering(features(0.1, labels)).hits) == 40
    with pytest.raises(InputError, match="no labels"):
        clustering(features(labels=np.full(60, -1)))


def test_measure_reports_clusters_only_if_asked():
    found = measure(features(0.1), parts=["clusters"], progress=False)
    assert found.values("features", ("cluster_accuracy", "projector")) == [1.0]
    labels = np.repeat([0, 1, 2], 20)
    labels[::7] = 1
    (one,) = measure(features(0.1, labels), parts=["clusters"], progress=False).columns["features"]
    figure = one.figures["cluster_nmi", "projector"]
    assert 0 < figure.interval[0] < figure.value < figure.interval[1] <= 1
    usual = measure(features(0.1), parts=["structure"], progress=False)
    assert "k-means" not in usual.markdown()
