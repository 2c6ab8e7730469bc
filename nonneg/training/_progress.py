"""The progress of a training run: a bar with a line of figures in a terminal, one line per epoch in a file."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

_SECONDS_BETWEEN_UPDATES = 0.1
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


def print_line(sentence: str, console: Console | None = None) -> None:
    """Print a line to standard error; standard output is for results."""
    console = console or Console(stderr=True)
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)


class EpochProgress:
    """Receives the progress of a run; this class shows nothing."""

    def epoch_done(self, line: dict[str, Any]) -> None:
        """Show an epoch's line of the log."""

    def move_to(self, epochs: float) -> None:
        """Show how many epochs are done, with fractions; cheap enough to call after every step."""


class _Lines(EpochProgress):
    def __init__(self, title: str, epochs: int, console: Console) -> None:
        self.title, self.epochs, self.console = title, epochs, console

    def epoch_done(self, line: dict[str, Any]) -> None:
        print_line(f"{self.title}: epoch {line['epoch']}/{self.epochs}  {_figures(line)}", self.console)


class _Bar(EpochProgress):
    def __init__(self, title: str, epochs: int, done: float, console: Console) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}/{task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.bar.add_task(title, total=epochs, completed=done, epoch=int(done))  # type: ignore[arg-type]
        self.figures = Text()
        self._next_update = 0.0

    def epoch_done(self, line: dict[str, Any]) -> None:
        self.figures.plain = _figures(line)
        self.bar.update(self.task, completed=line["epoch"], epoch=line["epoch"])

    def move_to(self, epochs: float) -> None:
        now = time.monotonic()
        if now >= self._next_update:
            self._next_update = now + _SECONDS_BETWEEN_UPDATES
            self.bar.update(self.task, completed=epochs)


@contextmanager
def epoch_progress(
    epochs: int, done: float, title: str, show: bool, console: Console | None = None
) -> Iterator[EpochProgress]:
    """Show the progress of a run over its epochs, on standard error unless another console is given."""
    console = console or Console(stderr=True)
    if not show:
        yield EpochProgress()
    elif not console.is_terminal:
        yield _Lines(title, epochs, console)
    else:
        shown = _Bar(title, epochs, done, console)
        with Live(Group(shown.bar, shown.figures), console=console, refresh_per_second=4):
            yield shown


def _figures(line: dict[str, Any]) -> str:
    return "  ".join(form.format(line[name]) for name, form in _FIGURES.items() if name in line)
