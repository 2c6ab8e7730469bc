import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nonneg.models import ResNet, _norm
from nonneg.models._norm import by_sums, normed

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
    return [out, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]


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
    ours = run(lambda norm, x: by_sums(norm, x, True), norm, x)
    assert ours[0].dtype == ours[1].dtype == torch.bfloat16
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=0.02, atol=0.01 * float(b.detach().abs().max()))


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


# A change of the images in the sixth digit changes gradients by 1% and 4%: networks this deep magnify rounding.
@pytest.mark.parametrize(("depth", "tolerance"), [(18, 0.02), (50, 0.1)])
def test_a_compiled_network_has_the_gradients_of_the_plain_one(depth, tolerance, as_on_a_gpu):
    torch.manual_seed(0)
    plain = ResNet(depth, stem="small").to(memory_format=torch.channels_last)
    compiled = copy.deepcopy(plain)
    x = images((8, 3, 16, 16))
    for forward in (plain, torch.compile(compiled, backend="aot_eager")):
        forward(x).square().mean().backward()
    for (name, a), b in zip(plain.named_parameters(), compiled.parameters(), strict=True):
        assert float((a.grad - b.grad).norm()) < tolerance * float(a.grad.norm()), name
    for (name, a), b in zip(plain.named_buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


def operations(norm, x):
    """What is compiled of norm and relu."""
    traced = []

    def note(graph, _):
        traced.append(graph.code)
        return graph

    torch.compile(lambda x: normed(norm, x, relu=True), backend=note)(x)
    return traced[0]


def test_it_is_for_training_what_is_compiled_for_a_gpu(as_on_a_gpu):
    assert "moments" in operations(layer(8), images((2, 8, 3, 3)))


@pytest.mark.parametrize(
    "change",
    [
        lambda norm, x: (norm.eval(), x),
        lambda norm, x: (nn.BatchNorm2d(8, affine=False), x),
        lambda norm, x: (nn.BatchNorm2d(8, track_running_stats=False), x),
        lambda norm, x: (nn.Identity(), x),
        lambda norm, x: (norm.double(), x.double()),
        lambda norm, x: (norm, x.contiguous()),
    ],
    ids=["evaluation", "no weight", "nothing running", "another norm", "float64", "channels first"],
)
def test_all_else_is_torchs(change, as_on_a_gpu):
    norm, x = change(layer(8), images((2, 8, 3, 3)))
    torch._dynamo.reset()
    assert "moments" not in operations(norm, x)
    torch.testing.assert_close(normed(copy.deepcopy(norm), x, relu=True), F.relu(copy.deepcopy(norm)(x)))


def test_on_the_cpu_nothing_of_our_own_is_compiled():
    torch._dynamo.reset()
    assert "moments" not in operations(layer(8), images((2, 8, 3, 3)))
