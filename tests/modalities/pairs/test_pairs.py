"""Pairs: their groups, sides, views and encoder."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.modalities.images import Images
from nonneg.modalities.pairs import Pairs, TwoSided, pair_source
from nonneg.modalities.texts import TextRows, Texts
from nonneg.training import TrainConfig, as_toml, load_recipe

IMAGES = Source("images", np.arange(4 * 8 * 8 * 3, dtype=np.uint8).reshape(4, 8, 8, 3), ("a", "b", "c", "d"))
TEXTS = Source("texts", TextRows(["one", "two", "three", "four"]), ("w", "x", "y", "z"))


def test_pairs_connected_through_shared_samples_are_one_group():
    links = [(0, 0), (0, 1), (1, 1), (2, 2), (3, 3)]
    rows = pair_source(IMAGES, TEXTS, links).samples
    assert rows.groups.tolist() == [0, 0, 0, 1, 2]
    assert pair_source(IMAGES, TEXTS).samples.groups is None


def test_given_groups_replace_those_of_shared_samples():
    assert pair_source(IMAGES, TEXTS, groups=[5, 5, 7, 8]).samples.groups.tolist() == [5, 5, 7, 8]


def test_data_without_a_single_negative_is_an_error():
    with pytest.raises(InputError, match="groups"):
        pair_source(IMAGES, TEXTS, [(0, 0), (0, 1)])


@pytest.mark.parametrize(
    ("links", "named"), [([(0, 9)], "links"), ([(-1, 0)], "links"), (np.zeros((0, 2), int), "links")]
)
def test_links_that_name_no_sample_are_an_error(links, named):
    with pytest.raises(InputError, match=named):
        pair_source(IMAGES, TEXTS, links)


def test_a_side_has_each_sample_once_with_all_its_partners():
    source = pair_source(IMAGES, TEXTS, [(2, 0), (2, 1), (1, 1), (0, 3)], labels=[4, 4, 5, 6])
    pairs = Pairs()
    images, texts = (pairs.side(side).open(source) for side in ("image", "text"))
    assert images.ids == ("c", "b", "a") and images.labels.tolist() == [4, 5, 6]
    assert texts.ids == ("w", "x", "z")
    shown = pairs.preview(images, range(3))
    assert shown["texts"] == ["one\ntwo", "two", "four"]
    assert np.array_equal(shown["pixels"], IMAGES.samples[[2, 1, 0]])
    assert np.array_equal(pairs.preview(texts, range(3))["pixels"], IMAGES.samples[[2, 2, 0]])
    partners, _ = pairs.partners(images)
    assert pairs.preview(partners, range(3))["texts"] == ["one", "two", "four"]
    assert [numbers.tolist() for numbers in pairs.partner_numbers(images)] == [[0, 1], [1], [3]]
    assert [numbers.tolist() for numbers in pairs.partner_numbers(texts.take([2, 1]))] == [[0], [2, 1]]
    assert pairs.partner_numbers(source) is None


def test_sides_of_the_same_kind_are_first_and_second():
    assert Pairs(first=Texts()).sides == ("first", "second")
    with pytest.raises(InputError, match="side is 'sound', expected image or text"):
        Pairs().side("sound")
    with pytest.raises(InputError, match="side"):
        Images().side("text")


def test_a_config_keeps_both_sides_in_toml(tmp_path):
    config = load_recipe("pairs").replace(first=Images(image_size=40), first_column="photo")
    (tmp_path / "recipe.toml").write_text(as_toml(config))
    assert load_recipe(str(tmp_path / "recipe.toml")) == config


def test_each_side_has_an_encoder_by_name():
    with pytest.raises(InputError, match=r"encoder is 'resnet18'.*resnet18\+transformer"):
        TrainConfig(modality=Pairs(), encoder="resnet18")
    with pytest.raises(InputError, match="encoder is 'lstm'"):
        TrainConfig(modality=Pairs(), encoder="resnet18+lstm")
    with pytest.raises(InputError, match="loss is 'barlow_twins'"):
        TrainConfig(modality=Pairs(), encoder="resnet18+transformer", loss="barlow_twins")


def test_random_numbers_of_the_sides_differ_and_follow_from_the_sample_alone():
    pairs = Pairs(first=Images(views=replace(Images().views, noise=0.1)), second=Images())
    pairs = replace(pairs, second=pairs.first)
    batch = {side: torch.full((3, 8, 8, 3), 128, dtype=torch.uint8) for side in ("first", "second")}
    views = pairs.draw_views(batch, torch.arange(3), 0, 0, 2, torch.float32)
    assert not torch.equal(views["first"], views["second"])
    one = {side: part[1:2] for side, part in batch.items()}
    alone = pairs.draw_views(one, torch.tensor([1]), 0, 0, 2, torch.float32)
    assert torch.equal(alone["second"], views["second"][1:2])
    twice = pairs.draw_views(batch, torch.arange(3), 0, 0, 4, torch.float32)
    assert torch.equal(twice["second"][:3], views["second"]) and not torch.equal(twice["second"][3:], views["second"])


def test_a_calibrated_side_has_mean_0_and_variance_1():
    torch.manual_seed(0)
    encoder = TwoSided({"image": nn.Identity(), "text": nn.Identity()}, {"image": 5, "text": 3}, width=4).eval()
    given = {"text": 3 + torch.randn(50, 3)}
    adjusted = encoder.calibrated("text", encoder(given))
    torch.testing.assert_close(encoder(given), adjusted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(adjusted.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(adjusted.var(0, correction=0), torch.ones(4), atol=1e-3, rtol=0)
