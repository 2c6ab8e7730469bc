"""Opening a run's data: how data without splits is divided, and that dividing it copies nothing."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from nonneg import InputError
from nonneg.modalities.images import Images, open_source
from nonneg.models import Model, ModelConfig
from nonneg.trials import open_subject, split_sources

DIGITS = open_source("digits", "train")
MODEL = Model(ModelConfig("convnet_8", Images(channels=1), features=16))


def divided(tmp_path, labels):
    np.savez(tmp_path / "digits.npz", images=DIGITS.samples[: len(labels)], labels=labels)
    return split_sources(MODEL, str(tmp_path / "digits.npz"))


def test_data_without_splits_is_divided_80_to_20_by_class(tmp_path):
    train, test = divided(tmp_path, np.arange(100) % 5)
    assert np.bincount(train.labels).tolist() == [16] * 5 and np.bincount(test.labels).tolist() == [4] * 5
    assert not set(train.ids) & set(test.ids)


def test_classes_with_one_sample_are_in_the_train_part(tmp_path):
    labels = np.arange(100) % 5
    labels[[3, 40]] = 5, 6
    train, test = divided(tmp_path, labels)
    assert set(train.labels) == set(range(7)) and set(test.labels) == set(range(5))


def test_every_class_with_two_samples_is_in_both_parts(tmp_path):
    train, test = divided(tmp_path, np.arange(40) % 20)
    assert set(train.labels) == set(test.labels) == set(range(20))


def test_every_rare_class_with_two_samples_is_in_both_parts(tmp_path):
    train, test = divided(tmp_path, np.r_[np.zeros(94, int), 1, 1, 2, 2, 3, 3])
    assert set(train.labels) == set(test.labels) == {0, 1, 2, 3}
    assert not set(train.ids) & set(test.ids) and len(train) + len(test) == 100


@pytest.mark.parametrize("labels", [np.arange(50), np.full(50, -1), np.r_[np.full(49, -1), 3]])
def test_data_without_two_samples_of_a_class_is_divided_at_random(tmp_path, labels):
    train, test = divided(tmp_path, labels)
    assert len(train) == 40 and len(test) == 10


def test_dividing_data_on_disk_copies_no_images(tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((200, 128, 128, 1), np.uint8))
    wide = np.load(tmp_path / "wide.npy", mmap_mode="r")
    source = replace(DIGITS.take(np.arange(200)), samples=wide)
    tracemalloc.start()
    half = source.take(np.arange(0, 200, 2))
    assert half.samples[np.array([3, 4])].shape == (2, 128, 128, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < wide.nbytes / 10


@pytest.mark.parametrize("given", ["train", "labels", "train_labels"])
def test_a_run_brings_its_own_labels_and_train_split(tmp_path, given):
    (tmp_path / "config.toml").touch()
    with pytest.raises(InputError, match=f"{given} is x.npy"):
        open_subject(str(tmp_path), **{given: "x.npy"})
