import sys

import pytest
import torch


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
