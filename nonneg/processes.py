"""Which of several processes this is, as torchrun or srun started them, and how many cores and bytes it has."""

import os
from dataclasses import dataclass
from pathlib import Path

from nonneg.errors import InputError

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Processes:
    """Processes that work together.

    Attributes:
        rank: which of them this is, from 0 on.
        total: how many there are.
        local_rank: which of those on this machine this is.
        here: how many are on each machine.
    """

    rank: int = 0
    total: int = 1
    local_rank: int = 0
    here: int = 1

    @property
    def is_first(self) -> bool:
        """The one that speaks and writes."""
        return self.rank == 0

    @property
    def nodes(self) -> int:
        return self.total // self.here


def cores() -> int:
    """Those this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory(cgroups: Path = _CGROUPS) -> int:
    """Bytes for each process here: its share of the machine's memory, or of what its container may use of it."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of version 2 and of version 1
        try:
            least = min(least, int((cgroups / name).read_text()))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return least // launched_processes().here


def launched_processes() -> Processes:
    """Those that torchrun or srun started; one process otherwise."""
    env = os.environ
    if "RANK" in env and "WORLD_SIZE" in env:
        total = int(env["WORLD_SIZE"])
        here = int(env.get("LOCAL_WORLD_SIZE", total))
        return Processes(int(env["RANK"]), total, int(env.get("LOCAL_RANK", env["RANK"])), here)
    # A batch script and a shell of salloc have tasks to give but are none: srun makes the steps. Fabric takes jobs
    # of these two names for such shells, too.
    is_shell = env.get("SLURM_JOB_NAME") in ("bash", "interactive")
    is_step = "SLURM_STEP_ID" in env and "SLURM_PROCID" in env and not is_shell
    if is_step and "SLURM_NTASKS_PER_NODE" in env:
        here, nodes = int(env["SLURM_NTASKS_PER_NODE"]), int(env.get("SLURM_NNODES", "1"))
        return Processes(int(env["SLURM_PROCID"]), here * nodes, int(env.get("SLURM_LOCALID", "0")), here)
    tasks = int(env.get("SLURM_NTASKS", "1"))
    if is_step and tasks > 1:  # each would do the work of all
        raise InputError(f"srun started {tasks} tasks without saying how many a node has, expected --ntasks-per-node")
    return Processes()
