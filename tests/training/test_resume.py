"""Runs that were killed, stopped or damaged resume as if they had never been interrupted."""

import dataclasses
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.optim.optimizer import register_optimizer_step_post_hook

import nonneg
from nonneg.errors import InputError, StoppedError
from nonneg.training import load_recipe, read_environment, read_log, train
from nonneg.training._checkpoint import _TYPES, Checkpoint, Checkpoints, _digest
from nonneg.training._resume import copy_to_host

HERE = Path(__file__).parent
CONFIG = dataclasses.replace(
    load_recipe("digits"), epochs=4, warmup_epochs=1, accelerator="cpu", checkpoint_steps=4, batch_size=256
)


def weights(run):
    return nonneg.load(run).state_dict()


def same(a, b):
    return all(torch.equal(tensor, b[name]) for name, tensor in a.items())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The weights of a run that nothing interrupted."""
    return weights(train(CONFIG, tmp_path_factory.mktemp("runs") / "whole", progress=False))


def unfinished(folder, steps=10, config=CONFIG):
    """A run that a signal stopped after so many steps; after 10, it has checkpoints of steps 8 and 10."""
    done = 0

    def count(*_):
        nonlocal done
        done += 1
        if done == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    hook = register_optimizer_step_post_hook(count)
    try:
        with pytest.raises(StoppedError) as stopped:
            train(config, folder, progress=False)
    finally:
        hook.remove()
    return stopped.value


def test_sigterm_saves_a_checkpoint_and_the_same_call_resumes(whole, tmp_path):
    stopped = unfinished(tmp_path / "run", steps=6)
    assert stopped.exit_code == 143
    assert "6 of 20 steps" in str(stopped)
    train(CONFIG, tmp_path / "run", progress=False)
    assert same(whole, weights(tmp_path / "run"))
    assert [line["epoch"] for line in read_log(tmp_path / "run")] == [1, 2, 3, 4]
    assert [step["step"] for step in read_environment(tmp_path / "run")["resumed"]] == [6]


def figures(run):
    """Return the log without times."""
    return [{k: v for k, v in line.items() if k not in ("seconds", "views_per_second")} for line in read_log(run)]


def test_the_log_of_a_stopped_run_is_that_of_an_uninterrupted_one(tmp_path):
    config = dataclasses.replace(CONFIG, epochs=3, checkpoint_steps=100)
    whole = figures(train(config, tmp_path / "whole", progress=False))
    for steps in (1, 4, 5, 6, 7, 10):  # in the middle and at the end of epochs
        run = tmp_path / str(steps)
        unfinished(run, steps, config)
        train(config, run, progress=False)
        assert figures(run) == whole, steps


def test_a_run_killed_at_the_end_of_an_epoch_logs_the_next_one_correctly(tmp_path):
    config = dataclasses.replace(CONFIG, epochs=3, checkpoint_steps=5)
    whole = figures(train(config, tmp_path / "whole", progress=False))
    unfinished(tmp_path / "killed", 8, config)  # some steps into the second epoch
    newest(tmp_path / "killed").unlink()
    train(config, tmp_path / "killed", progress=False)
    assert read_environment(tmp_path / "killed")["resumed"][0]["step"] == 5
    assert figures(tmp_path / "killed") == whole


def test_a_run_killed_while_saving_its_model_saves_it_again(whole, tmp_path):
    run = train(CONFIG, tmp_path / "run", progress=False)
    (run / "model" / "config.json").unlink()
    (run / "model" / ".nonneg-tmp-1234").write_text("half")
    train(CONFIG, run, progress=False)
    assert same(whole, weights(run))
    assert not list(run.rglob(".nonneg-tmp-*"))


def test_a_run_killed_before_it_wrote_its_config_starts_over(whole, tmp_path):
    unfinished(tmp_path / "run", steps=1)
    for name in ("config.toml", "log.jsonl"):
        (tmp_path / "run" / name).unlink(missing_ok=True)
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    (tmp_path / "run" / "checkpoints").rmdir()
    train(CONFIG, tmp_path / "run", progress=False)
    assert same(whole, weights(tmp_path / "run"))


def test_a_run_with_a_falling_share_and_learned_temperatures_resumes_exactly(tmp_path):
    config = CONFIG.replace(standardise=True, first_share=0.5, share=0.1, first_dense_weight=0.5, dense_weight=0.1)
    config = config.replace(learn_temperature=True)
    whole = weights(train(config, tmp_path / "whole", progress=False))
    unfinished(tmp_path / "stopped", config=config)
    assert same(weights(train(config, tmp_path / "stopped", progress=False)), whole)
    one, two = (read_log(tmp_path / name)[-1] for name in ("whole", "stopped"))
    for name in ("temperature", "dense_temperature"):
        assert one[name] == two[name] != pytest.approx(getattr(config, name), rel=1e-3)


def test_a_run_with_a_damaged_log_resumes(tmp_path):
    unfinished(tmp_path / "run")
    with (tmp_path / "run" / "log.jsonl").open("ab") as file:
        file.write(b"\0\0\0\n")
    with pytest.raises(InputError, match=r"log\.jsonl, line \d"):
        read_log(tmp_path / "run")
    with pytest.warns(UserWarning, match=r"log\.jsonl, line \d"):
        train(CONFIG, tmp_path / "run", progress=False)
    assert [line["epoch"] for line in read_log(tmp_path / "run")] == [1, 2, 3, 4]


def test_only_one_process_trains_into_a_folder(tmp_path):
    command = [sys.executable, "-m", "nonneg", "train", "digits", "--accelerator", "cpu", "--epochs", "4000"]
    command += ["--out", str(tmp_path / "run")]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "run" / "log.jsonl").exists():
            assert first.poll() is None
            time.sleep(0.05)
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert "by another process" in second.stderr
    finally:
        first.kill()
        first.wait()


def test_the_command_stops_cleanly_on_sigterm_and_on_ctrl_c(tmp_path):
    command = [
        sys.executable,
        "-m",
        "nonneg",
        "train",
        "digits",
        "--accelerator",
        "cpu",
        "--out",
        str(tmp_path / "run"),
    ]
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        logged = len(read_log(tmp_path / "run")) if (tmp_path / "run" / "log.jsonl").exists() else 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if (tmp_path / "run" / "log.jsonl").exists() and len(read_log(tmp_path / "run")) > logged:
                break
            time.sleep(0.05)
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert "Traceback" not in printed
        assert "stopped after" in printed


def test_resuming_with_another_config_is_an_error_that_names_the_field(tmp_path):
    unfinished(tmp_path / "run")
    other = CONFIG.replace(views=dataclasses.replace(CONFIG.modality.views, noise=0.2))
    with pytest.raises(InputError, match=r"modality\.views\.noise 0\.1.* 0\.2"):
        train(other, tmp_path / "run", progress=False)
    with pytest.raises(InputError, match=r"\blr 0\.003.* 0\.1"):
        train(dataclasses.replace(CONFIG, lr=0.1), tmp_path / "run", progress=False)
    train(dataclasses.replace(CONFIG, lr=0.1, epochs=1), tmp_path / "run", overwrite=True, progress=False)
    assert len(read_log(tmp_path / "run")) == 1


def test_resuming_on_other_data_is_an_error(tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 255, (600, 8, 8, 1), dtype=np.uint8))
    config = dataclasses.replace(CONFIG, data=str(tmp_path / "images.npy"))
    unfinished(tmp_path / "run", steps=4, config=config)
    for other in (np.zeros((700, 8, 8, 1), np.uint8), 255 - np.load(tmp_path / "images.npy")):
        np.save(tmp_path / "images.npy", other)
        with pytest.raises(InputError, match=r"other data.*images\.npy"):
            train(config, tmp_path / "run", progress=False)


def newest(run):
    return max((run / "checkpoints").glob("*.safetensors"))


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "gone"])
def test_a_run_with_a_damaged_checkpoint_resumes_from_the_previous_one(damage, whole, tmp_path):
    unfinished(tmp_path / "run")
    path = newest(tmp_path / "run")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": content[:-100], "bit": content, "empty": b""}[damage])
    if damage == "gone":
        train(CONFIG, tmp_path / "run", progress=False)
    else:
        with pytest.warns(UserWarning, match=f"{path.name} is damaged"):
            train(CONFIG, tmp_path / "run", progress=False)
    assert read_environment(tmp_path / "run")["resumed"][0]["step"] == 8
    assert same(whole, weights(tmp_path / "run"))


def test_a_checkpoint_whose_step_was_changed_is_damaged(whole, tmp_path):
    unfinished(tmp_path / "run")
    rewritten(newest(tmp_path / "run"), {"step": "11"})
    with pytest.warns(UserWarning, match="step-000000010.safetensors is damaged"):
        train(CONFIG, tmp_path / "run", progress=False)
    assert same(whole, weights(tmp_path / "run"))


def content(run):
    return {path.name: path.read_bytes() for path in (run / "checkpoints").iterdir()}


def test_a_damaged_checkpoint_is_kept_until_a_newer_one_is_complete(tmp_path):
    unfinished(tmp_path / "run")
    path = newest(tmp_path / "run")
    path.write_bytes(b"damaged")
    checkpoints = Checkpoints(path.parent)
    with pytest.warns(UserWarning, match=f"{path.name} is damaged"):
        assert checkpoints.newest().step == 8
    assert path.read_bytes() == b"damaged"
    checkpoints.save(Checkpoint(9, "data", {"a": torch.ones(10)}))
    checkpoints.wait()
    assert sorted(content(tmp_path / "run")) == ["step-000000008.safetensors", "step-000000009.safetensors"]


def test_a_run_whose_checkpoints_are_all_damaged_is_an_error_and_is_kept(tmp_path):
    unfinished(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(b"")
    before = content(tmp_path / "run")
    with pytest.raises(InputError, match=r"step-000000010.* is damaged.*--overwrite"):
        train(CONFIG, tmp_path / "run", progress=False)
    assert content(tmp_path / "run") == before


def test_a_run_without_a_checkpoint_starts_at_step_0(whole, tmp_path):
    unfinished(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    train(CONFIG, tmp_path / "run", progress=False)
    assert same(whole, weights(tmp_path / "run"))


def test_a_temporarily_unreadable_checkpoint_is_an_error_and_is_kept(tmp_path):
    unfinished(tmp_path / "run")
    path = newest(tmp_path / "run")
    path.unlink()
    path.symlink_to(path.name)  # to itself: nobody can open it, not even root
    with pytest.raises(InputError, match=r"step-000000010\.safetensors cannot be read"):
        train(CONFIG, tmp_path / "run", progress=False)
    assert path.is_symlink() and (path.parent / "step-000000008.safetensors").exists()


def test_a_temporarily_unreadable_checkpoint_folder_is_an_error(tmp_path):
    unfinished(tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(folder.name)
    with pytest.raises(InputError, match="checkpoints cannot be read"):
        train(CONFIG, tmp_path / "run", progress=False)


def rewritten(path, header=(), tensors=()):
    """Change the content of a checkpoint, with a matching digest."""
    with safe_open(path, "pt") as file:
        before = file.metadata()
    tensors = {**load_file(path), **dict(tensors)}
    save_file(tensors, path, {**before, "sha256": _digest(tensors), **dict(header)})


def test_a_checkpoint_of_another_format_is_an_error_and_is_kept(tmp_path):
    unfinished(tmp_path / "run")
    rewritten(newest(tmp_path / "run"), {"format": "2"})
    before = content(tmp_path / "run")
    with pytest.raises(InputError, match=r"step-000000010\.safetensors has format '2'.*'1'"):
        train(CONFIG, tmp_path / "run", progress=False)
    assert content(tmp_path / "run") == before


@pytest.mark.parametrize(
    "name", ["model.projector.0.bias", "optimiser.0.exp_avg", "watch.active", "random.0", "other.a"]
)
def test_a_checkpoint_of_another_model_is_an_error_of_one_line(name, tmp_path):
    unfinished(tmp_path / "run")
    rewritten(newest(tmp_path / "run"), tensors={name: torch.zeros(1)})
    with pytest.raises(InputError, match=r"checkpoint of step 10 .*another model") as error:
        train(CONFIG, tmp_path / "run", progress=False)
    assert "\n" not in str(error.value)


def test_only_the_newest_two_checkpoints_are_kept(tmp_path):
    train(CONFIG, tmp_path / "run", progress=False)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000000016.safetensors", "step-000000020.safetensors"]


def test_a_checkpoint_left_by_a_kill_after_the_last_one_is_removed(tmp_path, whole):
    run = train(CONFIG, tmp_path / "run", progress=False)
    shutil.rmtree(run / "model")
    kept = sorted((run / "checkpoints").iterdir())
    shutil.copy(kept[0], run / "checkpoints" / "step-000000001.safetensors")
    train(CONFIG, run, progress=False)
    assert sorted((run / "checkpoints").iterdir()) == kept and same(whole, weights(run))


def test_checkpoints_hold_tensors_of_every_type_that_safetensors_reads(tmp_path):
    tensors = {str(kind): torch.arange(5).to(kind) for kind in _TYPES}
    tensors |= {
        "scalar": torch.tensor(3),
        "nothing": torch.empty(0, 3),
        "flags": torch.tensor([True, False]),
        "channels last": torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    }
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint(1, "data", tensors))
    checkpoints.wait()
    (path,) = tmp_path.iterdir()
    with safe_open(path, "pt") as file:
        assert (file.metadata()["step"], file.metadata()["data"]) == ("1", "data")
    read = load_file(path)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(read[name].to(torch.complex128), tensor.to(torch.complex128))
    with pytest.raises(InputError, match=r"odd .*torch\.complex128"):
        checkpoints.save(Checkpoint(2, "data", {"odd": torch.zeros(2, dtype=torch.complex128)}))


def test_a_full_disk_is_an_error_and_the_last_good_checkpoint_is_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(Checkpoint(1, "data", {"learner.a": torch.ones(10)}))
    checkpoints.wait()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        checkpoints.save(Checkpoint(2, "data", {"learner.a": torch.ones(1_000_000)}))
        with pytest.raises(InputError, match=r"step-000000002\.safetensors cannot be written"):
            checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    kept = checkpoints.newest()
    assert kept is not None and kept.step == 1
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000001.safetensors"]


def test_an_untrusted_checkpoint_cannot_run_code(tmp_path):
    unfinished(tmp_path / "run")
    import pickle

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="is damaged"):
        train(CONFIG, tmp_path / "run", progress=False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_copying_a_checkpoint_to_the_host_does_not_wait_for_the_device(never_waiting):
    weight = torch.zeros(2**26, device="cuda").view(2**13, 2, 64, 64).contiguous(memory_format=torch.channels_last)
    copy_to_host({"weight": weight})[1]()  # allocates the host's memory, which waits
    with never_waiting():
        copies, wait_for_copies = copy_to_host({"weight": weight, "random": torch.zeros(5)})
        weight.fill_(1)
    wait_for_copies()
    assert not copies["weight"].any()
    assert copies["weight"].is_contiguous(memory_format=torch.channels_last)  # copied without reordering
