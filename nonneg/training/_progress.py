"""The progress of a training run: a bar with a line of figures in a terminal, one line per epoch in a file."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from nonneg.progress import print_line

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


class EpochProgress:
    """The progress of a run: `figures` is a line of text below `bar`."""

    def __init__(self, title: str, epochs: int, done: float, console: Console, prints: bool) -> None:
        self.title, self.epochs, self.console, self.prints = title, epochs, console, prints
        self.figures = Text()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}/{task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.bar.add_task(title, total=epochs, completed=done, epoch=int(done))  # type: ignore[arg-type]

    def epoch_done(self, line: dict[str, Any]) -> None:
        """Show an epoch's line of the log."""
        self.figures.plain = "  ".join(form.format(line[name]) for name, form in _FIGURES.items() if name in line)
        self.bar.update(self.task, completed=line["epoch"], epoch=line["epoch"])
        if self.prints:
            print_line(f"{self.title}: epoch {line['epoch']}/{self.epochs}  {self.figures.plain}", console=self.console)

    def move_to(self, epochs: float) -> None:
        """Show how many epochs are done, with fractions; takes ten microseconds, so call it after every step."""
        self.bar.update(self.task, completed=epochs)


@contextmanager
def epoch_progress(
    epochs: int, done: float, title: str, show: bool, console: Console | None = None
) -> Iterator[EpochProgress]:
    """Show the progress of a run over its epochs, on standard error unless another console is given."""
    console = console or Console(stderr=True)
    shown = EpochProgress(title, epochs, done, console, prints=show and not console.is_terminal)
    live = Live(Group(shown.bar, shown.figures), console=console, refresh_per_second=4)
    with live if show and console.is_terminal else nullcontext():
        yield shown
