"""What a training run shows while it goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

_CONSOLE = Console(stderr=True)  # results go to standard output, progress beside it
_SECONDS_BETWEEN = 0.1  # two movements of the bar
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


class Shown:
    """What is called as a run goes on; by itself it shows nothing."""

    def __call__(self, line: dict[str, Any]) -> None:
        """An epoch is over; this is its line of the log."""

    def at(self, epochs: float) -> None:
        """So many epochs are done, parts of one counted. Cheap enough for every step."""


class _Lines(Shown):
    """A line an epoch, in a file instead of a terminal."""

    def __init__(self, title: str, epochs: int) -> None:
        self.title, self.epochs = title, epochs

    def __call__(self, line: dict[str, Any]) -> None:
        say(f"{self.title}: epoch {line['epoch']}/{self.epochs}  {_figures(line)}")


class _Bar(Shown):
    """A bar over epochs that moves with the steps, and a line of figures below."""

    def __init__(self, title: str, epochs: int, done: float) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}/{task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=_CONSOLE,
        )
        self.task = self.bar.add_task(title, total=epochs, completed=done, epoch=int(done))  # type: ignore[arg-type]
        self.figures = Text()
        self._next = 0.0

    def __call__(self, line: dict[str, Any]) -> None:
        self.figures.plain = _figures(line)
        self.bar.update(self.task, completed=line["epoch"], epoch=line["epoch"])

    def at(self, epochs: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SECONDS_BETWEEN
            self.bar.update(self.task, completed=epochs)


@contextmanager
def progress_bar(epochs: int, done: float, title: str, show: bool) -> Iterator[Shown]:
    """A bar over epochs with a line of figures below; call what it yields with each epoch's log line.

    In a file instead of a terminal, a line an epoch.
    """
    if not show:
        yield Shown()
    elif not _CONSOLE.is_terminal:
        yield _Lines(title, epochs)
    else:
        shown = _Bar(title, epochs, done)
        with Live(Group(shown.bar, shown.figures), console=_CONSOLE, refresh_per_second=4):
            yield shown


def _figures(line: dict[str, Any]) -> str:
    return "  ".join(form.format(line[name]) for name, form in _FIGURES.items() if name in line)
