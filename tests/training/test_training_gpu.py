"""Settings of training on a CUDA device: every path gives the same losses. Run by `make test-gpu`."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg import losses
from nonneg.modalities import Source
from nonneg.modalities.images import Images
from nonneg.modalities.pairs import Pairs, pair_source
from nonneg.modalities.texts import TextRows, Texts
from nonneg.training import TrainConfig, load_recipe, read_log, train
from nonneg.training._optimisers import LARS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("default"),  # torch's own warnings differ by device and version
    pytest.mark.timeout(600),  # compiling takes longer beside other tests
]

SCRIPT = Path(__file__).parents[1] / "modalities" / "texts" / "two_processes.py"
spec = importlib.util.spec_from_file_location("two_processes_texts", SCRIPT)
texts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(texts)

ON_GPU = {"accelerator": "cuda", "precision": "32-true"}
DIGITS = load_recipe("digits").replace(epochs=3, warmup_epochs=1, **ON_GPU)
PAIRS = TrainConfig(
    modality=Pairs(first=Images(), second=Texts(length=8, vocabulary=300, width=16, depth=1, heads=2), width=32),
    encoder="convnet_8+transformer",
    epochs=3,
    warmup_epochs=1,
    batch_size=16,
    features=24,
    projector_depth=1,
    standardise=True,
    share=0.2,
    **ON_GPU,
)


def last_lines(config, folder, paths, source=None):
    """Train once per path, and return what the log says in the end."""
    logs = [
        read_log(train(config.replace(compile=path), folder / path, source=source, progress=False)) for path in paths
    ]
    assert logs[0][0]["loss"] == pytest.approx(logs[1][0]["loss"], abs=2e-2)  # rounding errors grow from epoch to epoch
    return [log[-1] for log in logs]


def test_texts_of_groups_have_the_same_loss_in_any_path(tmp_path):
    pytest.importorskip("tokenizers")
    off, graph = last_lines(texts.RUNS["groups"].replace(**ON_GPU), tmp_path, ("off", "graph"), texts.DATA)
    assert graph["loss"] == pytest.approx(off["loss"], abs=5e-2)


@pytest.mark.parametrize("path", ["off", "forward"])
def test_gradient_caching_trains_as_without_it(path, tmp_path):
    pytest.importorskip("tokenizers")
    config = texts.RUNS["groups"].replace(compile=path, **ON_GPU)
    whole, parts = (
        read_log(train(config.replace(encode_rows=rows), tmp_path / str(rows), source=texts.DATA, progress=False))
        for rows in (0, 8)
    )
    assert [line["loss"] for line in parts] == pytest.approx([line["loss"] for line in whole], abs=2e-2)


def test_gradient_caching_draws_the_same_dropout_in_both_passes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (64, 8, 8), dtype=np.uint8)
    config = TrainConfig(epochs=1, warmup_epochs=0, batch_size=64, optimiser="sgd", lr=0.1, features=16, **ON_GPU)
    weights = []
    for rows in (0, 64):
        torch.manual_seed(0)
        encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.Dropout(0.5))
        torch.cuda.manual_seed(0)
        train(config.replace(encode_rows=rows), tmp_path / str(rows), source=images, encoder=encoder, progress=False)
        weights.append(encoder[1].weight.detach().cpu())
    torch.testing.assert_close(weights[1], weights[0], atol=1e-5, rtol=1e-4)


def test_gradient_caching_takes_less_memory(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (2048, 32, 32, 3), dtype=np.uint8)
    config = TrainConfig(epochs=1, warmup_epochs=0, batch_size=1024, encoder="convnet_24", compile="off", **ON_GPU)
    peaks = []
    for rows in (0, 64):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        train(config.replace(encode_rows=rows), tmp_path / str(rows), source=images, progress=False)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] < peaks[0] / 2


def test_compiled_lars_agrees_with_the_eager_one_in_any_layout():
    generator = torch.Generator().manual_seed(0)
    shapes = ((8, 3, 3, 3), (16, 8, 1, 1), (5, 8), (7,))
    start = [torch.randn(shape, generator=generator).cuda() for shape in shapes]
    gradients = [[torch.randn(shape, generator=generator).cuda() for shape in shapes] for _ in range(3)]
    ends = []
    for compiles in (False, True):
        params = [p.clone() for p in start]
        if compiles:
            params = [p.to(memory_format=torch.channels_last) if p.dim() == 4 else p for p in params]
        optimiser = LARS(params, torch.tensor(0.4, device="cuda"), 0.9, 1e-2, 0.02)
        if compiles:
            optimiser.compile()
        for step in gradients:
            for p, g in zip(params, step, strict=True):
                p.grad = g.clone()
            optimiser.step()
        ends.append(params)
    for eager, compiled in zip(*ends, strict=True):
        torch.testing.assert_close(compiled, eager)


def test_temperatures_are_learned_in_every_path(tmp_path):
    config = DIGITS.replace(learn_temperature=True, first_dense_weight=0.5)
    off, graph = last_lines(config, tmp_path, ("off", "graph"))
    for name in ("temperature", "dense_temperature"):
        assert graph[name] == pytest.approx(off[name], rel=2e-2)
        assert graph[name] != pytest.approx(getattr(config, name), rel=1e-3)


def test_two_views_of_each_side_of_pairs_can_be_recorded(tmp_path):
    pytest.importorskip("tokenizers")
    images = np.random.default_rng(0).integers(0, 256, (48, 8, 8, 3), dtype=np.uint8)
    source = pair_source(Source("images", images), Source("texts", TextRows(texts.TEXTS[:48])))
    off, graph = last_lines(PAIRS.replace(within_weight=0.3), tmp_path, ("off", "graph"), source)
    assert graph["loss"] == pytest.approx(off["loss"], abs=5e-2)


def test_tf32_trains_nearly_as_float32_and_is_switched_off_afterwards(tmp_path):
    before = torch.get_float32_matmul_precision()
    ends = [
        read_log(train(DIGITS.replace(precision=precision), tmp_path / precision, progress=False))
        for precision in ("32-true", "tf32")
    ]
    assert ends[1][0]["loss"] == pytest.approx(ends[0][0]["loss"], abs=5e-2)
    assert torch.get_float32_matmul_precision() == before


RELATED = torch.arange(512) // 3
RELATED_LOSSES = {
    "info_nce": lambda a, b: losses.info_nce(a, b, related=RELATED.to(a.device)),
    "info_nce in chunks": lambda a, b: losses.info_nce(a, b, related=RELATED.to(a.device), chunk_rows=100),
    "spectral": lambda a, b: losses.spectral(a, b, related=RELATED.to(a.device)),
    "multimodal.info_nce": lambda a, b: losses.multimodal.info_nce(a, b, related=RELATED.to(a.device)),
    "multimodal.spectral": lambda a, b: losses.multimodal.spectral(a, b, related=RELATED.to(a.device)),
}


@pytest.mark.parametrize("name", RELATED_LOSSES)
def test_losses_of_related_pairs_equal_the_cpus(name):
    results = []
    for device in ("cpu", "cuda"):
        z = torch.randn(2, 512, 64, generator=torch.Generator().manual_seed(0)).relu().to(device).requires_grad_()
        value = RELATED_LOSSES[name](z[0], z[1])
        results.append([value.detach().cpu(), torch.autograd.grad(value, z)[0].cpu()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(a.abs().max()))
