"""What a training run shows while it goes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

_CONSOLE = Console(stderr=True)  # results go to standard output, progress beside it
_FIGURES = {
    "loss": "loss {:.3f}",
    "lr": "lr {:.2g}",
    "sparsity": "sparsity {:.0%}",
    "dead": "dead {}",
    "effective_rank": "rank {:.0f}",
    "probe": "probe {:.0%}",
    "class_consistency": "consistency {:.0%}",
    "views_per_second": "{:,.0f} views/s",
}


def say(sentence: str) -> None:
    """A line beside the progress bar."""
    _CONSOLE.print(sentence, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(epochs: int, done: int, title: str, show: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar over epochs with a line of figures below; call what it yields with each epoch's log line.

    In a file instead of a terminal, a line an epoch.
    """
    if not show:
        yield lambda line: None
        return
    if not _CONSOLE.is_terminal:
        yield lambda line: say(f"{title}: epoch {line['epoch']}/{epochs}  {_figures(line)}")
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=_CONSOLE,
    )
    task = bar.add_task(title, total=epochs, completed=done)
    figures = Text()
    with Live(Group(bar, figures), console=_CONSOLE, refresh_per_second=4):

        def advance(line: dict[str, Any]) -> None:
            figures.plain = _figures(line)
            bar.advance(task)

        yield advance


def _figures(line: dict[str, Any]) -> str:
    return "  ".join(form.format(line[name]) for name, form in _FIGURES.items() if name in line)
