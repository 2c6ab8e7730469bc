"""Forked children: a process that is killed, or that may crash, costs a fork instead of an import of torch.

The parent must not have used torch's or numba's threads: a fork copies only the thread that calls it.
"""

import importlib
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_SECONDS = 120  # after which a child that does not end counts as a defect


def start(work: Callable[[], Any], answer: Path) -> int:
    """Fork a child that writes what `work` returns or raises to a file, and return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(_SECONDS)
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        warnings.simplefilter("ignore")
        answer.write_bytes(pickle.dumps(work()))
        code = 0
    except BaseException:
        answer.write_text(traceback.format_exc())
    os._exit(code)


def ended(pid: int) -> int:
    """Wait for a child and return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def answered(work: Callable[[], Any], answer: Path) -> Any:
    """Run `work` in a child and return its result.

    Raises:
        RuntimeError: if it raises an exception, crashes or takes too long.
    """
    answer.unlink(missing_ok=True)
    code = ended(start(work, answer))
    if code:
        reason = answer.read_text() if answer.exists() else "nothing more is known"
        raise RuntimeError(f"a child ended with {code}: {reason}")
    return pickle.loads(answer.read_bytes())


def timed(work: Callable[[], Any], answer: Path) -> tuple[float, Any]:
    """Run `work` in a child; return the seconds that it took, fork included, and its result."""
    began = time.perf_counter()
    result = answered(work, answer)
    return time.perf_counter() - began, result


def import_modules_of(work: Callable[[], Any], answer: Path) -> None:
    """Import here what `work` imports in a child, so that later children need not."""

    def names() -> list[str]:
        work()
        return list(sys.modules)

    for name in answered(names, answer):
        if name not in sys.modules:
            with suppress(Exception):  # some modules can be imported only by their package
                importlib.import_module(name)
