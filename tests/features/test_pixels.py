"""Images as plain pixels: stored as they are, encoded when asked for."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from nonneg.errors import InputError
from nonneg.features import Features, journal, verify
from nonneg.manifest import with_checksum


def pixels_of(samples, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (samples, 5, 7, channels), np.uint8)


def decoded(media):
    assert media.startswith(b"\x89PNG")
    return np.asarray(Image.open(io.BytesIO(media)))


@pytest.fixture
def features(dense):
    return Features(dense, pixels=pixels_of(30), names={2: "wheels"})


def test_pixels_survive_a_round_trip_as_a_memory_map(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    loaded = Features.load(folder)
    np.testing.assert_array_equal(loaded.pixels, pixels_of(30))
    np.testing.assert_array_equal(verify(folder).pixels, pixels_of(30))
    assert loaded.pixels.base is not None and not loaded.pixels.flags.writeable
    [file] = folder.glob("pixels-*.npy")
    np.testing.assert_array_equal(np.load(file), pixels_of(30))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_media_is_a_png_of_the_pixels(channels, dense):
    pixels = pixels_of(30, channels)
    features = Features(dense, pixels=pixels)
    np.testing.assert_array_equal(decoded(features.media(-1)), pixels[-1].squeeze())
    with pytest.raises(IndexError):
        features.media(30)


def test_features_with_pixels_are_images(features, dense):
    assert (features.kind, features.has_media) == ("images", True)
    assert Features(dense, media=[b"x"] * 30).has_media
    assert Features(dense, media=[b"x"] * 30).pixels is None
    plain = Features(dense, texts=["x"] * 30)
    assert (plain.kind, plain.has_media, plain.pixels, plain.media(0)) == ("texts", False, None, None)


def test_pixels_follow_their_samples(features, tmp_path):
    rows = np.array([7, 3, 3, 29])
    taken = features.take(rows).take([2, 0, 3])
    np.testing.assert_array_equal(decoded(taken.media(1)), pixels_of(30)[7])
    np.testing.assert_array_equal(taken.pixels, pixels_of(30)[[3, 7, 29]])
    assert not taken.pixels.flags.writeable
    np.testing.assert_array_equal(Features.load(taken.save(tmp_path / "x")).pixels, pixels_of(30)[[3, 7, 29]])


def test_pixels_are_kept_with_other_columns_and_names(features):
    for other in (features.with_columns([2, -1]), features.with_names({0: "doors"})):
        assert other.pixels is features.pixels
        assert other.media(4) == features.media(4)


def test_taking_rows_of_pixels_on_disk_reads_none_of_them(dense, tmp_path):
    folder = Features(dense, pixels=np.zeros((30, 1000, 1000, 3), np.uint8)).save(tmp_path / "x.features")
    program = """
import re, sys
from nonneg.features import Features
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
features = Features.load(sys.argv[1])
before = peak()
taken = features.take(range(29))
taken.feature(0)
print(peak() - before)
taken.media(0)
"""
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 70  # MB, most of them imports; the pixels have 90


def test_a_card_shows_pixels_as_png(features):
    card = features.feature(2, top=3)
    assert list(card.media) == [features.media(row) for row in card.top]
    assert card._repr_html_().count("data:image/png;base64,") == 3


def test_names_stay_when_only_the_images_change(features, dense, tmp_path):
    folder = features.save(tmp_path / "x.features")
    journal(folder).record({0: "doors"})
    Features(dense, pixels=pixels_of(30, seed=1)).save(folder, overwrite=True)
    assert dict(Features.load(folder).names) == {0: "doors", 2: "wheels"}
    assert len(list(folder.glob("pixels-*.npy"))) == 1  # the old pixels are removed


@pytest.mark.parametrize(
    "pixels",
    [
        pixels_of(29),
        pixels_of(30).astype(np.float32),
        pixels_of(30)[..., 0],
        pixels_of(30, 5),
        pixels_of(30)[:, :0],
    ],
)
def test_pixels_of_another_shape_or_type_are_rejected(pixels, dense):
    with pytest.raises(InputError, match=rf"pixels are {pixels.dtype} of shape \(\d+, .*expected uint8"):
        Features(dense, pixels=pixels)


def test_pixels_and_media_together_are_rejected(dense):
    with pytest.raises(InputError, match="media and pixels"):
        Features(dense, pixels=pixels_of(30), media=[b"x"] * 30)


def test_the_pixels_given_stay_writeable(dense):
    pixels = pixels_of(30)
    Features(dense, pixels=pixels)
    pixels[0] = 0


def test_damaged_pixels_are_found_by_verify(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    [file] = folder.glob("pixels-*.npy")
    with file.open("r+b") as opened:
        opened.seek(-1, 2)
        opened.write(b"\x00" if features.pixels[-1, -1, -1, -1] else b"\x01")
    with pytest.raises(InputError, match=f"{file.name} is damaged"):
        verify(folder)


@pytest.mark.parametrize("hostile", ["five channels", "media too"])
def test_a_hostile_folder_with_pixels_is_rejected(hostile, features, dense, tmp_path):
    folder = features.save(tmp_path / "x.features")
    other = Features(dense, media=[b"x"] * 30).save(tmp_path / "y.features")
    meta, entries = (json.loads((each / "meta.json").read_text()) for each in (folder, other))
    meta.pop("sha256")
    file = folder / meta["files"]["pixels"]["file"]
    if hostile == "five channels":
        np.save(file, pixels_of(30, 5))
        meta["files"]["pixels"]["bytes"] = file.stat().st_size
    else:
        meta["files"]["samples"] = entry = entries["files"]["samples"]
        (other / entry["file"]).rename(folder / entry["file"])
    (folder / "meta.json").write_bytes(with_checksum(meta))
    with pytest.raises(InputError, match=f"{file.name} is damaged"):
        Features.load(folder)
