"""What only a CUDA device can show. Run by `make test-gpu`."""

import dataclasses

import pytest
import torch

import nonneg
from nonneg import losses, metrics
from nonneg.data import open_source
from nonneg.rectify import KINDS, NonNegative
from nonneg.training import load_recipe, read_log, train
from nonneg.views import ViewConfig, two_views

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

LABELS = torch.arange(512) % 7
LOSSES = {
    "info_nce": lambda a, b: losses.info_nce(a, b),
    "info_nce in chunks": lambda a, b: losses.info_nce(a, b, chunk_rows=100),
    "spectral": lambda a, b: losses.spectral(a, b),
    "multimodal.info_nce": lambda a, b: losses.multimodal.info_nce(a, b),
    "multimodal.spectral": lambda a, b: losses.multimodal.spectral(a, b),
    "sup_con": lambda a, b: losses.supervised.sup_con(a, LABELS.to(a.device)),
    "cross_entropy": lambda a, b: losses.supervised.cross_entropy(a, LABELS.to(a.device), b[:7]),
}


def pair(device, dtype=torch.float32, rows=512):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2, rows, 64, generator=generator).relu()
    z[0, 3] = 0
    return [z[i].to(device, dtype).requires_grad_() for i in (0, 1)]


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_equal_the_cpus(name):
    results = []
    for device in ("cpu", "cuda"):
        z1, z2 = pair(device)
        value = LOSSES[name](z1, z2)
        grads = torch.autograd.grad(value, (z1, z2), allow_unused=True)
        results.append([value.detach().cpu(), *(g.cpu() for g in grads if g is not None)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(a.abs().max()))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_are_finite_in_half_precision(name, dtype):
    z1, z2 = pair("cuda", dtype)
    value = LOSSES[name](z1, z2)
    grads = torch.autograd.grad(value, (z1, z2), allow_unused=True)
    assert bool(value.isfinite())
    assert all(bool(g.isfinite().all()) for g in grads if g is not None)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in ("sup_con", "cross_entropy")])
def test_losses_and_their_checks_never_wait_for_the_device(name):
    z1, z2 = pair("cuda")
    LOSSES[name](z1, z2).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        LOSSES[name](z1, z2).backward()
        with pytest.raises(ValueError, match="expected the same"):
            losses.info_nce(z1, z2[:10])
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_supervised_losses_never_wait_for_the_device():
    z1, z2 = pair("cuda")
    labels = LABELS.cuda()
    weight = z2[:7].detach()
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses.supervised.sup_con(z1, labels).backward()
        losses.supervised.cross_entropy(z1, labels, weight).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_very_large_batch_stays_under_8_gb():
    z1, z2 = (torch.rand(65_536, 256, device="cuda", requires_grad=True) for _ in range(2))
    torch.cuda.reset_peak_memory_stats()
    losses.info_nce(z1, z2, chunk_rows=2048).backward()
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() < 8e9
    assert bool(z1.grad.isfinite().all())


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("gelu", "leaky_relu")])
def test_rectifiers_compile_for_the_device(kind):
    module = NonNegative(kind, k=4 if kind == "top_k" else None)
    x = torch.randn(64, 32, device="cuda", requires_grad=True)
    compiled = torch.compile(module, fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x)[0], torch.autograd.grad(module(x).sum(), x)[0])


def test_views_are_the_cpus():
    images = torch.from_numpy(open_source("shapes").images[:50]).permute(0, 3, 1, 2)
    config = ViewConfig(contrast=0.2)
    cpu = two_views(images, torch.arange(50), config, seed=1, epoch=2)
    gpu = two_views(images.cuda(), torch.arange(50, device="cuda"), config, seed=1, epoch=2)
    torch.testing.assert_close(gpu.cpu(), cpu, rtol=0, atol=1e-4)


def test_metrics_are_the_cpus():
    z, _ = pair("cpu")
    z = z.detach()
    for metric in (
        metrics.sparsity,
        metrics.correlation,
        metrics.effective_rank,
        lambda z: metrics.class_consistency(z, LABELS).supported,
        lambda z: metrics.class_consistency(z, LABELS).floor,
        lambda z: metrics.precision_at_k(z, LABELS),
        lambda z: metrics.mean_average_precision(z, LABELS),
    ):
        assert metric(z.cuda()) == pytest.approx(metric(z), rel=1e-4)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_runs_on_the_device(precision, tmp_path):
    config = dataclasses.replace(
        load_recipe("digits"), epochs=5, warmup_epochs=1, accelerator="cuda", precision=precision
    )
    log = read_log(train(config, tmp_path / "run", progress=False))
    assert log[-1]["loss"] < log[0]["loss"]
    assert nonneg.load(tmp_path / "run").embed(open_source("digits", "test")).shape == (397, 128)
