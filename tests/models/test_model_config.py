import dataclasses

import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import Images
from nonneg.models import ModelConfig


def config_with(encoder="resnet18", **change):
    images = {name: change.pop(name) for name in list(change) if name in {f.name for f in dataclasses.fields(Images)}}
    return ModelConfig(encoder, Images(**{"channels": 3, **images}), **change)


def test_the_defaults_are_a_two_layer_projector_with_relu():
    config = config_with()
    assert (config.projector_depth, config.rectify, config.modality.stem, config.classes) == (2, "relu", "standard", 0)


def test_whole_numbers_and_lists_become_tuples_of_floats():
    images = Images(channels=3, mean=[0.5, 0, 1], std=[1, 1, 1])
    assert images.mean == (0.5, 0.0, 1.0)
    assert all(type(value) is float for value in images.mean + images.std)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": "vgg"}, "encoder is 'vgg'.*convnet_8.*resnet50.*timm:NAME"),
        ({"encoder": "timm:"}, "encoder is 'timm:'"),
        ({"encoder": 3}, "encoder is 3"),
        ({"channels": -1}, "channels is -1"),
        ({"channels": True}, "channels is True"),
        ({"features": 2.5}, "features is 2.5"),
        ({"features": 0}, "features is 0.*at least 1"),
        ({"stem": "tiny"}, "stem is 'tiny'.*standard, medium, small, small_pad_2"),
        ({"encoder": "convnet_8", "stem": "small"}, "stem is 'small'.*convnet_8"),
        ({"encoder": "timm:resnet18", "stem": "small"}, "stem is 'small'.*timm:resnet18"),
        ({"pretrained": True}, "pretrained is true.*resnet18"),
        ({"pretrained": 1}, "pretrained is 1"),
        ({"projector_depth": 17}, "projector_depth is 17"),
        ({"projector_depth": 1, "projector_batch_norm": True}, "projector_batch_norm is true.*1"),
        ({"rectify": "foo"}, "rectify is 'foo'.*relu"),
        ({"rectify": "top_k"}, "top_k is 0"),
        ({"top_k": 4}, "top_k is 4"),
        ({"rectify": "top_k", "top_k": 300}, "top_k is 300.*256"),
        ({"rectify_weight": True}, "rectify_weight is true.*classes 0"),
        ({"mean": (0.5,), "std": (1.0,)}, r"mean is \(0.5,\).*3"),
        ({"mean": (0.5,) * 3}, r"std is \(\)"),
        ({"mean": (0.5,) * 3, "std": (1, 0, 1)}, r"std is \(1, 0, 1\).*more than 0"),
        ({"mean": (float("nan"),) * 3, "std": (1,) * 3}, "mean is .*nan.*finite"),
        ({"centre": 0.0}, "centre is 0"),
    ],
)
def test_an_error_names_the_field_and_its_value(change, message):
    with pytest.raises(InputError, match=message):
        config_with(**change)


def test_a_config_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config_with().features = 5
