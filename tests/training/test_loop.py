import dataclasses
import itertools
import json
import math

import pytest
import torch

import nonneg
from nonneg.errors import InputError
from nonneg.training import TrainConfig, load_recipe, read_log, train
from nonneg.training._step import epoch_order, learning_rate

SHORT = dataclasses.replace(load_recipe("digits"), epochs=2, warmup_epochs=1, accelerator="cpu")


def weights(run):
    return nonneg.load(run).state_dict()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(SHORT, tmp_path_factory.mktemp("runs") / "a", progress=False)


def test_a_run_holds_config_log_environment_and_model(run):
    assert load_recipe(str(run / "config.toml")) == SHORT
    log = read_log(run)
    assert [line["epoch"] for line in log] == [1, 2]
    assert all(math.isfinite(line["loss"]) for line in log)
    assert log[1]["loss"] < log[0]["loss"]
    assert json.loads((run / "environment.json").read_text())["packages"]["torch"] == torch.__version__
    assert nonneg.load(run).config.rectify == "relu"


def test_the_same_seed_gives_the_same_weights_to_the_bit(run, tmp_path):
    again = weights(train(SHORT, tmp_path / "b", progress=False))
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights(run).items())


def test_another_seed_gives_other_weights(run, tmp_path):
    other = weights(train(dataclasses.replace(SHORT, seed=1), tmp_path / "b", progress=False))
    assert not torch.equal(weights(run)["projector.0.weight"], other["projector.0.weight"])


@pytest.mark.parametrize(
    "change",
    [
        {"loss": "spectral", "lr": 0.001},
        {"rectify": "rep_relu"},
        {"rectify": "top_k", "top_k": 8},
        {"rectify": "none"},
        {"precision": "bf16-mixed"},
    ],
)
def test_every_way_to_train_lowers_its_loss(change, tmp_path):
    config = dataclasses.replace(SHORT, epochs=3, batch_size=128, **change)
    log = read_log(train(config, tmp_path / "b", progress=False))
    assert log[-1]["loss"] < log[0]["loss"]


def test_an_existing_run_is_kept_unless_told_otherwise(run, tmp_path):
    before = weights(run)
    with pytest.raises(InputError, match="pass --overwrite"):
        train(SHORT, run, progress=False)
    assert torch.equal(weights(run)["projector.0.weight"], before["projector.0.weight"])


def test_a_folder_of_other_files_is_never_cleared(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds other files"):
        train(SHORT, tmp_path, overwrite=True, progress=False)
    assert (tmp_path / "thesis.tex").exists()


def test_a_diverging_run_is_stopped_and_explained(tmp_path):
    config = dataclasses.replace(SHORT, loss="spectral", rectify="none", lr=1e6, warmup_epochs=0)
    with pytest.raises(InputError, match=r"the loss became (nan|inf|-inf) in epoch \d: training diverged at lr 1e.06"):
        train(config, tmp_path / "b", progress=False)
    assert load_recipe(str(tmp_path / "b" / "config.toml")) == config


def test_a_batch_larger_than_the_data_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="batch_size is 2000, expected at most the 1400 samples"):
        train(dataclasses.replace(SHORT, batch_size=2000), tmp_path / "b", progress=False)
    assert not (tmp_path / "b").exists()


def test_learning_rate_warms_up_and_falls_along_a_cosine():
    config = dataclasses.replace(TrainConfig(), lr=1.0)
    rates = [learning_rate(config, step, steps=100, warmup=10) for step in range(100)]
    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] < 0.001
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))


def test_every_epoch_visits_every_sample_in_an_order_of_its_own():
    first, second = epoch_order(50, seed=0, epoch=0), epoch_order(50, seed=0, epoch=1)
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() != second.tolist()
    assert first.tolist() == epoch_order(50, seed=0, epoch=0).tolist()
