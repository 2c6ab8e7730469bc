"""The bar moves with the steps, without being asked to draw at each of them."""

import io

from rich.console import Console

from nonneg.training import _progress
from nonneg.training._progress import progress_bar


def terminal(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(_progress, "_CONSOLE", console)
    return console.file


def test_the_bar_moves_within_an_epoch_and_shows_figures_once_an_epoch(monkeypatch):
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN", 0.0)
    screen = terminal(monkeypatch)
    with progress_bar(4, 0.5, "training", show=True) as bar:
        (task,) = bar.bar.tasks
        assert task.completed == 0.5
        bar.at(0.75)
        assert task.completed == 0.75
        bar({"epoch": 1, "loss": 2.5})
        assert task.completed == 1
        bar.at(1.5)
    assert "epoch 1/4" in screen.getvalue()
    assert "loss 2.500" in screen.getvalue()


def test_ten_times_a_second_is_enough(monkeypatch):
    terminal(monkeypatch)
    now = iter(step / 1000 for step in range(1000))  # a second of a thousand steps
    with progress_bar(1, 0, "training", show=True) as bar:
        (task,) = bar.bar.tasks
        monkeypatch.setattr("nonneg.training._progress.time.monotonic", lambda: next(now))
        seen = set()
        for step in range(1000):
            bar.at(step / 1000)
            seen.add(task.completed)
        monkeypatch.undo()
    assert 9 <= len(seen) <= 11


def test_in_a_file_there_is_a_line_an_epoch(monkeypatch, capsys):
    with progress_bar(2, 0, "training", show=True) as bar:
        bar.at(0.5)
        bar({"epoch": 1, "loss": 2.5})
    assert capsys.readouterr().err == "training: epoch 1/2  loss 2.500\n"
