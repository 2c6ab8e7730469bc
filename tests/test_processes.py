import pytest

from nonneg.processes import Processes, launched_processes

SLURM = {"SLURM_NTASKS_PER_NODE": "4", "SLURM_NNODES": "3", "SLURM_PROCID": "5", "SLURM_LOCALID": "1"}
TORCHRUN = {"RANK": "6", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0"}


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in (*SLURM, *TORCHRUN, "SLURM_STEP_ID", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_launcher_there_is_one_process():
    assert launched_processes() == Processes(rank=0, total=1, local_rank=0, here=1)
    assert launched_processes().is_first and launched_processes().nodes == 1


def test_torchrun_sets_rank_and_number_of_processes(monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert launched_processes() == Processes(rank=6, total=8, local_rank=0, here=2)
    assert launched_processes().nodes == 4 and not launched_processes().is_first


def test_srun_sets_rank_and_number_of_processes(monkeypatch):
    for name, value in {**SLURM, "SLURM_STEP_ID": "0"}.items():
        monkeypatch.setenv(name, value)
    assert launched_processes() == Processes(rank=5, total=12, local_rank=1, here=4)


def test_a_slurm_batch_script_or_shell_is_one_process(monkeypatch):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    assert launched_processes().total == 1
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    assert launched_processes().total == 1
