import pytest
import torch

from nonneg.errors import InputError
from nonneg.modalities.images import ResNet

# torchvision's numbers without the 513,000 or 2,049,000 of `fc`.
PARAMETERS = {18: 11_176_512, 34: 21_284_672, 50: 23_508_032}


@pytest.mark.parametrize("depth", PARAMETERS)
def test_the_number_of_parameters_is_torchvisions(depth):
    with torch.device("meta"):
        network = ResNet(depth)
    assert sum(p.numel() for p in network.parameters()) == PARAMETERS[depth]


@pytest.mark.parametrize(("depth", "width"), [(18, 512), (34, 512), (50, 2048)])
def test_the_output_is_one_vector_per_sample(depth, width):
    with torch.device("meta"):
        network = ResNet(depth, channels=1)
        assert network(torch.empty(2, 1, 64, 96)).shape == (2, width) == (2, network.width)


def test_weights_have_torchvisions_names_and_shapes():
    with torch.device("meta"):
        state = ResNet(50).state_dict()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer1.0.conv3.weight"].shape == (256, 64, 1, 1)
    assert state["layer2.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert state["layer4.2.bn3.running_var"].shape == (2048,)
    assert {name.split(".")[0] for name in state} == {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4"}


@pytest.mark.parametrize(
    ("stem", "side", "maps"),
    [
        ("standard", 224, (56, 28, 14, 7)),
        ("medium", 64, (32, 16, 8, 4)),
        ("small", 32, (32, 16, 8, 4)),
        ("small_pad_2", 32, (34, 17, 9, 5)),
    ],
)
def test_the_stem_decides_the_size_of_the_feature_maps(stem, side, maps):
    sizes = []
    with torch.device("meta"):
        network = ResNet(18, stem=stem)
        for layer in (network.layer1, network.layer2, network.layer3, network.layer4):
            layer.register_forward_hook(lambda module, inputs, output: sizes.append(output.shape[2:]))
        network(torch.empty(2, 3, side, side))
    assert sizes == [(n, n) for n in maps]


def test_convolutions_start_with_he_initialisation_and_batch_norms_as_the_identity():
    torch.manual_seed(0)
    state = ResNet(18).state_dict()
    weight = state["layer3.1.conv2.weight"]
    assert weight.std() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)
    assert bool((state["layer3.1.bn2.weight"] == 1).all())


def test_evaluation_is_deterministic_and_no_sample_depends_on_the_others():
    torch.manual_seed(0)
    network = ResNet(18, stem="small").eval()
    images = torch.rand(3, 3, 32, 32)
    with torch.inference_mode():
        whole = network(images)
        assert torch.equal(whole, network(images))
        torch.testing.assert_close(whole[1:2], network(images[1:2]), rtol=1e-4, atol=1e-5)


def test_channels_last_memory_gives_the_same_output():
    torch.manual_seed(0)
    network = ResNet(18, stem="small").eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        expected = network(images)
        found = network.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_whole_network_compiles_to_one_graph():
    torch._dynamo.reset()
    network = torch.compile(ResNet(18, stem="small_pad_2"), fullgraph=True, backend="eager")
    assert network(torch.rand(2, 3, 8, 8)).shape == (2, 512)


def test_unknown_depths_and_stems_are_errors():
    with pytest.raises(InputError, match=r"depth is 20.*18, 34, 50"):
        ResNet(20)
    with pytest.raises(InputError, match=r"stem is 'tiny'.*standard, medium, small, small_pad_2"):
        ResNet(18, stem="tiny")
