"""The command line: argument parsing and nothing else. This file is what starts at once, and ends in one sentence."""

import io
import os
import signal
import sys
from typing import NoReturn

from nonneg.errors import InputError


def main() -> None:
    """Entry point of `nonneg`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ≤ or φ gets a question mark, not a crash
    try:
        from nonneg.cli._commands import run  # takes its time, in which somebody may change his mind

        run(sys.argv[1:])
        sys.stdout.flush()
        _end_gloo()
    except InputError as error:
        _stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        _stop("stopped", 128 + signal.SIGINT)
    except BrokenPipeError:  # whoever reads has read enough, as head does
        _silence()
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            _stop(f"{error.filename} cannot be used: {reason}")
        _silence()
        _stop(f"output cannot be written: {reason}")


def _silence() -> None:
    """What is still to be flushed at exit would fail once more (a closed pipe, a full disk)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_gloo() -> None:
    """End a process that worked with others over gloo: its threads now and then abort an orderly end."""
    dist = sys.modules.get("torch.distributed")  # not imported for this: most commands work alone
    if dist is not None and dist.is_initialized() and dist.get_backend() == "gloo" and dist.get_world_size() > 1:
        sys.stderr.flush()
        os._exit(0)  # all is written, and all processes have met at a barrier


def _stop(sentence: str, exit_code: int = 2) -> NoReturn:
    print(f"nonneg: {sentence}", file=sys.stderr)
    sys.exit(exit_code)
