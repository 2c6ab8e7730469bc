"""What a training run shows while it goes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_CONSOLE = Console(stderr=True)  # results go to standard output, progress beside it


def say(sentence: str) -> None:
    """A line beside the progress bar."""
    _CONSOLE.print(sentence, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(epochs: int, done: int, title: str, show: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar over epochs; call what it yields with each epoch's log line."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=_CONSOLE,
        disable=not show,
    )
    with bar:
        task = bar.add_task(title, total=epochs, completed=done, figures="")

        def advance(line: dict[str, Any]) -> None:
            figures = f"loss {line['loss']:.3f}  sparsity {line['sparsity']:.0%}  live {line['live']}"
            if "probe" in line:
                figures += f"  probe {line['probe']:.0%}"
            bar.update(task, advance=1, figures=f"{figures}  {line['views_per_second']:,.0f} views/s")

        yield advance
