"""The progress bar of commands that take long."""

from rich.console import Console
from rich.progress import Progress


def progress_bar(wanted: bool) -> Progress:
    """Return a progress bar on standard error, disabled unless that is a terminal."""
    console = Console(stderr=True)
    return Progress(console=console, disable=not (wanted and console.is_terminal), transient=True)
