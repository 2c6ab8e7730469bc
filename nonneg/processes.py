"""The processes that torchrun or srun started, and the cores and memory of this one."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nonneg.errors import InputError

Result = TypeVar("Result")
_UNKNOWN = 16 << 30  # bytes, where the system does not say: Python on Windows
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Processes:
    """Processes that work together.

    Attributes:
        rank: the number of this process, from 0.
        total: number of processes.
        local_rank: the number of this process among those on its machine.
        here: number of processes per machine.
    """

    rank: int = 0
    total: int = 1
    local_rank: int = 0
    here: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes for all."""
        return self.rank == 0

    @property
    def nodes(self) -> int:
        return self.total // self.here


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory(cgroups: Path = _CGROUPS) -> int:
    """Return the bytes for each process: its share of the machine's memory, or of its container's limit."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _UNKNOWN
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroups version 2 and 1
        try:
            least = min(least, int((cgroups / name).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return least // launched_processes().here


def all_or_none(work: Callable[[], Result]) -> Result:
    """Run the work of this process; if it fails on any process, all raise the error of the first one that failed.

    All processes must call this function; it also waits for all. Without a process group it just runs the work.

    Example:
        >>> all_or_none(lambda: 2 + 2)
        4
    """
    import torch.distributed as dist  # takes a second to import

    if not dist.is_initialized():
        return work()
    result, failure = None, None
    try:
        result = work()
    except Exception as error:
        failure = error
    messages: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(messages, None if failure is None else str(failure))
    dist.barrier()  # a process that left now would close the connection before all have the messages
    if failure is not None:
        raise failure
    for message in filter(None, messages):
        raise InputError(message)
    return result  # type: ignore[return-value]


def on_first_process(work: Callable[[], Result]) -> Result | None:
    """Do the same for work that only the first process does; the others wait, and get None."""
    return all_or_none(lambda: work() if launched_processes().is_first else None)


def launched_processes() -> Processes:
    """Return the processes that torchrun or srun started; otherwise a single one."""
    env = os.environ
    if "RANK" in env and "WORLD_SIZE" in env:
        total = int(env["WORLD_SIZE"])
        here = int(env.get("LOCAL_WORLD_SIZE", total))
        return Processes(int(env["RANK"]), total, int(env.get("LOCAL_RANK", env["RANK"])), here)
    # A batch script or a shell of salloc has tasks but is none of them: srun starts the steps. Like Fabric, treat jobs
    # with these two names as such shells.
    is_shell = env.get("SLURM_JOB_NAME") in ("bash", "interactive")
    is_step = "SLURM_STEP_ID" in env and "SLURM_PROCID" in env and not is_shell
    if is_step and "SLURM_NTASKS_PER_NODE" in env:
        here, nodes = int(env["SLURM_NTASKS_PER_NODE"]), int(env.get("SLURM_NNODES", "1"))
        return Processes(int(env["SLURM_PROCID"]), here * nodes, int(env.get("SLURM_LOCALID", "0")), here)
    tasks = int(env.get("SLURM_NTASKS", "1"))
    if is_step and tasks > 1:  # each task would do all of the work
        raise InputError(f"srun started {tasks} tasks without --ntasks-per-node, expected that option as well")
    return Processes()
