import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch


def pytest_configure():
    """Let started processes receive Ctrl-C, which a shell makes its background jobs ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Give slow tests half an hour, unless they say otherwise: the machine may be busy."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="module")
def one_thread():
    """Small fits wait more than they gain with several threads, most of all where other tests run beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def command(monkeypatch, capsys):
    """Run nonneg in this process: exit code, standard output, standard error.

    A process of its own would take seconds to import torch. An exception other than an exit would be a traceback to
    the user, and fails.
    """
    from nonneg.cli import main

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nonneg", *arguments])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def torchrun():
    """Run a script, or `-m` and a module, in several processes, or in one of its own without torchrun."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}

    def run(*command, processes=2, succeeds=True) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, *(launcher if processes == 2 else ()), *map(str, command))
        done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)
        assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def never_waiting():
    """A context in which waiting for the CUDA device is an error, except through events."""

    @contextmanager
    def context():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return context
