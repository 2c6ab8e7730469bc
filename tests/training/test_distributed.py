import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from nonneg.errors import InputError
from nonneg.training import read_log
from nonneg.training.loop import _share

SCRIPT = Path(__file__).parent / "two_processes.py"
NAMES = ("sgd", "lars", "sup_con", "spectral", "cross_entropy")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*command):
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=250, env=ENVIRONMENT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run(str(SCRIPT), str(folder / "one"))
    run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT), str(folder / "two"))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_end_with_the_parameters_of_one(name, runs):
    one, two = (load_file(runs / n / name / "model" / "model.safetensors") for n in ("one", "two"))
    weights = [key for key, tensor in one.items() if tensor.is_floating_point()]
    assert max(float((one[key] - two[key]).abs().max()) for key in weights) < 1e-8
    assert len(weights) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_log_what_one_logs(name, runs):
    one, two = (read_log(runs / n / name) for n in ("one", "two"))
    assert len(one) == len(two) == 4
    for a, b in zip(one, two, strict=True):
        for key in ("loss", "sparsity", "live", "probe", "class_consistency", "lr"):
            assert a[key] == pytest.approx(b[key], abs=1e-5), key


def test_a_batch_that_processes_cannot_share_is_refused():
    from nonneg.data import open_source
    from nonneg.training import TrainConfig

    for config, processes in ((TrainConfig(), 3), (TrainConfig(batch_size=2), 2), (TrainConfig(accumulate=3), 1)):
        with pytest.raises(InputError, match=f"expected a multiple of processes x accumulate, {processes} x"):
            _share(open_source("digits"), config, processes)


def test_a_refusal_is_said_by_all_processes_and_none_waits(runs):
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "nonneg", "train", "digits"]
    command += ["--accelerator", "cpu", "--out", str(runs / "two" / "sgd")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode != 0
    assert "sgd exists already" in done.stderr
    assert "gloo" not in done.stderr.lower()
