"""The sheets of strongest samples show features as they are, not the best or the worst of them."""

import io

import numpy as np
from PIL import Image

from nonneg.features import Features
from nonneg.models._thumbnails import thumbnails
from nonneg.report import write_pictures


def features_of(active: int) -> Features:
    """20 features of 200 samples of 10 classes; each is active on so many samples of one class."""
    labels = np.arange(200) % 10
    codes = np.zeros((200, 20), np.float32)
    for feature in range(20):
        codes[np.flatnonzero(labels == feature % 10)[:active], feature] = 20 - feature
    shades = (np.arange(200) % 10 * 25).astype(np.uint8)
    media = thumbnails(np.tile(shades[:, None, None, None], (1, 8, 8, 3)))
    return Features(codes, labels=labels, media=media)


def sheet(file):
    return np.asarray(Image.open(io.BytesIO(file.read_bytes())))


def test_rows_are_features_evenly_over_the_ranking(tmp_path):
    features = features_of(active=12)
    caption, file = next(iter(write_pictures(tmp_path, {"NCL": features}).items()))
    assert caption.startswith("NCL: a row a feature and its 10 strongest") and "100% of the 10 are of one" in caption
    pixels = sheet(file)
    assert pixels.shape == (8 * 66 - 2, 10 * 66 - 2, 3)
    ranking = np.argsort(-features.expected_activation, kind="stable")
    assert (pixels[32::66, 32, 0] // 25).tolist() == (ranking[[0, 3, 5, 8, 11, 14, 16, 19]] % 10).tolist()
    assert (pixels[32::66, 32::66, 0] == pixels[32::66, 32:33, 0]).all()  # all ten of a row are of its class


def test_features_with_fewer_samples_than_a_row_are_not_drawn(tmp_path):
    caption, file = next(iter(write_pictures(tmp_path, {"NCL": features_of(active=9)}).items()))
    assert "none of the 10" in caption and (sheet(file) == 255).all()
