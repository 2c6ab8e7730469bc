import numpy as np
import pytest

from nonneg import Features
from nonneg.errors import InputError
from nonneg.evaluate import linear_probe


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


def test_features_without_labels_are_refused():
    with pytest.raises(InputError, match="the test features have no labels"):
        linear_probe(blobs(0), Features(np.ones((4, 3), np.float32)))
