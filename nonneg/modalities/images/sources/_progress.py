"""The progress bar of decoding, for when it takes long enough to wonder."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_PATIENCE = 2.0  # seconds


@contextmanager
def progress_bar(title: str, done: int, total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A bar over samples on standard error, shown once it has taken two seconds; call what it yields with `done`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(f"decoding {title}", total=total, completed=done)
    begun, running = time.monotonic(), False

    def update(done: int) -> None:
        nonlocal running, show
        bar.update(task, completed=done)
        if show and not running and time.monotonic() - begun > _PATIENCE:
            try:
                bar.start()
                running = True
            except LiveError:  # the caller shows a bar of its own
                show = False

    try:
        yield update
    finally:
        if running:
            bar.stop()
