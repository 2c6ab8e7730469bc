"""Tests that need a CUDA device. Run by `make test-gpu`."""

import copy
import dataclasses
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import nonneg
from nonneg import losses, metrics
from nonneg.codes import dense
from nonneg.modalities.graphs import ViewConfig
from nonneg.modalities.images import Images, ResNet, open_source, random_views
from nonneg.models import Model, ModelConfig, embed_rows
from nonneg.rectify import KINDS, NonNegative
from nonneg.training import load_recipe, optimiser_of, read_log, set_learning_rate, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),  # torch's own warnings differ by device and version
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
def test_losses_and_their_checks_never_wait_for_the_device(name, never_waiting):
    z1, z2 = pair("cuda")
    LOSSES[name](z1, z2).backward()
    with never_waiting():
        LOSSES[name](z1, z2).backward()
        with pytest.raises(ValueError, match=r"z1|z2"):
            losses.info_nce(z1, z2[:10])


def test_supervised_losses_never_wait_for_the_device(never_waiting):
    z1, z2 = pair("cuda")
    labels = LABELS.cuda()
    weight = z2[:7].detach()
    with never_waiting():
        losses.supervised.sup_con(z1, labels).backward()
        losses.supervised.cross_entropy(z1, labels, weight).backward()


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


VIEWS = dataclasses.replace(load_recipe("cifar10").modality.views, solarise_p=0.2, rotate=10.0, shift=0.1, noise=0.02)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_views_equal_the_cpus(compiled):
    images = torch.from_numpy(open_source("shapes").samples[:50]).permute(0, 3, 1, 2)
    make = torch.compile(random_views) if compiled else random_views
    cpu = random_views(images, torch.arange(50), VIEWS, 1, torch.tensor(2))
    gpu = make(images.cuda(), torch.arange(50, device="cuda"), VIEWS, 1, torch.tensor(2, device="cuda"))
    # A value close to one half may be solarised on one device only.
    assert float(((gpu.cpu() - cpu).abs() > 1e-3).float().mean()) < 1e-3


def test_metrics_equal_the_cpus():
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


SHORT = dataclasses.replace(load_recipe("digits"), epochs=3, warmup_epochs=1, accelerator="cuda")


NODES = load_recipe("graph").replace(epochs=8, warmup_epochs=1, batch_size=0, chunk_rows=700, accelerator="cuda")


@pytest.mark.parametrize("changes", [{}, {"rectify": "none"}, {"weighting": "page_rank"}], ids=["ncl", "cl", "gca"])
def test_a_recorded_step_on_a_graph_agrees_with_an_eager_one(changes, tmp_path):
    config = NODES.without_rectifier() if "rectify" in changes else NODES
    if "weighting" in changes:
        config = config.replace(views=ViewConfig((0.3, 0.4), (0.3, 0.4), "page_rank", (0.1, 0.0)))
    recorded, eager = (losses_of(config.replace(compile=path), tmp_path / path) for path in ("record", "off"))
    assert recorded == pytest.approx(eager, abs=1e-2)
    assert recorded[-1] < recorded[0]


def test_auto_records_a_step_on_the_nodes_of_a_graph(tmp_path, capsys):
    train(NODES, tmp_path / "run")
    assert "not compiled, the whole step replayed as one CUDA graph" in capsys.readouterr().err


def losses_of(config, folder):
    return [line["loss"] for line in read_log(train(config, folder, progress=False))]


@pytest.mark.parametrize(
    ("optimiser", "lr", "precision", "tolerance"),
    [("adamw", 0.003, "32-true", 1e-2), ("lars", 0.4, "bf16-mixed", 3e-2), ("sgd", 0.1, "bf16-mixed", 3e-2)],
    ids=["adamw", "lars", "sgd"],
)
def test_the_three_paths_agree_on_the_first_losses(optimiser, lr, precision, tolerance, tmp_path):
    config = dataclasses.replace(SHORT, optimiser=optimiser, lr=lr, precision=precision)
    runs = {
        path: losses_of(dataclasses.replace(config, compile=path), tmp_path / path)
        for path in ("off", "forward", "graph")
    }
    for path in ("forward", "graph"):
        # The first epoch has five steps; after that, differences in rounding grow.
        assert runs[path][0] == pytest.approx(runs["off"][0], abs=tolerance), path
        assert runs[path] == pytest.approx(runs["off"], abs=max(3 * tolerance, 5e-2)), path
    assert runs["graph"][-1] < runs["graph"][0]


@pytest.mark.filterwarnings("error:TensorFloat32")
def test_auto_records_the_step_as_a_graph_and_hides_the_compilers_advice(tmp_path, capsys):
    train(SHORT, tmp_path / "run")
    assert "the whole step replayed as one CUDA graph" in capsys.readouterr().err
    assert nonneg.load(tmp_path / "run").embed(open_source("digits", "test"), device="cuda").shape == (397, 128)


def test_a_share_is_kept_in_every_path(tmp_path):
    config = dataclasses.replace(
        SHORT,
        standardise=True,
        first_share=0.5,
        share=0.1,
        first_dense_weight=0.5,
        temperature=0.1,
        epochs=20,
        precision="bf16-mixed",
    )
    for path in ("off", "forward", "graph"):
        last = read_log(train(dataclasses.replace(config, compile=path), tmp_path / path, progress=False))[-1]
        assert last["live"] == config.features, path
        assert last["sparsity"] == pytest.approx(0.9, abs=0.01), path


@pytest.mark.parametrize("loss", ["spectral", "sup_con", "cross_entropy"])
def test_every_loss_can_be_recorded(loss, tmp_path):
    found = losses_of(dataclasses.replace(SHORT, loss=loss, lr=0.001, compile="graph"), tmp_path / "run")
    assert found[-1] < found[0]


def test_a_stopped_recorded_run_resumes(tmp_path):
    config = dataclasses.replace(SHORT, epochs=400)
    whole = losses_of(config, tmp_path / "whole")
    command = [sys.executable, "-m", "nonneg", "train", "digits", "--epochs", "400", "--warmup-epochs", "1"]
    command += ["--accelerator", "cuda", "--out", str(tmp_path / "stopped")]
    process = subprocess.Popen(command)
    while not (tmp_path / "stopped" / "log.jsonl").exists() and process.poll() is None:
        time.sleep(0.01)
    process.terminate()
    assert process.wait(60) == 143
    train(config, tmp_path / "stopped", progress=False)
    stopped = [line["loss"] for line in read_log(tmp_path / "stopped")]
    assert len(stopped) == 400
    assert stopped[:2] == pytest.approx(whole[:2], abs=2e-2)  # rounding errors grow from epoch to epoch
    assert stopped[2:5] == pytest.approx(whole[2:5], abs=0.1)
    assert stopped[-1] == pytest.approx(whole[-1], abs=0.1)


def test_data_read_ahead_from_disk_gives_the_same_losses(tmp_path):
    np.save(tmp_path / "images.npy", open_source("digits").samples)
    config = dataclasses.replace(SHORT, data=str(tmp_path / "images.npy"))
    device, disk = (
        losses_of(dataclasses.replace(config, data_on=where), tmp_path / where) for where in ("device", "disk")
    )
    assert disk[0] == pytest.approx(device[0], abs=1e-3)
    assert disk == pytest.approx(device, abs=2e-2)  # rounding errors grow from epoch to epoch


def test_lars_never_waits_for_the_device(never_waiting):
    params = [torch.nn.Parameter(torch.randn(8, 8, device="cuda")), torch.nn.Parameter(torch.randn(8, device="cuda"))]
    optimiser = optimiser_of(params, load_recipe("cifar10"), torch.device("cuda"))
    for p in params:
        p.grad = torch.ones_like(p)
    optimiser.step()
    with never_waiting():
        optimiser.step()
        set_learning_rate(optimiser, 0.2)


def test_embedding_equals_the_cpus():
    torch.manual_seed(0)
    model = Model(ModelConfig("resnet18", Images(channels=3, stem="small"), features=64))
    source = open_source("shapes", "test")
    cpu = model.embed(source)
    gpu = model.embed(source, device="cuda", batch_size=100)
    np.testing.assert_allclose(dense(cpu.codes), dense(gpu.codes), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(gpu.pixels, cpu.pixels)


def test_embedding_waits_for_the_device_only_through_events(never_waiting):
    model = Model(ModelConfig("resnet18", Images(channels=3, stem="small"), features=64)).cuda()
    source = open_source(np.zeros((32, 32, 32, 3), np.uint8))

    def embedded():
        batches = embed_rows(model, source, range(32), batch_size=8, precision="bf16-mixed")
        return [batch.layers["projector"].shape for batch in batches]

    embedded()
    with never_waiting():  # does not count waiting for events
        assert embedded() == [(8, 64)] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(128, 64, 32, 32), (512, 512, 4, 4), (3, 64, 5, 7), (5, 24, 9, 3)], ids=str)
def test_sums_of_batch_norm_equal_the_cpus(shape, dtype):
    torch.manual_seed(0)
    channels = shape[1]
    x, slope = ((2 * torch.randn(shape) + 1).to(dtype).contiguous(memory_format=torch.channels_last) for _ in range(2))
    weight, bias, running_mean, running_var = (torch.rand(channels) for _ in range(4))
    results = []
    for device in ("cpu", "cuda"):
        running = [given.clone().to(device) for given in (running_mean, running_var, torch.tensor(7))]
        given = [given.to(device) for given in (x, weight, bias)]
        scaling = torch.ops.nonneg.moments(*given, *running, 0.1, 1e-5)
        slopes = [torch.ops.nonneg.slopes(given[0], slope.to(device), scaling, relu) for relu in (False, True)]
        results.append([tensor.cpu() for tensor in (scaling, *running, *slopes)])
    for a, b in zip(*results, strict=True):
        # An element that is 0 except for rounding may be rectified on one device only.
        torch.testing.assert_close(b, a, rtol=1e-3, atol=2e-4 * float(a.abs().max()))


def trained_once(network, forward, views, dtype):
    """Return all gradients and all buffers of a network after a pass over views, each as one vector."""
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        h = forward(views)
    h.double().square().mean().backward()
    return [
        torch.cat([t.double().flatten() for t in ts])
        for ts in ([p.grad for p in network.parameters()], network.buffers())
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_a_compiled_network_are_as_exact_as_eager_ones(dtype):
    torch.manual_seed(0)
    torch._dynamo.reset()  # code compiled by another test for other shapes would be used
    plain = ResNet(18, stem="small").cuda().to(memory_format=torch.channels_last)
    compiled, exact = copy.deepcopy(plain), copy.deepcopy(plain).double()
    views = torch.rand(64, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    truth = trained_once(exact, exact, views.double(), torch.float64)
    theirs = trained_once(plain, plain, views, dtype)
    with torch.profiler.profile() as profile:
        ours = trained_once(compiled, torch.compile(compiled, dynamic=False), views, dtype)
    for a, b, c in zip(truth, theirs, ours, strict=True):
        assert float((c - a).norm()) < 1.5 * float((b - a).norm()) + 1e-4 * float(a.norm())
    assert any("nonneg::moments" in event.key for event in profile.key_averages())  # our batch norm is used


def test_batch_norm_of_our_own_is_not_exported():
    network = ResNet(18, stem="small").cuda().to(memory_format=torch.channels_last)
    views = torch.rand(8, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    exported = torch.export.export(network, (views,)).module()
    with torch.profiler.profile() as profile:
        exported(views)
    assert not any("nonneg::moments" in event.key for event in profile.key_averages())


def test_converting_vectors_gives_the_same_quality_as_on_the_cpu():
    rng = np.random.default_rng(0)
    kinds = np.arange(2000) % 8
    X = (rng.normal(size=(8, 32))[kinds] + 0.5 * rng.normal(size=(2000, 32))).astype(np.float32)
    settings = {"n_components": 64, "max_active": 8, "max_iter": 200, "random_state": 0}
    gpu = nonneg.NonNegativeEmbedding(**settings, device="cuda").fit(torch.from_numpy(X).cuda())
    cpu = nonneg.NonNegativeEmbedding(**settings, device="cpu").fit(X)
    assert gpu.score(X) == pytest.approx(cpu.score(X), abs=0.1)
    on_cpu = gpu.set_params(device="cpu").transform(X).toarray()
    on_gpu = gpu.set_params(device="cuda").transform(torch.from_numpy(X).cuda()).toarray()
    np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-3)
    pair = nonneg.NonNegativePair(**settings, device="cuda").fit(X[:, :16], X[:, 16:])
    assert pair.score(X[:500, :16], X[:500, 16:]) > 0.01
