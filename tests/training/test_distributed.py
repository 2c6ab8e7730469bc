import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nonneg.errors import InputError
from nonneg.processes import launched_processes
from nonneg.training import read_log
from nonneg.training.loop import _check_batch_size

SCRIPT = Path(__file__).parent / "two_processes.py"
NAMES = ("sgd", "lars", "share", "sup_con", "spectral", "barlow_twins", "vicreg", "cross_entropy")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, torchrun):
    folder = tmp_path_factory.mktemp("runs")
    torchrun(SCRIPT, folder / "one", processes=1)
    torchrun(SCRIPT, folder / "two")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_end_with_the_parameters_of_one(name, runs):
    one, two = (load_file(runs / n / name / "model" / "model.safetensors") for n in ("one", "two"))
    weights = [key for key, tensor in one.items() if tensor.is_floating_point()]
    assert max(float((one[key] - two[key]).abs().max()) for key in weights) < 1e-8
    assert len(weights) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_log_the_same_figures_as_one(name, runs):
    one, two = (read_log(runs / n / name) for n in ("one", "two"))
    assert len(one) == len(two) == 4
    for a, b in zip(one, two, strict=True):
        learned = ("temperature", "dense_temperature") if name == "share" else ()
        for key in ("loss", "sparsity", "live", "probe", "class_consistency", "lr", *learned):
            assert a[key] == pytest.approx(b[key], abs=1e-5), key


def test_all_stopped_processes_report_that_the_checkpoint_could_not_be_written(runs):
    first, second = ((runs / "two" / f"error-{rank}").read_text() for rank in (0, 1))
    assert "step-000000010.safetensors" in first
    assert second == first


def test_a_batch_that_the_processes_cannot_divide_evenly_is_an_error():
    from nonneg.modalities.images import open_source
    from nonneg.training import TrainConfig

    for config, processes in ((TrainConfig(), 3), (TrainConfig(batch_size=2), 2), (TrainConfig(accumulate=3), 1)):
        with pytest.raises(InputError, match=rf"batch_size is {config.batch_size}.* {processes} x"):
            _check_batch_size(open_source("digits"), config, processes)


def test_several_srun_tasks_without_a_number_per_node_are_an_error(monkeypatch):
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_NAME": "embedding"}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    with pytest.raises(InputError, match=r"4 tasks.*--ntasks-per-node"):
        launched_processes()
    monkeypatch.setenv("SLURM_JOB_NAME", "interactive")
    assert launched_processes().total == 1
    monkeypatch.setenv("SLURM_JOB_NAME", "embedding")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    assert launched_processes().total == 1


def test_all_processes_end_with_the_error_of_the_first(runs, torchrun):
    command = ("-m", "nonneg", "train", "digits", "--accelerator", "cpu", "--out", runs / "two" / "sgd")
    done = torchrun(*command, succeeds=False)
    assert str(runs / "two" / "sgd") in done.stderr.replace("\n", "")
    assert "gloo" not in done.stderr.lower()


@pytest.mark.slow
def test_two_stopped_processes_resume_to_the_same_weights(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "nonneg"]
    settings = ["--accelerator", "cpu", "--epochs", "8", "--warmup-epochs", "1", "--checkpoint-steps", "7"]

    def started(name):
        command = [*torchrun, "train", "digits", *settings, "--out", str(tmp_path / name)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def finished(name):
        process = started(name)
        _, printed = process.communicate(timeout=120)
        assert process.returncode == 0, printed

    finished("whole")
    stopped = started("stopped")
    log = tmp_path / "stopped" / "log.jsonl"
    while not (log.exists() and len(read_log(log.parent)) >= 2):
        assert stopped.poll() is None
        time.sleep(0.05)
    stopped.terminate()
    assert "stopped after" in stopped.communicate(timeout=60)[1]
    finished("stopped")
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert [line["loss"] for line in read_log(tmp_path / "whole")] == [line["loss"] for line in read_log(log.parent)]
