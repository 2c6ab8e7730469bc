import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nonneg.rectify import CONTROLS, KINDS, WITH_SHARE, NonNegative, Standardise, calibrate, folded, rep_relu

NON_NEGATIVE = [kind for kind in KINDS if kind not in CONTROLS]


def make(kind: str) -> NonNegative:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NonNegative(kind, k=3 if kind == "top_k" else None)


@pytest.mark.parametrize("kind", NON_NEGATIVE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_output_is_non_negative_in_every_dtype(kind, dtype):
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = make(kind)(x)
    assert y.dtype == dtype
    assert y.shape == x.shape
    assert bool((y >= 0).all())


@pytest.mark.parametrize("kind", CONTROLS)
def test_controls_warn_that_their_output_may_be_negative(kind):
    with pytest.warns(UserWarning, match="may be negative"):
        control = NonNegative(kind)
    assert not control.is_non_negative
    assert bool((control(torch.tensor([-1.0])) < 0).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rep_relu_is_exactly_relu_forward_and_gelu_backward(dtype):
    x = (torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4).to(dtype)
    upstream = torch.randn(1000, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    assert torch.equal(rep_relu(a), F.relu(x))
    rep_relu(a).backward(upstream)
    F.gelu(b).backward(upstream)
    assert torch.equal(a.grad, b.grad)


def test_rep_relu_has_the_second_derivative_of_gelu_and_works_under_vmap():
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(rep_relu(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    (gelu_first,) = torch.autograd.grad(F.gelu(x).sum(), x, create_graph=True)
    (gelu_second,) = torch.autograd.grad(gelu_first.sum(), x)
    torch.testing.assert_close(second, gelu_second)
    rows = torch.vmap(torch.func.grad(lambda row: rep_relu(row).sum()))(x.detach()[:, None])
    torch.testing.assert_close(rows[:, 0], gelu_first.detach())


def test_top_k_keeps_the_largest_entries_and_never_more_than_k():
    x = torch.randn(50, 20, generator=torch.Generator().manual_seed(0))
    y = NonNegative("top_k", k=5)(x)
    assert int((y > 0).sum(1).max()) == 5
    for row, kept in zip(x, y, strict=True):
        expected = sorted((v for v in row.tolist() if v > 0), reverse=True)[:5]
        assert sorted((v for v in kept.tolist() if v > 0), reverse=True) == expected
    assert int((NonNegative("top_k", k=5)(torch.ones(1, 20)) > 0).sum()) == 5  # also with ties


@pytest.mark.parametrize("kind", KINDS)
def test_compiling_does_not_change_values_or_gradients(kind):
    module = make(kind)
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    out_a, out_b = module(a), compiled(b)
    out_a.square().sum().backward()
    out_b.square().sum().backward()
    torch.testing.assert_close(out_b, out_a)
    torch.testing.assert_close(b.grad, a.grad)


@pytest.mark.parametrize("kind", KINDS)
def test_exporting_does_not_change_values(kind):
    model = nn.Sequential(nn.Linear(6, 8), make(kind)).eval()
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(exported(x), model(x))


@pytest.mark.parametrize("kind", NON_NEGATIVE)
def test_output_is_non_negative_under_autocast(kind):
    model = nn.Sequential(nn.Linear(6, 8), make(kind))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(torch.randn(4, 6))
    assert bool((y >= 0).all())
    y.float().sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_stored_in_the_state_dict(kind, tmp_path):
    from safetensors.torch import load_file, save_file

    module = make(kind)
    save_file(module.state_dict(), tmp_path / "m.safetensors")
    make(kind).load_state_dict(load_file(tmp_path / "m.safetensors"))
    other = make("relu" if kind != "relu" else "softplus")
    with pytest.raises((RuntimeError, ValueError), match=f"NonNegative '{kind}"):
        other.load_state_dict(load_file(tmp_path / "m.safetensors"))


def test_weights_with_another_k_are_reported():
    with pytest.raises((RuntimeError, ValueError), match=r"top_k:3.*top_k:4"):
        NonNegative("top_k", k=4).load_state_dict(NonNegative("top_k", k=3).state_dict())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "rely"}, "kind is 'rely'"),
        ({"kind": "top_k"}, "k is None"),
        ({"kind": "relu", "k": 3}, "k is 3"),
        ({"kind": "top_k", "k": 0}, "k is 0"),
        ({"kind": "top_k", "k": 2.5}, "k is 2.5"),
        ({"kind": "top_k", "k": True}, "k is True"),
    ],
)
def test_invalid_arguments_are_reported_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        NonNegative(**arguments)


def test_top_k_wider_than_the_row_is_reported():
    with pytest.raises(ValueError, match=r"k is 5.*4"):
        NonNegative("top_k", k=5)(torch.ones(2, 4))


def skewed(rows: int, seed: int) -> torch.Tensor:
    """Eight features of different location, scale and skewness."""
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed))
    return torch.cat((x[:, :4], x[:, 4:].exp()), 1) * torch.logspace(-2, 2, 8) + torch.linspace(-30, 30, 8)


@pytest.mark.parametrize("kind", WITH_SHARE)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_every_feature_is_active_on_its_share_of_the_samples(kind, share):
    end = nn.Sequential(Standardise(8), NonNegative(kind, share=share, features=8))
    for seed in range(300):
        end(skewed(256, seed))
    unseen = end.eval()(skewed(20_000, seed=1000))
    assert bool((unseen >= 0).all())
    torch.testing.assert_close((unseen > 0).float().mean(0), torch.full((8,), share), rtol=0.2, atol=0.005)


def test_standardised_features_have_mean_0_and_variance_1_in_training_and_evaluation():
    standardise = Standardise(8)
    for seed in range(100):
        z = standardise(skewed(4096, seed))
    for features in (z, standardise.eval()(skewed(20_000, seed=1000))):
        torch.testing.assert_close(features.mean(0), torch.zeros(8), rtol=0, atol=0.1)
        torch.testing.assert_close(features.var(0), torch.ones(8), rtol=0.3, atol=0)


def test_standardising_has_the_gradient_of_batch_norm():
    x = skewed(64, 0).double().requires_grad_()
    weight = torch.randn(64, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = Standardise(8).double(), nn.BatchNorm1d(8, affine=False).double()
    gradients = [torch.autograd.grad((module(x) * weight).sum(), x)[0] for module in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(ours.mean, x.detach().mean(0))  # the first batch counts in full
    for seed in range(1, 100):
        ours(batch := skewed(64, seed).double()), theirs(batch)
    torch.testing.assert_close(ours.mean, theirs.running_mean, rtol=1e-3, atol=1e-3)


def test_a_batch_in_bf16_is_standardised_in_float32():
    x = torch.randn(4096, 8, generator=torch.Generator().manual_seed(0)) + 30
    z = Standardise(8)(x.bfloat16())
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.mean(0), torch.zeros(8), rtol=0, atol=1e-4)


@pytest.mark.parametrize("share", [None, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_a_folded_projector_has_the_same_output(share, bias):
    rectifier = NonNegative("relu", share=share, features=None if share is None else 8)
    projector = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 8, bias=bias), Standardise(8), rectifier)
    for seed in range(20):
        projector(torch.randn(64, 5, generator=torch.Generator().manual_seed(seed)))
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(100))
    short = folded(projector.eval())
    assert [type(layer) for layer in short] == [nn.Linear, nn.ReLU, nn.Linear, NonNegative]
    torch.testing.assert_close(short(x), projector(x))


def test_a_projector_that_does_not_standardise_is_not_folded():
    for layers in ([nn.Linear(5, 8), NonNegative()], [Standardise(8)], [], [nn.ReLU(), Standardise(8), NonNegative()]):
        projector = nn.Sequential(*layers)
        assert folded(projector) is projector


def test_thresholds_are_saved_and_a_share_is_part_of_the_saved_kind():
    trained = NonNegative("relu", share=0.1, features=8)
    for seed in range(10):
        trained(skewed(256, seed))
    again = NonNegative("relu", share=0.1, features=8)
    again.load_state_dict(trained.state_dict())
    assert torch.equal(again.threshold, trained.threshold)
    with pytest.raises(ValueError, match=r"relu:0.1.*relu:0.2"):
        NonNegative("relu", share=0.2, features=8).load_state_dict(trained.state_dict())


@pytest.mark.parametrize("kind", WITH_SHARE)
def test_compiled_and_exported_ends_equal_the_module(kind):
    end = nn.Sequential(nn.Linear(5, 8), Standardise(8), NonNegative(kind, share=0.1, features=8))
    twin = copy.deepcopy(end)
    compiled = torch.compile(twin, backend="aot_eager")
    for seed in range(5):
        x = torch.randn(32, 5, generator=torch.Generator().manual_seed(seed))
        both = compiled(x), end(x)
        torch.testing.assert_close(*both)
        for output in both:
            output.sum().backward()  # with the thresholds of the forward pass, which have moved since
        torch.testing.assert_close(twin[0].weight.grad, end[0].weight.grad)
    torch.testing.assert_close(twin[2].threshold, end[2].threshold)
    exported = torch.export.export(end.eval(), (x,)).module()
    torch.testing.assert_close(exported(x), end(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiling_keeps_the_running_statistics(dtype):
    standardise = Standardise(3).to(dtype)
    twin = copy.deepcopy(standardise)
    compiled = torch.compile(twin, backend="aot_eager")
    for seed in range(2):
        x = torch.randn(16, 3, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        compiled(x), standardise(x)
    torch.testing.assert_close(twin.state_dict(), standardise.state_dict())


@pytest.mark.parametrize("samples", [2, 9, 100])
def test_after_calibration_every_feature_is_active_on_at_least_one_sample(samples):
    standardise, rectifier = Standardise(4), NonNegative("relu", share=0.001, features=4)
    z = torch.randn(samples, 4, generator=torch.Generator().manual_seed(0))
    calibrate(standardise, rectifier, z)
    assert (rectifier.eval()(standardise.eval()(z)) > 0).sum(0).tolist() == [1] * 4


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"share": 0.0, "features": 8}, "share is 0.0"),
        ({"share": 1.0, "features": 8}, "share is 1.0"),
        ({"share": "much", "features": 8}, "share is 'much'"),
        ({"kind": "exp", "share": 0.1, "features": 8}, "share is 0.1.*exp"),
        ({"share": 0.1}, "features is None"),
        ({"share": 0.1, "features": 0}, "features is 0"),
        ({"features": 8}, "features is 8 without a share"),
    ],
)
def test_a_share_that_cannot_be_kept_is_an_error(arguments, found):
    with pytest.raises(ValueError, match=found):
        NonNegative(**arguments)
