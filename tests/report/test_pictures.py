"""The sheets of strongest samples show representative features, neither the best nor the worst."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from nonneg.features import Features
from nonneg.report import write_pictures
from nonneg.report._figures import curves

LABELS = np.arange(200) % 10


def features_of(active: int, labels=LABELS, side: int = 8) -> Features:
    """20 features, each active on `active` samples of one class; the brightness of an image is its class."""
    codes = np.zeros((200, 20), np.float32)
    for feature in range(20):
        codes[np.flatnonzero(feature % 10 == LABELS)[:active], feature] = 20 - feature
    shades = (LABELS * 25).astype(np.uint8)
    return Features(codes, labels=labels, pixels=np.tile(shades[:, None, None, None], (1, side, side, 3)))


def sheet(file):
    return np.asarray(Image.open(io.BytesIO(file.read_bytes())))


def test_rows_are_features_evenly_spaced_over_the_ranking(tmp_path):
    features = features_of(active=12)
    caption, file = next(iter(write_pictures(tmp_path, {"NCL": features}).items()))
    assert "20 features" in caption and "100% of the 10" in caption
    pixels = sheet(file)
    assert pixels.shape == (8 * 66 - 2, 10 * 66 - 2, 3)
    ranking = np.argsort(-features.expected_activation, kind="stable")
    assert (pixels[32::66, 32, 0] // 25).tolist() == (ranking[[0, 3, 5, 8, 11, 14, 16, 19]] % 10).tolist()
    assert (pixels[32::66, 32::66, 0] == pixels[32::66, 32:33, 0]).all()  # all ten samples of a row belong to its class


def test_features_with_too_few_active_samples_are_not_drawn(tmp_path):
    written = write_pictures(tmp_path, {"NCL": features_of(active=9)})
    assert not any(file.suffix == ".png" for file in written.values())


def test_unlabelled_samples_do_not_count_as_a_class(tmp_path):
    labels = LABELS.copy()
    labels[LABELS % 2 == 0] = -1  # all samples of every other feature
    labels[LABELS == 1] = np.arange(20) % 2  # samples of features 1 and 11 belong to two classes in equal parts
    caption = next(iter(write_pictures(tmp_path, {"NCL": features_of(12, labels)})))
    assert f"{np.mean([1, 1, 1, 1, 0.5]):.0%} of the 10" in caption  # features 3, 5, 7, 9 and 1


def test_small_images_are_enlarged_without_smoothing(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8, 3), np.uint8)
    features = Features(np.eye(10, dtype=np.float32)[LABELS], labels=LABELS, pixels=images)
    pixels = sheet(next(iter(write_pictures(tmp_path, {"NCL": features}).values())))
    np.testing.assert_array_equal(pixels[:64, :64], np.repeat(np.repeat(images[0], 8, 0), 8, 1))


@pytest.mark.parametrize("doubling", [False, True])
def test_doubling_makes_the_axis_logarithmic(doubling):
    panels = {"one": {"line": [(1, 0.0), (2, 0.5), (4, 1.0)]}}
    point = r"([\d.]+) [\d.]+ \n"
    line = re.search(f'd="M {point}L {point}L {point}"', curves(panels, "x", "y", doubling))
    first, second, third = map(float, line.groups())
    assert (third - second) / (second - first) == pytest.approx(1 if doubling else 2, rel=0.01)
