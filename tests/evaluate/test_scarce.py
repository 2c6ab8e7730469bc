"""Few labels, noisy labels and nearest neighbours."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from nonneg import Features, InputError
from nonneg.evaluate import few_labels, linear_probe, neighbour_hits, noisy_labels


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 4
    codes = rng.normal(size=(4, 10))[labels] + 1.5 * rng.normal(size=(1200, 10))
    codes = codes.astype(np.float32)
    return Features(codes[:800], labels=labels[:800]), Features(codes[800:], labels=labels[800:])


def test_all_labels_without_noise_give_the_plain_probe(split):
    plain = linear_probe(*split)
    assert few_labels(*split, share=1.0) == plain == noisy_labels(*split, rate=0.0)


def test_fewer_and_noisier_labels_reduce_accuracy(split):
    plain = linear_probe(*split).accuracy
    assert few_labels(*split, share=0.02).accuracy < plain - 0.03
    rates = [noisy_labels(*split, rate=rate).accuracy for rate in (0.2, 0.97)]
    assert plain + 0.03 > rates[0] > rates[1] + 0.1


def test_separable_classes_survive_heavy_label_noise():
    # With 90% replaced, the correct one of four classes is still the most frequent.
    labels = np.arange(2000) % 4
    clear = Features(np.eye(4, dtype=np.float32)[labels], labels=labels)
    assert noisy_labels(clear, clear, rate=0.9).accuracy == 1.0


def test_the_seed_decides_which_labels_are_kept(split):
    first, again, other = (few_labels(*split, share=0.02, seed=seed).hits for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_noise_leaves_unlabelled_samples_unlabelled(split):
    train, test = split
    hidden = Features(train.codes, labels=np.where(np.arange(800) < 400, -1, train.labels))
    half = Features(train.codes[400:], labels=train.labels[400:])
    assert noisy_labels(hidden, test, rate=0.0) == linear_probe(half, test)


@pytest.mark.parametrize(("call", "value"), [(few_labels, 0.0), (few_labels, 1.5), (noisy_labels, 1.0)])
def test_shares_out_of_range_are_errors(split, call, value):
    with pytest.raises(InputError, match=f"is {value}, expected"):
        call(*split, value)


def test_tied_neighbours_share_the_vote_in_any_order():
    rng = np.random.default_rng(0)
    kinds, labels = rng.integers(0, 6, 300), rng.integers(0, 3, 300)
    codes = np.eye(6, dtype=np.float32)[kinds]
    test = Features(np.vstack((np.eye(6), np.zeros((1, 6)))).astype(np.float32), labels=np.zeros(7, np.int64))
    order = rng.permutation(300)
    hits = [neighbour_hits(Features(codes[rows], labels=labels[rows]), test, k=20) for rows in (np.arange(300), order)]
    # All samples of a kind tie, and all samples tie for an empty code: the most frequent class is predicted.
    most_frequent = [np.bincount(labels[kinds == kind]).argmax() for kind in range(6)] + [np.bincount(labels).argmax()]
    assert hits[0].tolist() == hits[1].tolist() == [label == 0 for label in most_frequent]


def test_neighbours_vote_as_in_scikit_learn(split):
    train, test = split

    def unit(features):
        return features.codes / np.linalg.norm(features.codes, axis=1, keepdims=True)

    def weights(distance):
        return np.exp(-(distance**2) / 2 / 0.1)  # 1 - cosine is half the squared distance

    theirs = KNeighborsClassifier(15, weights=weights).fit(unit(train), train.labels)
    hits = neighbour_hits(train, test, k=15, temperature=0.1)
    assert np.array_equal(hits, theirs.predict(unit(test)) == test.labels)
    assert neighbour_hits(train, test, k=5000).shape == (400,)
    names = [Features(train.codes, labels=train.labels, label_names="abcd")]
    names.append(Features(test.codes, labels=3 - test.labels, label_names="dcba"))
    assert np.array_equal(neighbour_hits(*names, k=15, temperature=0.1), hits)
    with pytest.raises(InputError, match="k is 0"):
        neighbour_hits(train, test, k=0)


def test_neighbours_of_another_width_are_rejected():
    narrow, wide = (Features(np.ones((4, width), np.float32), labels=[0, 0, 1, 1]) for width in (2, 3))
    with pytest.raises(InputError, match="train has 2 features and test 3"):
        neighbour_hits(narrow, wide)
