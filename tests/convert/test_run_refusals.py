"""A request of `nonneg convert` that is refused or stopped at its start costs nothing and leaves nothing."""

import shutil

import numpy as np
import pytest
import torch

from nonneg import InputError
from nonneg.convert import NonNegativeEmbedding, checked_config, convert_file
from nonneg.convert._parameters import memory_errors_as_input_errors

SMALL = {"n_components": 8, "max_active": 2, "max_iter": 3, "random_state": 0}
OPTIONS = ["--n-components", "8", "--max-active", "2", "--max-iter", "3"]


class StoppedFirst(NonNegativeEmbedding):
    """Somebody presses Ctrl-C before the first step."""

    def begin(self, *given, **options):
        raise KeyboardInterrupt


class StoppedLast(NonNegativeEmbedding):
    """Somebody presses Ctrl-C after the last step."""

    def finish(self, fit):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Vectors, labels, and a run of them with its features."""
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
    """Run a command; exit code and standard error."""
    return lambda *arguments: command(*arguments)[::2]


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


REFUSED = [
    (["--supervised"], "--supervised is given without --labels"),
    (["--classify"], "--classify is given without --labels"),
    (["--supervised", "--labels", "y.npy", "--pairs", "d.npy"], "--supervised is given with --pairs"),
    (["--classify", "--labels", "one.txt"], "one.txt names one class, expected two or more to classify"),
    (["--seed", "-1"], "seed is -1, expected 0 to 4294967295"),
    (["--seed", "99999999999999999999"], "seed is 99999999999999999999, expected 0 to 4294967295"),
    (["--n-components", "1000000000000"], "n_components is 1000000000000, expected at most 1,048,576"),
    (["--batch-size", "1"], "batch_size is 1, expected a whole number, at least 2"),
    (["--device", "abacus"], "device is 'abacus', which cannot be used"),
    (["--labels", "nowhere.npy"], "nowhere.npy does not exist"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_a_refused_overwrite_leaves_the_earlier_run_as_it_was(options, sentence, nonneg, here):
    before = content(here)
    code, error = nonneg("convert", "d.npy", "--out", "runs/x", "--overwrite", *options)
    assert code == 2 and sentence in error and "Traceback" not in error
    assert content(here) == before


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_a_refused_run_leaves_nothing_so_that_the_mended_command_runs(options, sentence, nonneg, here):
    assert sentence in nonneg("convert", "d.npy", "--out", "new/bad", *options)[1]
    assert not (here / "new").exists()


@pytest.mark.parametrize("out", ["", ".", "..", "/"])
def test_a_run_must_have_a_name(out, nonneg, here):
    before = content(here)
    code, error = nonneg("convert", "d.npy", "--out", out)
    assert code == 2 and "expected a folder with a name, such as runs/news" in error
    with pytest.raises(InputError, match="expected a folder with a name"):
        convert_file("d.npy", here / "..", progress=False)
    assert content(here) == before


def test_a_command_is_mended_and_runs(nonneg, here):
    assert nonneg("convert", "d.npy", "--out", "runs/bad", "--supervised", *OPTIONS)[0] == 2
    code, error = nonneg("convert", "d.npy", "--out", "runs/bad", "--supervised", "--labels", "y.npy", *OPTIONS)
    assert code == 0, error


def test_stopped_before_the_first_step_the_earlier_run_is_as_it_was(here):
    before = content(here)
    with pytest.raises(KeyboardInterrupt):
        convert_file("d.npy", here / "runs/x", embedding=StoppedFirst(**SMALL), overwrite=True, progress=False)
    assert content(here) == before
    with pytest.raises(KeyboardInterrupt):
        convert_file("d.npy", here / "new/y", embedding=StoppedFirst(**SMALL), progress=False)
    assert not (here / "new").exists()


def test_stopped_later_the_earlier_features_stay_and_the_run_goes_on(here):
    features = content(here / "runs/x.features")
    with pytest.raises(KeyboardInterrupt):
        convert_file("d.npy", here / "runs/x", embedding=StoppedLast(**SMALL), overwrite=True, progress=False)
    assert content(here / "runs/x.features") == features
    convert_file("d.npy", here / "runs/x", embedding=NonNegativeEmbedding(**SMALL), progress=False)
    assert (here / "runs/x/model/config.json").is_file()


def test_features_whose_first_save_was_stopped_do_not_stand_in_the_way(here):
    (here / "runs/y.features").mkdir()
    (here / "runs/y.features/.lock").touch()
    convert_file("d.npy", here / "runs/y", embedding=NonNegativeEmbedding(**SMALL), progress=False)


def test_how_an_unfinished_run_differs_is_said_in_names_of_files(here):
    def convert(kind=NonNegativeEmbedding, labels=None, **changed):
        convert_file("d.npy", here / "runs/y", labels=labels, embedding=kind(**SMALL | changed), progress=False)

    with pytest.raises(KeyboardInterrupt):
        convert(StoppedLast)
    with pytest.raises(InputError, match=r"holds an unfinished run without labels, not with y\.npy; go on with"):
        convert(labels="y.npy")
    with pytest.raises(InputError, match="holds an unfinished run with seed 0, not 1; go on with"):
        convert(random_state=1)
    np.save("d.npy", np.load("d.npy")[:50])
    with pytest.raises(InputError, match=r"an unfinished run with vectors d\.npy, which has changed since; go on"):
        convert()
    shutil.rmtree("runs/y")
    np.save("y.npy", np.arange(50) % 2)
    with pytest.raises(KeyboardInterrupt):
        convert(StoppedLast, labels="y.npy")
    with pytest.raises(InputError, match=r"an unfinished run with labels y\.npy, not without; go on with"):
        convert()


def test_a_lack_of_memory_is_said():
    config = checked_config(NonNegativeEmbedding(**SMALL).get_params(), 0)
    sentence = "n_components is 8 and batch_size 512, for which memory does not suffice"
    with pytest.raises(InputError, match=sentence), memory_errors_as_input_errors(config):
        torch.empty(2**60)
    with pytest.raises(RuntimeError, match="another trouble"), memory_errors_as_input_errors(config):
        raise RuntimeError("another trouble")
