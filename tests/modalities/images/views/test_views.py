"""Random views of images: reproducible, independent of the batch, with the drawn parameters."""

import math
from dataclasses import replace

import pytest
import torch

from nonneg.errors import InputError
from nonneg.modalities import uniform
from nonneg.modalities.images import open_source
from nonneg.modalities.images.views import ViewConfig, draw, make_views, random_views
from nonneg.training import load_recipe

PAPER = load_recipe("cifar10").modality.views
EVERYTHING = replace(PAPER, solarise_p=0.2, rotate=10, scale=0.1, shift=0.1, shear=5, noise=0.05)
NOTHING = ViewConfig()


def images(count=8, name="shapes"):
    return torch.from_numpy(open_source(name).samples[:count]).permute(0, 3, 1, 2)


def drawn(config, count=8, shape=(3, 24, 24), epoch=0):
    return draw(config, torch.arange(count), 0, 0, epoch, shape)


def test_each_sample_has_two_different_views():
    views = random_views(images(50), torch.arange(50), EVERYTHING, seed=0, epoch=0)
    assert views.shape == (100, 3, 24, 24)
    assert views.dtype == torch.float32
    assert float(views.min()) >= 0 and float(views.max()) <= 1
    first, second = views.chunk(2)
    assert float((first - second).abs().mean()) > 0.02


def test_the_default_config_changes_nothing():
    views = random_views(images(), torch.arange(8), NOTHING, seed=0, epoch=0)
    torch.testing.assert_close(views, torch.cat((images(), images())) / 255)


@pytest.mark.parametrize("epoch", [3, torch.tensor(3)], ids=["number", "tensor"])
def test_views_do_not_depend_on_the_batch(epoch):
    pictures, samples = images(40), torch.arange(40)
    whole = random_views(pictures, samples, EVERYTHING, seed=1, epoch=3).view(2, 40, 3, 24, 24)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    for rows in (order[:13], order[13:14], order[14:]):
        part = random_views(pictures[rows], samples[rows], EVERYTHING, seed=1, epoch=epoch)
        torch.testing.assert_close(part.view(2, -1, 3, 24, 24), whole[:, rows], rtol=0, atol=1e-6)


def test_compiled_views_are_the_same():
    pictures, samples, epoch = images(16), torch.arange(16), torch.tensor(2)
    plain = random_views(pictures, samples, EVERYTHING, 1, epoch)
    # One graph, as on a GPU; that machine code for a CPU is made of it, which takes a minute, is of no use.
    compile_ = torch.compile(random_views, fullgraph=True, backend="aot_eager")
    compiled = compile_(pictures, samples, EVERYTHING, 1, epoch)
    # Except for single pixels at the edge of a hue's step or of solarising.
    assert float(((compiled - plain).abs() > 1e-4).float().mean()) < 1e-3


@pytest.mark.parametrize("change", ["seed", "epoch", "sample", "view"])
def test_each_of_seed_epoch_sample_and_view_changes_the_numbers(change):
    base = {"seed": 1, "epoch": 2, "sample": torch.tensor([3]), "view": 0}
    other = {**base, change: base[change] + 1}
    assert not torch.isin(uniform(20, **base), uniform(20, **other)).any()


def test_enabling_an_operation_does_not_change_others():
    few = drawn(ViewConfig(crop_least=0.08, brightness=0.4))
    many = drawn(replace(EVERYTHING, brightness=0.4, jitter_p=1.0))
    for name in ("top", "left", "height", "width", "brightness"):
        assert torch.equal(getattr(few, name), getattr(many, name))


def test_numbers_are_uniform_and_independent():
    numbers = uniform(40, 0, 0, torch.arange(5000), 0)
    assert float(numbers.min()) > 0 and float(numbers.max()) < 1
    assert float(numbers.mean()) == pytest.approx(0.5, abs=0.003)
    assert float(numbers.var()) == pytest.approx(1 / 12, abs=0.001)
    correlations = torch.corrcoef(numbers.T) - torch.eye(40)
    assert float(correlations.abs().max()) < 0.07


def test_grey_images_have_grey_views():
    config = replace(EVERYTHING, noise=0)
    views = random_views(images(name="digits"), torch.arange(8), config, 0, 0)
    assert views.shape == (16, 1, 8, 8)


def test_an_empty_batch_has_no_views_and_views_are_contiguous():
    images, config = torch.rand(2, 3, 8, 8), ViewConfig(crop_least=0.5, blur_p=0.5)
    assert random_views(images[:0], torch.arange(0), config, 0, 0).shape == (0, 3, 8, 8)
    assert random_views(images, torch.arange(2), config, 0, 0).is_contiguous()


def test_a_size_resizes_without_a_crop():
    views = random_views(images(), torch.arange(8), ViewConfig(size=12), 0, 0)
    assert views.shape == (16, 3, 12, 12)
    # Halved with a wide filter, which preserves the mean.
    torch.testing.assert_close(views[:8].mean((1, 2, 3)), (images() / 255).mean((1, 2, 3)), atol=0.01, rtol=0)


def test_without_a_crop_oblong_images_are_resized_whole():
    oblong = torch.zeros(1, 1, 8, 24)
    oblong[..., 0] = oblong[..., 23] = 1
    view = random_views(oblong, torch.arange(1), ViewConfig(size=8), 0, 0)[0, 0]
    assert float(view[:, 0].min()) > 0.2 and float(view[:, 7].min()) > 0.2


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (1, 1), (2, 3)])
def test_tiny_images_have_views(shape):
    config = replace(EVERYTHING, blur_p=1.0)
    views = random_views(torch.rand(4, 3, *shape), torch.arange(4), config, 0, 0)
    assert views.shape == (8, 3, *shape)
    assert bool(views.isfinite().all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"crop_ratio": 0.5}, r"views\.crop_ratio is 0\.5"),
        ({"hue": math.nan}, r"views\.hue is nan"),
        ({"flip_p": 2}, r"views\.flip_p is 2"),
    ],
)
def test_errors_name_the_field_and_its_value(change, message):
    with pytest.raises(InputError, match=message):
        random_views(images(), torch.arange(8), ViewConfig(**change), 0, 0)


def test_a_flip_mirrors_images_with_and_without_a_crop():
    whole = make_views(images(), drawn(ViewConfig(flip_p=1)), ViewConfig(flip_p=1))
    torch.testing.assert_close(whole, images().flip(3) / 255)
    config = ViewConfig(crop_least=0.3)
    parameters = drawn(config)
    plain = make_views(images(), parameters, config)
    mirrored = make_views(images(), replace(parameters, flip=torch.ones(8, dtype=torch.bool)), config)
    torch.testing.assert_close(mirrored, plain.flip(3))


def dot_image(x: float, y: float, side: int = 41) -> torch.Tensor:
    """Draw a soft dot; its position is relative to the centre, in units of half a side."""
    ticks = (torch.arange(side) + 0.5) / side * 2 - 1
    distance = (ticks[None, :] - x) ** 2 + (ticks[:, None] - y) ** 2
    return torch.exp(-distance / 0.01)[None, None]


def dot_position(image: torch.Tensor) -> tuple[float, float]:
    side = image.shape[-1]
    ticks = (torch.arange(side) + 0.5) / side * 2 - 1
    mass = image[0, 0] / image.sum()
    return float((mass.sum(0) * ticks).sum()), float((mass.sum(1) * ticks).sum())


def moved_dot(x, y, config):
    """Return the new position of the dot, and the drawn parameters."""
    parameters = drawn(config, 1, (1, 41, 41))
    return dot_position(make_views(dot_image(x, y), parameters, config)), parameters


def test_the_affine_map_has_the_drawn_parameters():
    place, p = moved_dot(0.5, 0.0, ViewConfig(rotate=30))
    assert abs(float(p.angle)) > 0.05
    assert place == pytest.approx((0.5 * math.cos(p.angle), 0.5 * math.sin(p.angle)), abs=0.01)
    place, p = moved_dot(0.5, 0.0, ViewConfig(scale=0.3))
    assert place == pytest.approx((0.5 * float(p.size), 0), abs=0.01)
    place, p = moved_dot(0.5, 0.0, ViewConfig(shift=0.1))
    assert place == pytest.approx((0.5 + 2 * float(p.shift_x), 2 * float(p.shift_y)), abs=0.01)
    place, p = moved_dot(0.0, 0.5, ViewConfig(shear=20))
    assert place == pytest.approx((-0.5 * math.tan(p.shear), 0.5), abs=0.01)


@pytest.mark.parametrize(("angle", "size"), [(0.0, 1.2), (math.pi / 2, 1.0), (0.4, 0.8)])
def test_shift_comes_after_rotation_and_scale(angle, size):
    config = ViewConfig(shift=0.1)
    fixed = {"angle": angle, "size": size, "shift_x": 0.1, "shift_y": 0.0}
    parameters = replace(drawn(config, 1, (1, 41, 41)), **{k: torch.tensor([v]) for k, v in fixed.items()})
    assert dot_position(make_views(dot_image(0.0, 0.0), parameters, config)) == pytest.approx((0.2, 0.0), abs=0.01)


def test_the_rotation_of_an_oblong_image_does_not_distort_it():
    bar = torch.zeros(1, 1, 21, 61)
    bar[0, 0, 10, 20:41] = 1
    config = ViewConfig(rotate=90)
    turn = replace(drawn(config, 1, (1, 21, 61)), angle=torch.tensor([math.pi / 2]))
    turned = make_views(bar, turn, config)
    assert turned[0, 0, 1:20, 30].min() > 0.9
    assert float(turned.sum()) == pytest.approx(21, rel=0.05)


def test_noise_has_the_standard_deviation_of_the_config():
    grey = torch.full((500, 1, 8, 8), 0.5)
    views = random_views(grey, torch.arange(500), ViewConfig(noise=0.1), 0, 0)
    assert float(views.std()) == pytest.approx(0.1, rel=0.02)
    assert float(views.mean()) == pytest.approx(0.5, abs=0.002)


def test_float64_images_have_the_same_views_in_float64():
    pictures = images().double() / 255
    config = replace(EVERYTHING, solarise_p=0)  # a value close to one half may fall on either side
    fine = random_views(pictures, torch.arange(8), config, 0, 0)
    assert fine.dtype == torch.float64
    coarse = random_views(pictures.half(), torch.arange(8), config, 0, 0)
    assert coarse.dtype == torch.float32
    assert float((fine - coarse).abs().mean()) < 1e-3
