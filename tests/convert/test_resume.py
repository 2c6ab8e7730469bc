"""A conversion that was interrupted resumes: with the same result, with a clean log, and on another device."""

import hashlib
import itertools
import pickle
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from nonneg.convert import NonNegativeEmbedding, NonNegativePair, convert_file
from nonneg.runs import read_environment, read_log

SMALL = {"n_components": 16, "max_active": 4, "max_iter": 120, "random_state": 0, "device": "cpu"}
DIGEST = 32  # bytes in front of a checkpoint


class Interrupted(NonNegativeEmbedding):
    """The user presses Ctrl-C after 75 of 120 steps."""

    def begin(self, *given, **options):
        fit = super().begin(*given, **options)
        step = fit.step

        def interrupted_step():
            if fit.done == 75:
                raise KeyboardInterrupt
            return step()

        fit.step = interrupted_step
        return fit


@pytest.fixture
def vectors(tmp_path, clusters):
    np.save(tmp_path / "x.npy", clusters[0])
    return str(tmp_path / "x.npy")


@pytest.fixture
def interrupted(vectors, tmp_path, monkeypatch):
    """An unfinished run with a checkpoint of step 75 and a line of step 100 in its log, as a kill may leave it."""
    with monkeypatch.context() as patched:
        # A clock that lets six seconds pass between any two looks at it: there is a checkpoint after each step.
        patched.setattr(time, "monotonic", itertools.count(0, 6).__next__)
        with pytest.raises(KeyboardInterrupt):
            convert_file(vectors, tmp_path / "run", embedding=Interrupted(**SMALL), progress=False)
    with (tmp_path / "run" / "log.jsonl").open("a") as file:
        file.write('{"step": 100, "loss": 1.0}\n')
    return tmp_path / "run"


def converted(vectors, folder, **changed):
    return convert_file(vectors, folder, embedding=NonNegativeEmbedding(**SMALL | changed), progress=False)


def test_a_resumed_run_has_the_weights_and_the_log_of_an_uninterrupted_one(vectors, interrupted, tmp_path):
    whole, resumed = converted(vectors, tmp_path / "whole"), converted(vectors, interrupted)
    assert torch.equal(whole.embedding.head_.weight, resumed.embedding.head_.weight)
    assert [line["step"] for line in read_log(whole.run)] == [50, 100, 120]
    assert read_log(resumed.run) == read_log(whole.run)
    assert [each["step"] for each in read_environment(interrupted)["resumed"]] == [75]


def as_written_on_a_gpu(run):
    """Replace the state of the CPU's random generator by one of a GPU, which has 16 bytes."""
    state = load((run / "checkpoint").read_bytes()[DIGEST:])
    del state["noise.cpu"]
    content = save({**state, "noise.cuda": torch.zeros(16, dtype=torch.uint8)})
    (run / "checkpoint").write_bytes(hashlib.sha256(content).digest() + content)


def test_a_run_that_began_on_a_gpu_resumes_on_the_cpu(vectors, interrupted, tmp_path):
    as_written_on_a_gpu(interrupted)
    whole, resumed = converted(vectors, tmp_path / "whole"), converted(vectors, interrupted)
    assert [each["step"] for each in read_environment(interrupted)["resumed"]] == [75]
    assert read_log(resumed.run)[0] == read_log(whole.run)[0]
    assert resumed.neighbours_kept == pytest.approx(whole.neighbours_kept, abs=0.05)


def test_the_device_is_not_part_of_the_config(vectors, interrupted):
    converted(vectors, interrupted, device="auto")


@pytest.mark.parametrize("position", [5, 40, -40])
def test_a_damaged_checkpoint_starts_the_fit_over(vectors, interrupted, tmp_path, position, capsys):
    content = bytearray((interrupted / "checkpoint").read_bytes())
    content[position] ^= 1
    (interrupted / "checkpoint").write_bytes(content)
    whole, resumed = converted(vectors, tmp_path / "whole"), converted(vectors, interrupted)
    assert "checkpoint is damaged" in capsys.readouterr().err
    assert torch.equal(whole.embedding.head_.weight, resumed.embedding.head_.weight)
    assert read_log(resumed.run) == read_log(whole.run)


def test_the_environment_names_the_device(vectors, tmp_path):
    assert read_environment(converted(vectors, tmp_path / "run").run)["device"].endswith("cpu")


def test_transform_never_moves_the_fitted_head(clusters, monkeypatch):
    X, _ = clusters
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit(X)
    pair = NonNegativePair(**SMALL | {"max_iter": 2}).fit(X, X)
    before = [parameter for head in (embedding.head_, pair.head_a_, pair.head_b_) for parameter in head.parameters()]

    def forbidden(*_, **__):
        raise AssertionError("the head was moved")

    monkeypatch.setattr(torch.nn.Module, "_apply", forbidden)  # what .to, .cpu, .cuda and .double do their work with
    embedding.transform(X)
    pair.transform_a(X)
    pair.transform_b(X)
    after = [parameter for head in (embedding.head_, pair.head_a_, pair.head_b_) for parameter in head.parameters()]
    assert all(a is b for a, b in zip(before, after, strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_an_estimator_used_on_a_gpu_can_be_pickled_for_a_machine_without_one(clusters):
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 20, "device": "cuda"}).fit(clusters[0])
    embedding.transform(clusters[0])
    assert {parameter.device.type for parameter in embedding.head_.parameters()} == {"cpu"}
    assert b"cuda:0" not in pickle.dumps(embedding)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("first", "second"), [("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")])
def test_a_run_resumes_on_another_device(first, second, vectors, tmp_path, monkeypatch):
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(time, "monotonic", itertools.count(0, 6).__next__)
        started = Interrupted(**SMALL | {"device": first})
        convert_file(vectors, tmp_path / "run", embedding=started, progress=False)
    whole = converted(vectors, tmp_path / "whole", device=first)
    resumed = converted(vectors, tmp_path / "run", device=second)
    assert [line["step"] for line in read_log(resumed.run)] == [50, 100, 120]
    assert resumed.neighbours_kept == pytest.approx(whole.neighbours_kept, abs=0.05)
    environment = read_environment(resumed.run)
    found = [environment["device"].endswith("cpu"), environment["resumed"][0]["device"].endswith("cpu")]
    assert found == [first == "cpu", second == "cpu"]
