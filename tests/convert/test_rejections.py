"""A call of `nonneg convert` that is rejected, or interrupted at its start, changes nothing on disk."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg import InputError
from nonneg.convert import FitConfig, NonNegativeEmbedding, convert_file
from nonneg.convert._fit import memory_errors_as_input_errors

SMALL = {"n_components": 8, "max_active": 2, "max_iter": 3, "random_state": 0}
OPTIONS = ["--n-components", "8", "--max-active", "2", "--max-iter", "3"]


class InterruptedBeforeFit(NonNegativeEmbedding):
    """The user presses Ctrl-C before the first step."""

    def begin(self, *given, **options):
        raise KeyboardInterrupt


class InterruptedAfterFit(NonNegativeEmbedding):
    """The user presses Ctrl-C after the last step."""

    def finish(self, fit):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Vectors, labels, and a run with its features."""
    folder = tmp_path_factory.mktemp("made")
    np.save(folder / "d.npy", np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32))
    np.save(folder / "y.npy", np.arange(60) % 3)
    (folder / "one.txt").write_text("cat\n" * 60)
    convert_file(str(folder / "d.npy"), folder / "runs" / "x", embedding=NonNegativeEmbedding(**SMALL), progress=False)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy to work in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nonneg(here, command):
    """Run a command; return its exit code and standard error."""
    return lambda *arguments: command(*arguments)[::2]


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


REJECTED = [
    (["--supervised"], ["--supervised", "--labels"]),
    (["--classify"], ["--classify", "--labels"]),
    (["--supervised", "--labels", "y.npy", "--pairs", "d.npy"], ["--supervised", "--pairs"]),
    (["--classify", "--labels", "one.txt"], ["one.txt", "one class"]),
    (["--seed", "-1"], ["seed is -1"]),
    (["--seed", "99999999999999999999"], ["seed is 99999999999999999999"]),
    (["--n-components", "1000000000000"], ["n_components is 1000000000000", "1048576"]),
    (["--batch-size", "1"], ["batch_size is 1", "at least 2"]),
    (["--device", "abacus"], ["device", "'abacus'"]),
    (["--labels", "nowhere.npy"], ["nowhere.npy"]),
]


@pytest.mark.parametrize(("options", "named"), REJECTED)
def test_a_rejected_overwrite_leaves_the_earlier_run_unchanged(options, named, nonneg, here):
    before = content(here)
    code, error = nonneg("convert", "d.npy", "--out", "runs/x", "--overwrite", *options)
    assert code == 2 and all(words in error for words in named) and "Traceback" not in error
    assert content(here) == before


@pytest.mark.parametrize(("options", "named"), REJECTED)
def test_a_rejected_call_leaves_no_folder(options, named, nonneg, here):
    error = nonneg("convert", "d.npy", "--out", "new/bad", *options)[1]
    assert all(words in error for words in named)
    assert not (here / "new").exists()


@pytest.mark.parametrize("out", ["", ".", "..", "/"])
def test_a_run_must_have_a_name(out, nonneg, here):
    before = content(here)
    code, error = nonneg("convert", "d.npy", "--out", out)
    assert code == 2 and f"out is {str(Path(out)) if out not in ('', '.') else '.'!r}" in error
    with pytest.raises(InputError, match=r"out is .*\.\."):
        convert_file("d.npy", here / "..", progress=False)
    assert content(here) == before


def test_a_corrected_command_runs(nonneg, here):
    assert nonneg("convert", "d.npy", "--out", "runs/bad", "--supervised", *OPTIONS)[0] == 2
    code, error = nonneg("convert", "d.npy", "--out", "runs/bad", "--supervised", "--labels", "y.npy", *OPTIONS)
    assert code == 0, error


def test_an_interruption_before_the_fit_leaves_the_earlier_run_unchanged(here):
    before = content(here)
    with pytest.raises(KeyboardInterrupt):
        convert_file("d.npy", here / "runs/x", embedding=InterruptedBeforeFit(**SMALL), overwrite=True, progress=False)
    assert content(here) == before
    with pytest.raises(KeyboardInterrupt):
        convert_file("d.npy", here / "new/y", embedding=InterruptedBeforeFit(**SMALL), progress=False)
    assert not (here / "new").exists()


def test_an_interruption_after_the_fit_keeps_the_earlier_features_and_the_run_resumes(here):
    features = content(here / "runs/x.features")
    with pytest.raises(KeyboardInterrupt):
        convert_file("d.npy", here / "runs/x", embedding=InterruptedAfterFit(**SMALL), overwrite=True, progress=False)
    assert content(here / "runs/x.features") == features
    convert_file("d.npy", here / "runs/x", embedding=NonNegativeEmbedding(**SMALL), progress=False)
    assert (here / "runs/x/model/config.json").is_file()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_stopped_run_says_how_to_resume_and_what_the_folder_holds(overwrite, nonneg, here, monkeypatch):
    def interrupt(self, *batch):
        raise KeyboardInterrupt

    options = ["--out", "runs/new", *OPTIONS, *(["--overwrite"] if overwrite else [])]
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", interrupt)
        code, error = nonneg("convert", "d.npy", *options)
    without = ", without --overwrite," if overwrite else ""
    assert (code, error) == (130, f"nonneg: stopped; run the same command again{without} to resume\n")
    for command in (["explore"], ["doctor"], ["verify"], ["search", "--like", "1"]):
        code, error = nonneg(command[0], "runs/new", *command[1:])
        assert code == 2 and "runs/new is an unfinished run of nonneg convert" in error
    assert nonneg("convert", "d.npy", *options)[0] == 0


def test_the_next_command_can_be_pasted_and_the_compared_neighbours_are_counted(command, here):
    np.save("three.npy", np.load("d.npy")[:3])
    code, printed, _ = command("convert", "three.npy", "--out", "runs/my news", *OPTIONS)
    assert code == 0 and "Next: nonneg explore 'runs/my news'\n" in printed
    assert "of the 2 nearest neighbours kept" in printed


def test_a_resumed_run_does_not_replace_features_of_another_run(here):
    def convert(kind):
        convert_file("d.npy", here / "runs/y", embedding=kind(**SMALL), progress=False)

    with pytest.raises(KeyboardInterrupt):
        convert(InterruptedAfterFit)
    shutil.copytree(here / "runs/x.features", here / "runs/y.features")
    before = content(here)
    with pytest.raises(InputError, match=r"y\.features holds features already"):
        convert(NonNegativeEmbedding)
    assert content(here) == before
    shutil.rmtree(here / "runs/y.features")
    convert(NonNegativeEmbedding)


def test_only_features_are_replaced(nonneg, here):
    (here / "runs/y.features").mkdir()
    (here / "runs/y.features/note.txt").touch()
    code, error = nonneg("convert", "d.npy", "--out", "runs/y", "--overwrite", *OPTIONS)
    assert code == 2 and "y.features holds other files (note.txt)" in error
    assert not (here / "runs/y").exists()


def test_hidden_files_of_an_interrupted_save_are_no_obstacle(here):
    (here / "runs/y.features").mkdir()
    (here / "runs/y.features/.lock").touch()
    convert_file("d.npy", here / "runs/y", embedding=NonNegativeEmbedding(**SMALL), progress=False)


def test_an_unfinished_run_with_other_settings_is_rejected_by_name(here):
    def convert(kind=NonNegativeEmbedding, labels=None, **changed):
        convert_file("d.npy", here / "runs/y", labels=labels, embedding=kind(**SMALL | changed), progress=False)

    with pytest.raises(KeyboardInterrupt):
        convert(InterruptedAfterFit)
    with pytest.raises(InputError, match=r"unfinished run with labels None, not 'y\.npy'"):
        convert(labels="y.npy")
    with pytest.raises(InputError, match="unfinished run with random_state 0, not 1"):
        convert(random_state=1)
    np.save("d.npy", np.load("d.npy")[:50])
    with pytest.raises(InputError, match=r"unfinished run with contents\.vectors '1,328 bytes.* not '1,128 bytes"):
        convert()
    shutil.rmtree("runs/y")
    np.save("y.npy", np.arange(50) % 2)
    with pytest.raises(KeyboardInterrupt):
        convert(InterruptedAfterFit, labels="y.npy")
    with pytest.raises(InputError, match=r"unfinished run with labels 'y\.npy', not None"):
        convert()


def test_a_lack_of_memory_names_what_to_reduce():
    config = FitConfig(n_components=8)
    with pytest.raises(InputError, match=r"n_components 8 .*batch_size 512"), memory_errors_as_input_errors(config):
        torch.empty(2**60)
    with pytest.raises(RuntimeError, match="something else"), memory_errors_as_input_errors(config):
        raise RuntimeError("something else")
