"""The progress bar of a training run."""

import io

from rich.console import Console

from nonneg.training._progress import epoch_progress


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def test_the_bar_moves_within_an_epoch_and_shows_figures_once_per_epoch():
    console = terminal()
    with epoch_progress(4, 0.5, "training", show=True, console=console) as bar:
        (task,) = bar.bar.tasks
        assert task.completed == 0.5
        bar.move_to(0.75)
        assert task.completed == 0.75
        bar.epoch_done({"epoch": 1, "loss": 2.5})
        assert task.completed == 1
    assert "epoch 1/4" in console.file.getvalue()
    assert "loss 2.500" in console.file.getvalue()


def test_a_file_gets_one_line_per_epoch(capsys):
    with epoch_progress(2, 0, "training", show=True) as bar:
        bar.move_to(0.5)
        bar.epoch_done({"epoch": 1, "loss": 2.5})
    assert capsys.readouterr().err == "training: epoch 1/2  loss 2.500\n"


def test_nothing_is_shown_unless_wanted(capsys):
    with epoch_progress(2, 0, "training", show=False) as bar:
        bar.epoch_done({"epoch": 1, "loss": 2.5})
    assert capsys.readouterr().err == ""
