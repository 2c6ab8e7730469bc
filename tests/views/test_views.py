import math
from dataclasses import replace

import pytest
import torch

from nonneg.data import open_source
from nonneg.views import ViewConfig, two_views, uniform
from nonneg.views._random import philox
from nonneg.views._views import _affine

NOTHING = ViewConfig(rotate=0, scale=0, shift=0, shear=0, brightness=0, contrast=0, noise=0)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # the published known answers of Philox4x32-10
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(counter, key, expected):
    words = philox(tuple(torch.tensor([c]) for c in counter), key)
    assert tuple(int(w) for w in words) == expected


def test_uniform_numbers_are_uniform_and_independent_of_each_other():
    drawn = uniform(40, seed=3, epoch=1, sample=torch.arange(2500), view=0).double()
    assert 0 < float(drawn.min()) < 1e-3
    assert 1 - 1e-3 < float(drawn.max()) < 1
    counts = torch.histc(drawn, 20, 0, 1)
    chi_square = float(((counts - 5000) ** 2 / 5000).sum())
    assert chi_square < 50  # 19 degrees of freedom: a chance of 1e-4
    correlation = torch.corrcoef(drawn.T) - torch.eye(40)
    assert float(correlation.abs().max()) < 0.1


def test_each_part_of_the_key_changes_the_numbers():
    base = {"seed": 1, "epoch": 2, "sample": torch.tensor([3]), "view": 0}
    changes = ({}, {"seed": 2}, {"seed": 1 + 2**32}, {"epoch": 3}, {"sample": torch.tensor([4])}, {"view": 1})
    drawn = [uniform(4, **{**base, **change}) for change in changes]
    assert len({tuple(d[0].tolist()) for d in drawn}) == 6


def test_a_view_does_not_depend_on_the_batch_it_is_drawn_in():
    source = open_source("digits")
    images = torch.from_numpy(source.images[:64]).permute(0, 3, 1, 2)
    rows = torch.arange(64)
    whole = two_views(images, rows, ViewConfig(contrast=0.2), seed=5, epoch=7).view(2, 64, 1, 8, 8)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:10]
    part = two_views(images[order], order, ViewConfig(contrast=0.2), seed=5, epoch=7).view(2, 10, 1, 8, 8)
    torch.testing.assert_close(part, whole[:, order])


def test_views_stay_in_range_and_the_two_differ():
    images = torch.from_numpy(open_source("digits").images[:32]).permute(0, 3, 1, 2)
    first, second = two_views(images, torch.arange(32), ViewConfig(), seed=0, epoch=0).chunk(2)
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1
    assert float((first - second).abs().mean()) > 0.02


def test_no_change_asked_for_is_no_change_made():
    images = torch.from_numpy(open_source("shapes").images[:8]).permute(0, 3, 1, 2)
    views = two_views(images, torch.arange(8), NOTHING, seed=0, epoch=0)
    torch.testing.assert_close(views, torch.cat((images, images)) / 255)


def dot_image(x: float, y: float, side: int = 41) -> torch.Tensor:
    """A soft dot at a place in units of half a side from the centre."""
    ticks = (torch.arange(side) + 0.5) / side * 2 - 1
    distance = (ticks[None, :] - x) ** 2 + (ticks[:, None] - y) ** 2
    return torch.exp(-distance / 0.01)[None, None]


def where_is_the_dot(image: torch.Tensor) -> tuple[float, float]:
    side = image.shape[-1]
    ticks = (torch.arange(side) + 0.5) / side * 2 - 1
    mass = image[0, 0] / image.sum()
    return float((mass.sum(0) * ticks).sum()), float((mass.sum(1) * ticks).sum())


def test_affine_moves_things_by_the_drawn_parameters():
    sample = torch.tensor([11])
    drawn = 2 * uniform(7, 0, 0, sample, 0)[0].double() - 1
    image = dot_image(0.5, 0.0)
    x, y = where_is_the_dot(two_views(image, sample, replace(NOTHING, rotate=30), 0, 0)[:1])
    angle = math.radians(30) * float(drawn[0])
    assert (x, y) == pytest.approx((0.5 * math.cos(angle), 0.5 * math.sin(angle)), abs=0.01)
    x, y = where_is_the_dot(two_views(image, sample, replace(NOTHING, scale=0.3), 0, 0)[:1])
    assert (x, y) == pytest.approx((0.5 * (1 + 0.3 * float(drawn[1])), 0), abs=0.01)
    x, y = where_is_the_dot(two_views(image, sample, replace(NOTHING, shift=0.1), 0, 0)[:1])
    assert (x, y) == pytest.approx((0.5 + 0.2 * float(drawn[2]), 0.2 * float(drawn[3])), abs=0.01)


def test_shift_comes_after_rotation_and_scale():
    image = dot_image(0.0, 0.0)
    whole = {name: torch.full((1, 1, 1, 1), value) for name, value in {"shift_x": 0.1, "shift_y": 0.0}.items()}
    for angle, size in ((0.0, 1.2), (math.pi / 2, 1.0), (0.4, 0.8)):
        moved = _affine(
            image,
            torch.full((1, 1, 1, 1), angle),
            torch.full((1, 1, 1, 1), size),
            shear=torch.zeros(1, 1, 1, 1),
            **whole,
        )
        assert where_is_the_dot(moved) == pytest.approx((0.2, 0.0), abs=0.01)


def test_a_turn_of_an_oblong_image_is_a_turn():
    bar = torch.zeros(1, 1, 21, 61)
    bar[0, 0, 10, 20:41] = 1
    one, none = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)
    turned = _affine(bar, one * math.pi / 2, one, none, none, none)
    assert turned[0, 0, 1:20, 30].min() > 0.9
    assert float(turned.sum()) == pytest.approx(21, rel=0.05)


def test_shear_slants_what_is_upright():
    sample = torch.tensor([11])
    slant = math.tan(math.radians(20) * float(2 * uniform(7, 0, 0, sample, 0)[0, 4] - 1))
    x, y = where_is_the_dot(two_views(dot_image(0.0, 0.5), sample, replace(NOTHING, shear=20), 0, 0)[:1])
    assert (x, y) == pytest.approx((-0.5 * slant, 0.5), abs=0.01)


def test_brightness_and_contrast_are_the_drawn_ones():
    sample = torch.tensor([11])
    drawn = 2 * uniform(7, 0, 0, sample, 0)[0] - 1
    image = torch.tensor([0.2, 0.4, 0.5, 0.3]).view(1, 1, 2, 2)
    brighter = two_views(image, sample, replace(NOTHING, brightness=0.5), 0, 0)[:1]
    torch.testing.assert_close(brighter, image * (1 + 0.5 * drawn[5]))
    sharper = two_views(image, sample, replace(NOTHING, contrast=0.5), 0, 0)[:1]
    torch.testing.assert_close(sharper, 0.35 + (image - 0.35) * (1 + 0.5 * drawn[6]))


def test_other_floats_are_fine():
    assert two_views(torch.zeros(2, 1, 8, 8).double(), torch.arange(2), ViewConfig(), 0, 0).dtype == torch.float32


def test_noise_has_the_asked_for_spread():
    images = torch.full((500, 1, 8, 8), 0.5)
    views = two_views(images, torch.arange(500), replace(NOTHING, noise=0.1), 0, 0)
    assert float(views.std()) == pytest.approx(0.1, rel=0.02)
    assert float(views.mean()) == pytest.approx(0.5, abs=0.002)
