"""The command line. This file imports nothing slow, so that Ctrl-C works at once, and turns errors into sentences."""

import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from nonneg.errors import InputError
from nonneg.messages import one_sentence


def main() -> None:
    """Entry point of `nonneg`."""
    # A stream is None if it was closed before the start (nonneg … >&-), and then nobody wants its output.
    sys.stdout, sys.stderr = (s or Path(os.devnull).open("w") for s in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ≤ or φ shows a question mark
    try:
        from nonneg.cli._commands import run  # slow enough for someone to press Ctrl-C

        run(sys.argv[1:])
        sys.stdout.flush()
        _exit_after_gloo(0)
    except InputError as error:
        _stop(str(error), error.exit_code)
    except UnicodeEncodeError as error:  # an argument with bytes that are not UTF-8, where text is needed
        _stop(f"'{error.object[:200]}' is not valid Unicode, expected text")
    except KeyboardInterrupt as interruption:
        _stop("; ".join(["stopped", *getattr(interruption, "__notes__", ())]), 128 + signal.SIGINT)
    except BrokenPipeError:  # the reader has stopped reading, as head does
        _silence()
        sys.exit(128 + 13)  # SIGPIPE, a name that Windows lacks
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            _stop(f"{error.filename} cannot be used: {reason}")
        _silence()
        _stop(f"output cannot be written: {reason}")


def _silence() -> None:
    """Discard buffered output: flushing it at exit would fail again (a closed pipe, a full disk)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_after_gloo(exit_code: int) -> None:
    """Exit at once after working with other processes over gloo: its threads sometimes abort a normal exit."""
    dist = sys.modules.get("torch.distributed")  # not imported here: most commands use one process
    if dist is not None and dist.is_initialized() and dist.get_backend() == "gloo" and dist.get_world_size() > 1:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_code)  # files are written, and all processes have passed a barrier


def _stop(sentence: str, exit_code: int = 2) -> NoReturn:
    print(f"nonneg: {one_sentence(sentence)}", file=sys.stderr)
    _exit_after_gloo(exit_code)
    sys.exit(exit_code)
