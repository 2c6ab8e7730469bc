import os
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp
import torch
from torchmetrics import MetricCollection

import nonneg
from nonneg.metrics import accumulate
from tests.metrics.accumulated import CASES, data, difference

HERE = Path(__file__).parent


def accumulated(metric, z, labels, size=7, kind=lambda batch: batch):
    for rows in torch.arange(len(z)).split(size):
        metric.update(*((kind(z[rows]), labels[rows])[: 2 if isinstance(metric, accumulate.ClassConsistency) else 1]))
    return metric


@pytest.mark.parametrize("kind", [lambda z: z, lambda z: sp.csr_array(z.numpy())], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", CASES)
def test_batches_give_the_result_of_the_pure_function_on_all_data(name, kind):
    build, pure = CASES[name]
    z, labels = data()
    assert difference(accumulated(build(), z, labels, kind=kind).compute(), pure(z, labels)) < 1e-9


@pytest.mark.parametrize("name", CASES)
def test_a_reset_metric_forgets_earlier_batches(name):
    build, pure = CASES[name]
    z, labels = data()
    metric = accumulated(build(), z * 2 + 1, labels)
    metric.reset()
    assert difference(accumulated(metric, z, labels).compute(), pure(z, labels)) < 1e-9


def test_two_processes_give_the_result_of_the_pure_functions_on_all_data(torchrun):
    assert torchrun(HERE / "two_processes.py").stdout.count("rank 1:") == len(CASES)


def test_the_classes_work_in_torchmetrics_collections():
    z, _ = data()
    together = MetricCollection([accumulate.Sparsity(), accumulate.Hoyer()])
    together.update(z)
    assert set(together.compute()) == {"Sparsity", "Hoyer"}
    assert float(accumulate.Sparsity()(z)) == pytest.approx(float(together.compute()["Sparsity"]))


def test_other_numbers_of_features_or_classes_are_reported():
    with pytest.raises(ValueError, match=r"z has 3.*5"):
        accumulate.Correlation(5).update(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"labels holds 4.*1"):
        accumulate.ClassConsistency(3, 2).update(torch.ones(2, 3), [0, 4])


def test_accumulate_is_an_attribute_of_metrics_that_is_imported_on_first_use():
    code = (
        "import sys, nonneg; nonneg.metrics; assert 'torchmetrics' not in sys.modules; nonneg.metrics.accumulate.Hoyer"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])})
    assert nonneg.metrics.accumulate is accumulate
    assert not hasattr(nonneg.metrics, "accumulation")
