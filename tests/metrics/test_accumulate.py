import os
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp
import torch
from torchmetrics import MetricCollection

from nonneg.metrics import accumulate
from tests.metrics.accumulated import CASES, data, difference

HERE = Path(__file__).parent


def seen(metric, z, labels, size=7, kind=lambda batch: batch):
    for rows in torch.arange(len(z)).split(size):
        metric.update(*((kind(z[rows]), labels[rows])[: 2 if isinstance(metric, accumulate.ClassConsistency) else 1]))
    return metric


@pytest.mark.parametrize("kind", [lambda z: z, lambda z: sp.csr_array(z.numpy())], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", CASES)
def test_batches_give_what_the_pure_function_gives_on_all_data(name, kind):
    build, pure = CASES[name]
    z, labels = data()
    assert difference(seen(build(), z, labels, kind=kind).compute(), pure(z, labels)) < 1e-9


@pytest.mark.parametrize("name", CASES)
def test_a_reset_metric_begins_anew(name):
    build, pure = CASES[name]
    z, labels = data()
    metric = seen(build(), z * 2 + 1, labels)
    metric.reset()
    assert difference(seen(metric, z, labels).compute(), pure(z, labels)) < 1e-9


def test_two_processes_give_what_the_pure_functions_give_on_all_data():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    result = subprocess.run(
        [*command, str(HERE / "two_processes.py")], capture_output=True, text=True, timeout=240, env=environment
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("rank 1:") == len(CASES)


def test_the_classes_work_in_torchmetrics_collections():
    z, _ = data()
    together = MetricCollection([accumulate.Sparsity(), accumulate.Hoyer()])
    together.update(z)
    assert set(together.compute()) == {"Sparsity", "Hoyer"}
    assert float(accumulate.Sparsity()(z)) == pytest.approx(float(together.compute()["Sparsity"]))


def test_other_numbers_of_features_or_classes_are_refused():
    with pytest.raises(ValueError, match="Correlation: z has 3 features, expected 5"):
        accumulate.Correlation(5).update(torch.ones(2, 3))
    with pytest.raises(ValueError, match="ClassConsistency: labels go up to 4, expected at most 1"):
        accumulate.ClassConsistency(3, 2).update(torch.ones(2, 3), [0, 4])
