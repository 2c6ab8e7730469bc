"""What commands that take long show on standard error, since standard output is for results."""

from rich.console import Console
from rich.progress import Progress


def progress_bar(wanted: bool) -> Progress:
    """Return a progress bar on standard error, disabled unless that is a terminal."""
    console = Console(stderr=True)
    return Progress(console=console, disable=not (wanted and console.is_terminal), transient=True)


def print_line(sentence: str, style: str | None = None, console: Console | None = None) -> None:
    """Print a line to standard error, or another console, with file names exactly as they are."""
    console = console or Console(stderr=True)
    console.print(sentence, style=style, soft_wrap=True, markup=False, emoji=False, highlight=False)
