"""Metrics on a CUDA device equal those on the CPU. Run by `make test-gpu`."""

import pytest
import torch

from nonneg import metrics
from nonneg.metrics import accumulate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

LABELS = torch.arange(300) % 7 - 1
FACTORS = {"one": torch.arange(300) % 5, "two": torch.arange(300) % 3}


def codes():
    z = (torch.randn(300, 40, generator=torch.Generator().manual_seed(0)) - 1).relu()
    z[3], z[:, 5] = 0, 0
    return z


METRICS = {
    "class_consistency": lambda z: metrics.class_consistency(z, LABELS).supported,
    "floor": lambda z: metrics.class_consistency(z, LABELS).floor,
    "entropy": lambda z: metrics.class_consistency(z, LABELS).entropy,
    "purity": lambda z: metrics.class_consistency(z, LABELS).purity,
    "activity": lambda z: metrics.activity(z).frequency,
    "live_features": metrics.live_features,
    "sparsity": metrics.sparsity,
    "hoyer": metrics.hoyer,
    "expected_activation": metrics.expected_activation,
    "correlation": metrics.correlation,
    "effective_rank": metrics.effective_rank,
    "precision_at_k": lambda z: metrics.precision_at_k(z, LABELS),
    "mean_average_precision": lambda z: metrics.mean_average_precision(z, LABELS),
    "recall_at_k": lambda z: metrics.recall_at_k(z, z.flip(1) + z, k=2),
    "match": lambda z: metrics.match(z, z.flip(1)).cosine,
    "agreement": lambda z: metrics.agreement([z, z.flip(1), z + 0.1]).value,
    "sepin": lambda z: metrics.sepin(z, z + 0.1 * z.flip(0)).per_feature,
    "sepin, not renormalised": lambda z: metrics.sepin(z, z + 0.1 * z.flip(0), renormalise=False).per_feature,
    "information gap": lambda z: metrics.mutual_information_gap(z, FACTORS).value,
    "information gap, quantiles": lambda z: metrics.mutual_information_gap(z, FACTORS, binning="zero-quantiles").value,
}


@pytest.mark.parametrize("name", METRICS)
def test_the_result_on_a_gpu_equals_that_on_the_cpu(name):
    expected, found = (torch.as_tensor(METRICS[name](z), dtype=torch.float64) for z in (codes(), codes().cuda()))
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-8)


def test_accumulated_metrics_stay_on_the_gpu():
    z = codes()
    metric = accumulate.ClassConsistency(40, 6).cuda()
    for rows in torch.arange(300).split(64):
        metric.update(z[rows].cuda(), LABELS[rows].cuda())
    expected = metrics.class_consistency(z, LABELS)
    found = metric.compute()
    assert found["value"].is_cuda
    assert float(found["supported"]) == pytest.approx(expected.supported)
    rank = accumulate.EffectiveRank(40).cuda()
    rank.update(z.cuda())
    assert float(rank.compute()) == pytest.approx(metrics.effective_rank(z), rel=1e-6)
