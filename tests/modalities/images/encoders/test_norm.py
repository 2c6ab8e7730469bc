import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nonneg.modalities.images import ResNet
from nonneg.modalities.images.encoders import _norm
from nonneg.modalities.images.encoders._norm import by_sums, normed

SHAPES = [(4, 64, 6, 5), (3, 12, 7, 7), (2, 8, 1, 1)]


def layer(channels):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(channels)
    for given in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(given, 1.0)
    return norm


def images(shape, dtype=torch.float32):
    x = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 2
    return x.to(dtype).contiguous(memory_format=torch.channels_last)


def run(forward, norm, x):
    """The output, the gradients of everything that goes in, and what is running after it."""
    norm, x = copy.deepcopy(norm), x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    out = forward(norm, x)
    out.float().mul(torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return [out.detach(), x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]


@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_our_own_give_what_torchs_batch_norm_gives(shape, relu):
    norm, x = layer(shape[1]), images(shape)
    ours = run(lambda norm, x: by_sums(norm, x, relu), norm, x)
    theirs = run(lambda norm, x: F.relu(norm(x)) if relu else norm(x), norm, x)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_in_half_precision_they_are_as_near_to_float32_as_torchs_are():
    norm, x = layer(64), images((8, 64, 6, 5), torch.bfloat16)
    exact = run(lambda norm, x: F.relu(norm(x)), norm, x.float())
    theirs = run(lambda norm, x: F.relu(norm(x)), norm, x)
    ours = run(lambda norm, x: by_sums(norm, x, True), norm, x)
    assert ours[0].dtype == ours[1].dtype == torch.bfloat16
    for a, b, c in zip(ours, theirs, exact, strict=True):
        assert float((a - c).norm()) <= 1.1 * float((b - c).norm()) + 1e-6 * float(c.norm())


def test_a_step_is_counted():
    norm = layer(8)
    by_sums(norm, images((2, 8, 3, 3)), False)
    by_sums(norm, images((2, 8, 3, 3)), True)
    assert int(norm.num_batches_tracked) == 2


def test_the_operations_are_registered_rightly():
    norm, x = layer(8), images((2, 8, 3, 3))
    running = (norm.running_mean, norm.running_var, norm.num_batches_tracked)
    arguments = (x, norm.weight.detach(), norm.bias.detach(), *running, 0.1, 1e-5)
    torch.library.opcheck(torch.ops.nonneg.moments.default, arguments)
    torch.library.opcheck(torch.ops.nonneg.slopes.default, (x, x, torch.ops.nonneg.moments(*arguments), True))


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(_norm, "is_compiled_for_gpu", lambda x: torch.compiler.is_compiling())


def test_a_compiled_network_has_the_gradients_of_the_plain_one(as_on_a_gpu):
    torch.manual_seed(0)
    plain = ResNet(18, stem="small").to(memory_format=torch.channels_last)
    compiled = copy.deepcopy(plain)
    x = images((8, 3, 16, 16))
    for forward in (plain, torch.compile(compiled, backend="aot_eager")):
        forward(x).square().mean().backward()
    for (name, a), b in zip(plain.named_parameters(), compiled.parameters(), strict=True):
        # A change of the images in the sixth digit changes gradients by 1%: networks this deep magnify rounding.
        assert float((a.grad - b.grad).norm()) < 0.02 * float(a.grad.norm()), name
    for (name, a), b in zip(plain.named_buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


def compiled(norm, x):
    """What norm and relu give, and the code that was compiled for it."""
    traced = []

    def note(graph, _):
        traced.append(graph.code)
        return graph

    torch._dynamo.reset()
    out = torch.compile(lambda x: normed(norm, x, relu=True), backend=note)(x)
    return out, "".join(traced)


def test_it_is_for_training_what_is_compiled_for_a_gpu(as_on_a_gpu):
    assert "moments" in compiled(layer(8), images((2, 8, 3, 3)))[1]


class AnotherNorm(nn.BatchNorm2d):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda norm, x: (norm.eval(), x),
        lambda norm, x: (nn.BatchNorm2d(8, affine=False), x),
        lambda norm, x: (nn.BatchNorm2d(8, track_running_stats=False), x),
        lambda norm, x: (AnotherNorm(8), x),
        lambda norm, x: (norm.double(), x.double()),
        lambda norm, x: (norm, x.contiguous()),
    ],
    ids=["evaluation", "no weight", "nothing running", "another norm", "float64", "channels first"],
)
def test_all_else_is_torchs(change, as_on_a_gpu):
    norm, x = change(layer(8), images((2, 8, 3, 3)))
    expected = F.relu(copy.deepcopy(norm)(x))
    out, code = compiled(norm, x)
    assert "moments" not in code
    torch.testing.assert_close(out, expected)


def test_one_value_a_channel_is_refused_as_torch_refuses_it(as_on_a_gpu):
    with pytest.raises(Exception, match="Expected more than 1 value per channel"):
        compiled(layer(8), images((1, 8, 1, 1)))


def test_on_the_cpu_nothing_of_our_own_is_compiled():
    assert "moments" not in compiled(layer(8), images((2, 8, 3, 3)))[1]


@pytest.mark.parametrize("frozen", ["weight", "bias", "both"])
def test_frozen_parameters_get_no_gradient_and_change_no_other(frozen):
    gradients = []
    for forward in (lambda norm, x: F.relu(norm(x)), lambda norm, x: by_sums(norm, x, True)):
        norm, x = layer(8), images((2, 8, 3, 3)).requires_grad_()
        norm.weight.requires_grad_(frozen == "bias")
        norm.bias.requires_grad_(frozen == "weight")
        forward(norm, x).square().sum().backward()
        gradients.append([x.grad, norm.weight.grad, norm.bias.grad])
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
