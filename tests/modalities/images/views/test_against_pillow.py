"""Every operation agrees with Pillow's to 2/255 on average; parameters have torchvision's distributions."""

import io
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter, ImageOps
from scipy import stats

from benchmarks import pillow_views
from nonneg.modalities.images.sources import decode_image
from nonneg.modalities.images.views import ViewConfig, draw, make_views, resize
from nonneg.training import load_recipe

COUNT, SIDE = 120, 48
CONFIG = replace(load_recipe("cifar10").modality.views, solarise_p=0.2)
NOTHING = ViewConfig()
TOLERANCE = 2.0


@pytest.fixture(scope="module")
def pictures():
    """Coloured squares with sharp edges and noise, which are harder for filters than photographs."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (COUNT, 6, 6, 3))
    fine = np.repeat(np.repeat(coarse, SIDE // 6, 1), SIDE // 6, 2) + rng.normal(0, 12, (COUNT, SIDE, SIDE, 3))
    return fine.clip(0, 255).astype(np.uint8)


def drawn(config, shape=(3, SIDE, SIDE), count=COUNT):
    return draw(config, torch.arange(count), 0, seed=5, epoch=1, shape=shape)


def ours(pictures, parameters, config):
    x = torch.from_numpy(pictures).permute(0, 3, 1, 2)
    return make_views(x, parameters, config).permute(0, 2, 3, 1).numpy() * 255


def difference(mine, pillows):
    """Mean absolute difference of each picture, in steps of 1/255."""
    return np.abs(mine - np.stack([np.asarray(picture, np.float32) for picture in pillows])).mean((1, 2, 3))


def pillow_parameters(p, i):
    """Convert row i of the drawn parameters for Pillow."""
    values = [float(getattr(p, name)[i]) for name in pillow_views.JITTERS]
    order = sorted(range(4), key=lambda k: int(p.rank[i, k]))
    neutral = (1.0, 1.0, 1.0, 0.0)
    return pillow_views.Parameters(
        *(int(getattr(p, name)[i]) for name in ("top", "left", "height", "width")),
        flip=bool(p.flip[i]),
        jitters=[(pillow_views.JITTERS[k], values[k]) for k in order if values[k] != neutral[k]],
        grey=bool(p.grey[i]),
        sigma=float(p.sigma[i]),
        solarise=bool(p.solarised[i]),
    )


@pytest.mark.parametrize("size", [SIDE, 20, 75], ids=["same size", "smaller", "larger"])
def test_crop_agrees_with_pillow(pictures, size):
    config = replace(NOTHING, crop_least=0.08, size=size)
    p = drawn(config)
    pillows = [
        pillow_views.crop(Image.fromarray(picture), pillow_parameters(p, i), (size, size))
        for i, picture in enumerate(pictures)
    ]
    assert difference(ours(pictures, p, config), pillows).max() < TOLERANCE


def test_crop_of_oblong_images_agrees_with_pillow(pictures):
    oblong = pictures[:, :30]
    config = replace(NOTHING, crop_least=0.08, size=24)
    p = drawn(config, (3, 30, SIDE))
    pillows = [
        pillow_views.crop(Image.fromarray(picture), pillow_parameters(p, i), (24, 24))
        for i, picture in enumerate(oblong)
    ]
    assert difference(ours(oblong, p, config), pillows).max() < TOLERANCE


@pytest.mark.parametrize("name", pillow_views.JITTERS)
def test_colour_operations_agree_with_pillow(pictures, name):
    config = replace(NOTHING, **{name: getattr(CONFIG, name)})
    p = drawn(config)
    amounts = getattr(p, name).tolist()
    assert max(amounts) - min(amounts) > 0.3
    pillows = [pillow_views.jitter(Image.fromarray(x), name, a) for x, a in zip(pictures, amounts, strict=True)]
    assert difference(ours(pictures, p, config), pillows).max() < TOLERANCE


def test_hue_of_pure_colours_agrees_with_pillow():
    """With full saturation, a step of the hue makes the largest difference."""
    rng = np.random.default_rng(1)
    hsv = np.stack([rng.integers(0, 256, (COUNT, 12, 12)), *np.full((2, COUNT, 12, 12), 255)], -1).astype(np.uint8)
    pure = np.stack([np.asarray(Image.fromarray(x, "HSV").convert("RGB")) for x in hsv])
    config = replace(NOTHING, hue=0.5)
    p = drawn(config, (3, 12, 12))
    pillows = [pillow_views.jitter(Image.fromarray(x), "hue", float(turn)) for x, turn in zip(pure, p.hue, strict=True)]
    assert difference(ours(pure, p, config), pillows).max() < TOLERANCE


def test_the_affine_map_agrees_with_pillow(pictures):
    config = replace(NOTHING, rotate=25.0, scale=0.3, shift=0.15, shear=15.0)
    p = drawn(config)
    wide = SIDE // 2  # padding by repeated edges, which Pillow's own transform does not do
    pillows = []
    for i, picture in enumerate(pictures):
        angle, size, shear = (float(getattr(p, name)[i]) for name in ("angle", "size", "shear"))
        sheared = np.array([[1, -np.tan(shear)], [0, 1]])
        turned = size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        back = np.linalg.inv(turned @ sheared)
        middle = np.array([SIDE / 2, SIDE / 2])
        shift = SIDE * np.array([float(p.shift_x[i]), float(p.shift_y[i])])
        offset = middle + wide - back @ (middle + shift)
        padded = Image.fromarray(np.pad(picture, ((wide, wide), (wide, wide), (0, 0)), mode="edge"))
        data = (*back[0], offset[0], *back[1], offset[1])
        pillows.append(padded.transform((SIDE, SIDE), Image.Transform.AFFINE, data, Image.Resampling.BILINEAR))
    assert difference(ours(pictures, p, config), pillows).max() < TOLERANCE


def test_colour_operations_are_applied_in_the_drawn_order(pictures):
    config = replace(NOTHING, **{name: getattr(CONFIG, name) for name in pillow_views.JITTERS})
    p = drawn(config)
    assert len({tuple(row) for row in p.rank.tolist()}) > 20
    off = ours(pictures, p, config)
    pillows, swapped = [], []
    for i, picture in enumerate(pictures):
        jitters = pillow_parameters(p, i).jitters
        for order, made in ((jitters, pillows), (jitters[::-1], swapped)):
            image = Image.fromarray(picture)
            for name, amount in order:
                image = pillow_views.jitter(image, name, amount)
            made.append(image)
    assert difference(off, pillows).mean() < TOLERANCE
    assert difference(off, swapped).mean() > 3 * TOLERANCE


def test_grey_agrees_with_pillow(pictures):
    config = replace(NOTHING, grey_p=1.0)
    pillows = [Image.fromarray(picture).convert("L").convert("RGB") for picture in pictures]
    assert difference(ours(pictures, drawn(config), config), pillows).max() < TOLERANCE


def test_blur_agrees_with_pillow(pictures):
    config = replace(NOTHING, blur_p=1.0)
    p = drawn(config)
    pillows = [
        Image.fromarray(picture).filter(ImageFilter.GaussianBlur(float(sigma)))
        for picture, sigma in zip(pictures, p.sigma, strict=True)
    ]
    assert difference(ours(pictures, p, config), pillows).max() < TOLERANCE


def test_solarise_agrees_with_pillow(pictures):
    config = replace(NOTHING, solarise_p=1.0)
    pillows = [ImageOps.solarize(Image.fromarray(picture), 128) for picture in pictures]
    assert difference(ours(pictures, drawn(config), config), pillows).max() < 0.01


def test_whole_views_agree_with_pillow(pictures):
    p = drawn(CONFIG)
    pillows = [
        pillow_views.view(Image.fromarray(picture), pillow_parameters(p, i), (SIDE, SIDE))
        for i, picture in enumerate(pictures)
    ]
    # Pillow rounds after each of up to eight operations, and solarising amplifies differences about one half.
    smooth = ~p.solarised.numpy()
    off = difference(ours(pictures, p, CONFIG), pillows)
    assert off[smooth].mean() < TOLERANCE
    assert np.median(off) < TOLERANCE


@pytest.mark.parametrize(
    ("height", "width", "size"), [(20, 16, 12), (31, 57, 20), (10, 12, 24), (9, 9, 9), (40, 60, 40)]
)
def test_resizing_and_cropping_agrees_with_decoding_at_that_size(height, width, size):
    images = np.random.default_rng(0).integers(0, 256, (8, height, width, 3), dtype=np.uint8)
    decoded = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        decoded.append(decode_image(file.getvalue(), size))
    resized = resize(torch.from_numpy(images).permute(0, 3, 1, 2).float(), size, size).permute(0, 2, 3, 1).numpy()
    assert difference(resized, decoded).max() < TOLERANCE


# Distributions


@pytest.fixture(scope="module")
def many():
    """Our parameters and those of torchvision's algorithm, of the same number of views."""
    count = 6000
    p = drawn(CONFIG, (3, 32, 40), count)
    rng = random.Random(1)
    return p, [pillow_views.parameters(CONFIG, 32, 40, rng) for _ in range(count)]


def same_distribution(a, b):
    return stats.ks_2samp(np.asarray(a, float), np.asarray(b, float)).pvalue > 0.001


@pytest.mark.parametrize("name", ["top", "left", "height", "width"])
def test_crops_have_torchvisions_distribution(many, name):
    p, others = many
    assert same_distribution(getattr(p, name), [getattr(other, name) for other in others])


def test_crops_lie_inside_the_image(many):
    p, _ = many
    assert (p.top >= 0).all() and (p.top + p.height <= 32).all()
    assert (p.left >= 0).all() and (p.left + p.width <= 40).all()


def test_the_centre_is_used_if_no_crop_fits():
    config = ViewConfig(crop_least=0.99, crop_most=1.0, crop_ratio=1.05)
    p = drawn(config, (3, 20, 100), 50)
    assert set(zip(p.top.tolist(), p.left.tolist(), p.height.tolist(), p.width.tolist(), strict=True)) == {
        (0, 39, 20, 21)
    }


@pytest.mark.parametrize("k", range(4), ids=pillow_views.JITTERS)
def test_colour_factors_have_torchvisions_distribution(many, k):
    p, others = many
    name = pillow_views.JITTERS[k]
    mine = getattr(p, name)[getattr(p, name) != (0 if name == "hue" else 1)]
    theirs = [dict(other.jitters)[name] for other in others if other.jitters]
    assert len(mine) / len(others) == pytest.approx(CONFIG.jitter_p, abs=0.02)
    assert same_distribution(mine, theirs)


def test_all_orders_are_equally_likely(many):
    p, _ = many
    _, counts = np.unique(p.rank.numpy(), axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(
    ("name", "theirs", "probability"),
    [("flip", "flip", 0.5), ("grey", "grey", 0.2), ("solarised", "solarise", 0.2)],
)
def test_probabilities_are_those_of_the_config(many, name, theirs, probability):
    p, others = many
    assert float(getattr(p, name).float().mean()) == pytest.approx(probability, abs=0.02)
    assert np.mean([getattr(other, theirs) for other in others]) == pytest.approx(probability, abs=0.02)


def test_blurs_have_the_distribution_of_the_config(many):
    p, others = many
    assert float((p.sigma > 0).float().mean()) == pytest.approx(0.5, abs=0.02)
    assert same_distribution(p.sigma[p.sigma > 0], [other.sigma for other in others if other.sigma])
