"""The bar that is shown while something takes long."""

from rich.console import Console
from rich.progress import Progress


def progress_bar(wanted: bool) -> Progress:
    """On standard error, and only on a terminal: a log would get an empty line of it."""
    console = Console(stderr=True)
    return Progress(console=console, disable=not (wanted and console.is_terminal), transient=True)
