"""The progress bar of a training run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(epochs: int, title: str, show: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar over epochs; call what it yields with each epoch's log line."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),  # results go to standard output, progress beside it
        disable=not show,
    )
    with bar:
        task = bar.add_task(title, total=epochs, figures="")

        def advance(line: dict[str, Any]) -> None:
            figures = f"loss {line['loss']:.3f}  sparsity {line['sparsity']:.0%}  live {line['live']}"
            bar.update(task, advance=1, figures=figures)

        yield advance
