"""The reference of commands, made from their help texts."""

import io
import os
import re
import sys
from contextlib import redirect_stdout
from unittest.mock import patch

from nonneg.cli import main

# A line of `nonneg --help` that begins with the name of a command, in a box or not.
_NAME = re.compile(r"^[│|\s•]*([a-z]+)\s{2,}[^│|\s]", re.MULTILINE)
_WIDTH = "88"


def command_reference() -> str:
    """Return Markdown with the help text of every command, and of one recipe with all fields of a training run."""
    overview = help_text()
    names = [name for name in _NAME.findall(overview) if help_text(name) not in ("", overview)]
    if "convert" not in names or "train" not in names:
        raise ValueError(f"nonneg --help names the commands {names}, expected convert and train among them")
    calls = [(name,) for name in names] + [("train", "images")]
    sections = [f"## nonneg {' '.join(call)}\n\n{_block(help_text(*call))}" for call in calls]
    return "\n".join([_block(overview), *sections])


def help_text(*command: str) -> str:
    """Return what `nonneg COMMAND --help` prints; empty if there is no such command."""
    printed = io.StringIO()
    settings = {"COLUMNS": _WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    with patch.object(sys, "argv", ["nonneg", *command, "--help"]), patch.dict(os.environ, settings):
        try:
            with redirect_stdout(printed):
                main()
        except SystemExit as stopped:
            if stopped.code:
                return ""
    return printed.getvalue()


def _block(text: str) -> str:
    lines = (line.rstrip() for line in text.strip().splitlines())
    return "```text\n" + "\n".join(lines) + "\n```\n"
