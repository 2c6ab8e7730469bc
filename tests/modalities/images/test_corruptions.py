"""Corruptions are stronger with each severity, independent of the batch, and do what their names say."""

import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter
from scipy.stats import poisson as scipy_poisson

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.modalities.images import Images, open_source
from nonneg.modalities.images.corruptions import KINDS, corrupt, corrupted_source
from nonneg.modalities.images.corruptions._jpeg import jpeg
from nonneg.modalities.images.corruptions._kinds import poisson
from nonneg.models import Model, ModelConfig

SHAPES = torch.from_numpy(open_source("shapes", "test").samples[::8])
DIGITS = torch.from_numpy(open_source("digits", "test").samples[:100])
RANDOM = ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "motion_blur", "fog", "snow", "elastic")


def difference(images, kind, severity):
    return float((corrupt(images, kind, severity).float() - images.float()).abs().mean())


@pytest.mark.parametrize("kind", KINDS)
def test_a_higher_severity_changes_more(kind):
    changes = [difference(SHAPES, kind, severity) for severity in range(1, 6)]
    assert changes[0] > 0.1
    assert all(less < more for less, more in pairwise(changes)), changes


@pytest.mark.parametrize("kind", KINDS)
def test_small_grey_images_are_corrupted(kind):
    corrupted = corrupt(DIGITS, kind, 1)
    assert corrupted.shape == DIGITS.shape and corrupted.dtype == torch.uint8
    assert 1 < difference(DIGITS, kind, 1) < difference(DIGITS, kind, 5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 9, 3), (20, 7, 3), (70, 100, 1)])
def test_shape_and_type_are_kept(kind, shape):
    images = torch.randint(0, 256, (2, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    corrupted = corrupt(images, kind, 5)
    assert corrupted.shape == images.shape and corrupted.dtype == torch.uint8


@pytest.mark.parametrize("kind", KINDS)
def test_corruption_does_not_depend_on_the_batch(kind):
    whole = corrupt(SHAPES, kind, 4, seed=7)
    order = torch.randperm(len(SHAPES), generator=torch.Generator().manual_seed(0))
    for rows in (order[:13], order[13:14], order[14:]):
        assert torch.equal(corrupt(SHAPES[rows], kind, 4, seed=7, samples=rows), whole[rows])


def test_a_batch_that_is_corrupted_in_blocks_equals_its_parts():
    many = SHAPES.repeat(40, 1, 1, 1)
    assert many.numel() > 2**22  # the size of a block
    whole = corrupt(many, "gaussian_noise", 4)
    assert torch.equal(whole[2000:], corrupt(many[2000:], "gaussian_noise", 4, samples=torch.arange(2000, len(many))))


@pytest.mark.parametrize("kind", KINDS)
def test_only_random_kinds_differ_between_seeds_and_samples(kind):
    same = SHAPES[:1].expand(2, -1, -1, -1)
    first, second = corrupt(same, kind, 3, seed=0)
    other_seed = corrupt(same, kind, 3, seed=1)[0]
    assert torch.equal(first, second) == torch.equal(first, other_seed) == (kind not in RANDOM)


def test_strengths_are_interpolated_between_32_and_224_pixels():
    def noise(side):
        grey = torch.full((4, side, side, 1), 128, dtype=torch.uint8)
        return float((corrupt(grey, "gaussian_noise", 1).double() / 255).std())

    assert noise(16) == pytest.approx(0.04, rel=0.1)
    assert noise(32) == pytest.approx(0.04, rel=0.05)
    assert noise(85) == pytest.approx((0.04 * 0.08) ** 0.5, rel=0.05)
    assert noise(224) == pytest.approx(0.08, rel=0.05)
    assert noise(300) == pytest.approx(0.08, rel=0.05)


def test_shot_noise_draws_poisson_counts():
    rng = np.random.default_rng(0)
    rate, u = rng.uniform(0, 60, 100_000).astype(np.float32), rng.uniform(1e-6, 1 - 1e-6, 100_000).astype(np.float32)
    ours = poisson(torch.from_numpy(rate), torch.from_numpy(u)).numpy()
    theirs = scipy_poisson.ppf(u.astype(float), rate.astype(float))
    few = rate <= 20
    assert (ours != theirs)[few].mean() < 1e-4
    assert (ours != theirs)[~few].mean() < 0.01 and np.abs(ours - theirs).max() <= 1


def test_impulse_noise_is_black_and_white_in_equal_shares():
    grey = torch.full((200, 32, 32, 3), 100, dtype=torch.uint8)
    corrupted = corrupt(grey, "impulse_noise", 5)
    for value in (0, 255):
        assert float((corrupted == value).float().mean()) == pytest.approx(0.035, rel=0.05)
    assert float((corrupted == 100).float().mean()) == pytest.approx(0.93, rel=0.01)


def test_gaussian_blur_equals_scipys():
    images = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    theirs = gaussian_filter(images.double().numpy(), (0, 1, 1, 0), mode="nearest")
    assert np.abs(corrupt(images, "gaussian_blur", 5).numpy() - theirs).max() <= 0.51


def test_motion_blur_leaves_a_trail_on_one_side():
    dot = torch.zeros(1, 31, 31, 1, dtype=torch.uint8)
    dot[0, 15, 15] = 255
    blurred = corrupt(dot, "motion_blur", 5)[0, :, :, 0].double()
    assert float(blurred.sum()) == pytest.approx(255, rel=0.05)
    assert float(blurred[:, 16:].sum()) > 100 and float(blurred[:, :15].sum()) == 0


def test_zoom_blur_keeps_the_centre_and_blurs_outwards():
    ring = torch.zeros(1, 33, 33, 1, dtype=torch.uint8)
    ring[0, 16, 16] = ring[0, 16, 26] = 255
    blurred = corrupt(ring, "zoom_blur", 5)[0, 16, :, 0]
    assert blurred[16] > 230
    assert blurred[25] == 0 and bool((blurred[26:29] > 0).all())


def test_brightness_raises_the_value_and_keeps_the_hue():
    images = torch.tensor([[200, 100, 50], [0, 0, 0], [255, 0, 0]], dtype=torch.uint8).view(1, 1, 3, 3)
    brighter = corrupt(images, "brightness", 4)[0, 0]  # 0.2, which is 51 levels
    assert brighter.tolist() == [[251, 126, 63], [51, 51, 51], [255, 0, 0]]


def test_contrast_keeps_each_channels_mean():
    corrupted = corrupt(SHAPES, "contrast", 2).double()
    assert float((corrupted.mean((1, 2)) - SHAPES.double().mean((1, 2))).abs().max()) < 0.5
    assert float(corrupted.std((1, 2)).mean() / SHAPES.double().std((1, 2)).mean()) == pytest.approx(0.5, abs=0.01)


def test_pixelate_equals_pillows_box_filter():
    images = SHAPES[:8]
    theirs = []
    for image in images.numpy():
        coarse = Image.fromarray(image).resize((15, 15), Image.Resampling.BOX)  # 0.65 of 24
        theirs.append(np.asarray(coarse.resize((24, 24), Image.Resampling.BOX)))
    assert np.abs(corrupt(images, "pixelate", 5).numpy().astype(int) - np.stack(theirs)).max() <= 1


@pytest.mark.parametrize("quality", [80, 40, 10])
@pytest.mark.parametrize("images", [SHAPES, DIGITS], ids=["colours", "grey"])
def test_jpeg_loses_the_same_as_pillows_jpeg(images, quality):
    theirs = []
    for image in images.numpy():
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
        theirs.append(np.asarray(Image.open(file)).reshape(image.shape))
    ours = (jpeg(images.permute(0, 3, 1, 2) / 255, lambda n: torch.empty(0), quality).clamp(0, 1) * 255).round()
    apart = np.abs(ours.permute(0, 2, 3, 1).numpy() - np.stack(theirs)).mean()
    lost = np.abs(np.stack(theirs).astype(float) - images.numpy()).mean()
    assert apart < 0.2 * lost and apart < 1


def test_elastic_moves_pixels_by_the_given_distance():
    ramp = torch.arange(0, 256, 4, dtype=torch.uint8).repeat(20, 64, 1)[..., None]  # 4 levels per pixel
    moved = (corrupt(ramp, "elastic", 3).double() - ramp.double())[:, :, 8:-8] / 4
    strength = 0.9 * (3.5 / 0.9) ** (np.log(2) / np.log(7))  # between 32 and 224 pixels
    assert float(moved.square().mean().sqrt()) == pytest.approx(strength / 2**0.5, rel=0.15)


@pytest.mark.parametrize(
    ("kind", "severity", "message"),
    [
        ("rain", 1, "kind is 'rain'"),
        ("fog", 0, "severity is 0"),
        ("fog", 6, "severity is 6"),
        ("fog", 2.0, "severity is 2.0"),
    ],
)
def test_unknown_kinds_and_severities_are_errors(kind, severity, message):
    with pytest.raises(InputError, match=message):
        corrupt(SHAPES, kind, severity)
    with pytest.raises(InputError, match=message):
        corrupted_source(open_source("digits", "test"), kind, severity)


@pytest.mark.parametrize("images", [SHAPES.float(), SHAPES[0], SHAPES[..., :2]], ids=["floats", "one", "two channels"])
def test_images_of_another_type_or_shape_are_errors(images):
    with pytest.raises(InputError, match=r"images are (float32|uint8).*uint8"):
        corrupt(images, "fog", 1)


def test_the_number_of_sample_numbers_must_be_the_number_of_images():
    with pytest.raises(InputError, match=r"samples .*\(3,\).*\(64,\)"):
        corrupt(SHAPES, "fog", 1, samples=torch.arange(3))


def test_a_corrupted_source_is_indexed_by_rows():
    source = open_source("digits", "test")
    corrupted = corrupted_source(source, "snow", 3, seed=5, device="cpu")
    whole = corrupt(torch.from_numpy(source.samples), "snow", 3, seed=5).numpy()
    assert corrupted.samples.shape == source.samples.shape and len(corrupted) == len(source)
    rows = np.array([5, 300, 7])
    np.testing.assert_array_equal(corrupted.samples[20:30], whole[20:30])
    np.testing.assert_array_equal(corrupted.samples[rows], whole[rows])
    np.testing.assert_array_equal(corrupted.samples[source.labels == 3], whole[source.labels == 3])
    assert corrupted.samples[3:3].shape == (0, 8, 8, 1)
    taken = corrupted.take(rows)
    np.testing.assert_array_equal(taken.samples[:], whole[rows])
    assert taken.ids == tuple(source.ids[row] for row in rows)


def test_a_corrupted_source_is_embedded_like_any_other():
    source = open_source("digits", "test")
    model = Model(ModelConfig("convnet_8", Images(channels=1), features=16))
    lazily = model.embed(corrupted_source(source, "shot_noise", 2, device="cpu"), batch_size=100)
    images = corrupt(torch.from_numpy(source.samples), "shot_noise", 2).numpy()
    at_once = model.embed(replace(source, samples=images), batch_size=100)
    assert np.array_equal(lazily.labels, source.labels) and lazily.provenance["source"] == "digits/test/shot_noise-2"
    np.testing.assert_array_equal(dense(lazily.codes), dense(at_once.codes))
    assert [lazily.media(row) for row in (0, 200)] == [at_once.media(row) for row in (0, 200)]


def test_a_corrupted_memory_map_equals_a_corrupted_array(tmp_path):
    source = open_source("digits", "test")
    np.save(tmp_path / "images.npy", source.samples)
    mapped = replace(source, samples=np.load(tmp_path / "images.npy", mmap_mode="r"))
    corrupted = corrupted_source(mapped, "fog", 2, device="cpu")
    np.testing.assert_array_equal(corrupted.samples[100:150], corrupted_source(source, "fog", 2).samples[100:150])
