import numpy as np
import pytest
import torch

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.modalities.images import Images, open_source
from nonneg.models import Model, ModelConfig, load, output_width

GREY = Images(channels=1)


def built(**change):
    torch.manual_seed(0)
    return Model(ModelConfig("convnet_8", GREY, **{"projector_width": 16, "features": 12, **change}))


def shapes(model):
    return {name: tuple(tensor.shape) for name, tensor in model.projector.named_parameters()}


@pytest.fixture
def images():
    return torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("rectify", "top_k", "lowest"), [("relu", 0, 0), ("top_k", 3, 0), ("none", 0, None)])
def test_non_negativity_is_part_of_the_model(rectify, top_k, lowest, images):
    z = built(rectify=rectify, top_k=top_k)(images)
    assert z.min() < 0 if lowest is None else z.min() == lowest
    if top_k:
        assert (z > 0).sum(1).max() <= top_k


def test_one_pass_gives_both_layers(images):
    model = built().eval()
    h, z = model.forward_layers(images)
    assert torch.equal(h, model(images, "encoder"))
    assert torch.equal(z, model(images))
    assert (h.shape, z.shape) == ((6, 512), (6, 12))


def test_an_unknown_layer_is_an_error(images):
    with pytest.raises(InputError, match="layer is 'encodr'"):
        built()(images, "encodr")


@pytest.mark.parametrize("encoder", ["convnet_8", "convnet_24", "resnet18", "resnet34", "resnet50"])
def test_every_encoder_can_be_followed_by_a_projector(encoder):
    with torch.device("meta"):
        model = Model(ModelConfig(encoder, Images(channels=3), features=24))
        assert model(torch.empty(2, 3, 64, 64)).shape == (2, 24)


def test_a_projector_is_two_linear_layers_with_relu_between(images):
    model = built(rectify="none").eval()
    first, second = model.projector[0], model.projector[2]
    assert shapes(model) == {"0.weight": (16, 512), "0.bias": (16,), "2.weight": (12, 16), "2.bias": (12,)}
    h, z = model.forward_layers(images)
    torch.testing.assert_close(z, second(first(h).relu()))


def test_a_projector_of_depth_1_is_linear():
    assert shapes(built(projector_depth=1)) == {"0.weight": (12, 512), "0.bias": (12,)}


def test_without_projector_the_encoders_output_is_rectified(images):
    model = built(projector_depth=0, features=512, rectify="top_k", top_k=5).eval()
    h, z = model.forward_layers(images)
    assert not list(model.projector.parameters())
    assert (z > 0).sum(1).tolist() == [5] * 6
    assert torch.equal(z[z > 0], h[z > 0])


def test_without_projector_features_must_be_the_encoders_width():
    with pytest.raises(InputError, match=r"features is 12 .*projector_depth 0.*512"):
        built(projector_depth=0)


def test_batch_norm_follows_each_hidden_layer_and_replaces_its_bias():
    model = built(projector_depth=3, projector_batch_norm=True)
    kinds = [type(module).__name__ for module in model.projector]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU"] * 2 + ["Linear", "NonNegative"]
    assert [module.bias is None for module in model.projector if isinstance(module, torch.nn.Linear)] == [
        True,
        True,
        False,
    ]


def test_the_head_is_linear_in_the_features(images):
    model = built(classes=5)
    z = model(images)
    assert model.classifier.weight.shape == (5, 12)
    assert model.classifier.bias is None
    torch.testing.assert_close(model.logits(z), z @ model.classifier.weight.T)


def test_a_rectified_head_uses_and_trains_only_positive_weights(images):
    model = built(classes=5, rectify_weight=True)
    weight = model.classifier.weight
    assert weight.min() < 0
    torch.testing.assert_close(model.logits(torch.eye(12)), weight.relu().T)
    model.logits(torch.ones(1, 12)).sum().backward()
    assert torch.equal(weight.grad, (weight > 0).float())


def test_without_classes_there_are_no_logits(images):
    with pytest.raises(InputError, match="classes is 0"):
        built().logits(torch.zeros(1, 12))


class Halves(torch.nn.Module):
    """An encoder from outside the package."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 6)

    def forward(self, images):
        return self.linear(images.flatten(1)[:, :32]).relu()


def test_the_width_of_an_own_encoder_is_found_by_running_it(images):
    source = open_source("digits", "test")
    encoder = Halves()
    width = output_width(encoder, GREY, source)
    model = Model(ModelConfig("own", GREY, features=12, encoder_width=width), encoder)
    assert width == 6 and model.encoder is encoder
    assert model(images).shape == (6, 12)
    assert encoder.training  # unchanged


class Returning(torch.nn.Module):
    """An encoder whose output is given."""

    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, images):
        return self.output


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (torch.nn.Conv2d(1, 2, 3), r"Conv2d returns \(2, 2, 6, 6\)"),
        (torch.nn.Linear(65, 3), r"Linear cannot take inputs of shape \(2, 1, 8, 8\): mat1 and mat2"),
        (torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Unflatten(0, (1, 128))), "Sequential returns 1 rows"),
        (Returning([1, 2]), "Returning returns a list"),
        (Returning(None), "Returning returns a NoneType"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_own_encoder_must_take_the_inputs_and_return_one_vector_per_sample(encoder, message):
    with pytest.raises(InputError, match=f"encoder {message}") as error:
        output_width(encoder, GREY, open_source("digits", "test"))
    assert "\n" not in str(error.value)


def test_a_loaded_encoder_must_have_the_width_of_the_trained_one(images):
    model = Model(ModelConfig("own", GREY, features=12, encoder_width=7), Halves())
    with pytest.raises(InputError, match=r"encoder Halves returns \(6, 6\), expected \(batch, 7\)"):
        model(images)


def test_a_saved_model_with_an_own_encoder_needs_it_to_load(tmp_path, images):
    model = Model(ModelConfig("own", GREY, features=12, encoder_width=6), Halves()).eval()
    model.save(tmp_path)
    with pytest.raises(InputError, match="encoder is missing"):
        load(tmp_path)
    assert torch.equal(load(tmp_path, encoder=Halves())(images), model(images))


def test_a_module_and_an_encoder_by_name_exclude_each_other():
    with pytest.raises(InputError, match="encoder is Halves"):
        Model(ModelConfig("convnet_8", GREY), Halves())
    with pytest.raises(InputError, match="encoder is NoneType"):
        Model(ModelConfig("own", GREY))


def test_a_training_step_compiles_to_one_graph_and_reaches_all_parameters(images):
    torch._dynamo.reset()
    model = built(projector_batch_norm=True)
    step = torch.compile(lambda x: model(x).square().mean(), fullgraph=True, backend="aot_eager")
    step(images).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def active_shares(model, source):
    codes = model.embed(source, media=False).codes
    return (dense(codes) > 0).mean(0)


def test_features_can_be_read_at_another_share(tmp_path):
    source = open_source("digits", "test").take(range(100))
    model = built(standardise=True, share=0.1).eval()
    model.calibrate(source)
    denser = model.at_share(0.4, source)
    np.testing.assert_allclose(active_shares(denser, source), 0.4, atol=0.011)
    np.testing.assert_allclose(active_shares(model, source), 0.1, atol=0.011)  # unchanged
    denser.save(tmp_path / "model")
    np.testing.assert_array_equal(active_shares(load(tmp_path / "model"), source), active_shares(denser, source))


@pytest.mark.parametrize(("change", "share"), [({}, 0.1), ({"standardise": True, "share": 0.1}, 1.0)])
def test_only_a_model_with_a_share_can_be_read_at_another_one_between_0_and_1(change, share):
    with pytest.raises(InputError, match="share"):
        built(**change).at_share(share, open_source("digits", "test"))
