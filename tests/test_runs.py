"""Run folders, and what kind of thing a path is."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from nonneg import Features, InputError, NonNegativeClassifier, NonNegativeEmbedding
from nonneg.convert import convert_file
from nonneg.runs import RunFolder, RunFormat, check_finished, kind_of, read_environment, read_log, verify_records
from nonneg.search import Index
from nonneg.training import load_recipe, train

JSON = RunFormat("nonneg example", "config.json", frozenset({"checkpoint"}))
TOML = RunFormat("nonneg example", "config.toml", frozenset())
CPU = torch.device("cpu")
CONFIG = b'{"lr": 0.1, "views": {"noise": 1, "size": 8}}'


def started(folder, format=JSON, config=CONFIG):
    with RunFolder(folder, format, config) as run:
        run.claim(CPU)
    return folder


def test_a_claimed_folder_holds_the_environment_and_the_config(tmp_path):
    run = started(tmp_path / "runs" / "x")
    assert (run / "config.json").read_bytes() == CONFIG
    assert read_environment(run)["made_by"] == "nonneg example"
    assert sorted(path.name for path in run.iterdir()) == ["config.json", "environment.json"]


def test_an_error_before_the_claim_leaves_no_folder(tmp_path):
    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path / "runs" / "x", JSON, CONFIG):
        raise KeyboardInterrupt
    assert not (tmp_path / "runs").exists()


def test_an_unfinished_run_resumes_and_temporary_files_are_removed(tmp_path):
    run = started(tmp_path / "run")
    (run / "model").mkdir()
    for leftover in (run / ".nonneg-tmp-1", run / "model" / ".nonneg-tmp-2"):
        leftover.write_text("half")
    (run / ".nonneg-tmp-3").mkdir()
    (run / ".nonneg-tmp-3" / ".nonneg-tmp-4").write_text("half")
    with RunFolder(run, JSON, CONFIG) as again:
        assert again.resumes
        again.claim(CPU)
    assert not list(run.rglob(".nonneg-tmp-*"))


def test_a_run_interrupted_before_its_config_was_written_starts_again(tmp_path):
    run = started(tmp_path / "run")
    (run / "config.json").unlink()
    with RunFolder(run, JSON, CONFIG) as again:
        assert not again.resumes
        again.claim(CPU)
    assert (run / "config.json").exists()


def test_a_run_with_results_but_without_a_config_is_kept(tmp_path):
    run = started(tmp_path / "run")
    (run / "config.json").unlink()
    (run / "checkpoint").write_text("work of a day")
    with pytest.raises(InputError, match="exists already"):
        RunFolder(run, JSON, CONFIG)


def test_a_finished_run_is_replaced_only_if_asked(tmp_path):
    run = started(tmp_path / "run")
    (run / "model").mkdir()
    (run / "model" / "config.json").write_text("{}")
    with pytest.raises(InputError, match="exists already"):
        RunFolder(run, JSON, CONFIG)
    with RunFolder(run, JSON, CONFIG, overwrite=True) as again:
        assert (run / "model").exists()  # until it is claimed
        again.claim(CPU)
    assert not (run / "model").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_are_never_removed(tmp_path, overwrite):
    (started(tmp_path / "run") / "thesis.tex").write_text("all of it")
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(InputError, match=r"thesis\.tex"):
        RunFolder(tmp_path / "run", JSON, CONFIG, overwrite)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file"):
        RunFolder(tmp_path / "file", JSON, CONFIG, overwrite)


@pytest.mark.parametrize(
    ("format", "config", "other", "difference"),
    [
        (JSON, CONFIG, b'{"lr": 0.2, "views": {"noise": 1, "size": 8}}', r"lr 0\.1, not 0\.2"),
        (JSON, CONFIG, b'{"lr": 0.1, "views": {"noise": 2, "size": 8}}', r"views\.noise 1, not 2"),
        (JSON, CONFIG, b'{"lr": 0.1}', r"views .* not None"),
        (JSON, b"{}", b'{"labels": "y.npy"}', r"labels None, not 'y\.npy'"),
        (TOML, b"[views]\nnoise = 1\n", b"[views]\nnoise = 2\n", r"views\.noise 1, not 2"),
    ],
)
def test_an_unfinished_run_resumes_only_with_the_same_config(tmp_path, format, config, other, difference):
    run = started(tmp_path / "run", format, config)
    with pytest.raises(InputError, match=f"unfinished run with {difference}"):
        RunFolder(run, format, other)
    with RunFolder(run, format, other, overwrite=True) as again:
        again.claim(CPU)
    assert (run / format.config).read_bytes() == other


@pytest.mark.parametrize("content", [b"\xff", b"[1]", b"{", b"[" * 100_000])
def test_a_damaged_config_is_named(tmp_path, content):
    run = started(tmp_path / "run")
    (run / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        RunFolder(run, JSON, CONFIG)


def test_only_one_process_at_a_time_writes_a_run(tmp_path):
    program = f"""
from pathlib import Path
from nonneg.runs import RunFolder, RunFormat
RunFolder(Path({str(tmp_path / "run")!r}), RunFormat("nonneg example", "config.json", frozenset()), b"{{}}")
"""
    with RunFolder(tmp_path / "run", JSON, CONFIG):
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "InputError" in other.stderr and "another process" in other.stderr
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_log_is_cut_at_the_checkpoint_and_damaged_lines_are_dropped(tmp_path):
    with RunFolder(tmp_path / "run", JSON, CONFIG) as run:
        run.claim(CPU)
        for step in (10, 20, 30):
            run.log({"step": step})
        with (run.folder / "log.jsonl").open("ab") as file:
            file.write(b'\0\0\n{"step": "ten"}\n{"step": 1')
        with pytest.raises(InputError, match=r"log\.jsonl, line 4, is damaged"):
            read_log(run.folder)
        with pytest.warns(UserWarning, match=r"log\.jsonl, line 4"):
            run.truncate_log(20)
        assert read_log(run.folder) == [{"step": 10}, {"step": 20}]


def test_a_run_killed_before_it_wrote_its_config_leaves_no_temporary_files(tmp_path):
    with RunFolder(tmp_path / "run", JSON, CONFIG) as run:
        run.claim(CPU)
        (run.folder / "config.json").unlink()
        (run.folder / ".nonneg-tmp-1234").write_text("half")
    with RunFolder(tmp_path / "run", JSON, CONFIG) as run:
        run.claim(CPU)
        assert sorted(path.name for path in run.folder.iterdir()) == ["config.json", "environment.json"]


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("log.jsonl", '"loss": 0.5', '"loss": 0.7'),
        ("environment.json", '"cores": ', '"cores": 1'),
        ("config.json", '"lr": 0.1', '"lr": 0.2'),
    ],
)
def test_a_changed_record_of_a_run_is_detected(file, before, after, tmp_path):
    with RunFolder(tmp_path / "run", JSON, b'{"lr": 0.1}') as run:
        run.claim(CPU)
        run.log({"step": 1, "loss": 0.5})
    verify_records(tmp_path / "run")
    path = tmp_path / "run" / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(InputError, match=rf"{file}.*(damaged|changed)"):
        verify_records(tmp_path / "run")


def test_records_without_checksums_are_read(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n')
    (tmp_path / "environment.json").write_text('{"made_by": "nonneg train"}')
    (tmp_path / "config.toml").touch()
    verify_records(tmp_path)
    assert read_log(tmp_path) == [{"step": 1}]


def test_resumptions_are_recorded_in_the_environment(tmp_path):
    started(tmp_path / "run")
    for step in (5, 9):
        with RunFolder(tmp_path / "run", JSON, CONFIG) as run:
            run.claim(CPU)
            run.record_resumption(step, CPU)
    found = read_environment(tmp_path / "run")
    assert [each["step"] for each in found["resumed"]] == [5, 9]
    assert found["made_by"] == "nonneg example" and "cpu" in found["resumed"][0]["device"]
    (tmp_path / "run" / "environment.json").write_text("[1, 2]")
    with pytest.raises(InputError, match=r"environment\.json is damaged"):
        read_environment(tmp_path / "run")


def test_the_kind_of_a_path_is_known(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", title=X)
    small = NonNegativeEmbedding(8, 2, max_iter=2, random_state=0)
    convert_file(str(tmp_path / "x.npy"), tmp_path / "converted", embedding=small, progress=False)
    NonNegativeClassifier(small).fit(X, np.arange(40) % 2).save_pretrained(tmp_path / "classifier")
    Index.build(Features.load(tmp_path / "converted.features")).save(tmp_path / "index")
    recipe = dataclasses.replace(load_recipe("digits"), epochs=1, warmup_epochs=0, accelerator="cpu")
    train(recipe, tmp_path / "trained", progress=False)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    expected = {
        "trained": "trained run",
        "converted": "conversion",
        "converted.features": "features",
        "index": "index",
        "trained/model": "model",
        "converted/model": "estimator",
        "classifier": "estimator",
        "x.npy": "vectors",
        "x.npz:title": "vectors",
        "pipe": "vectors",
        "empty": None,
        "absent": None,
        "absent:title": None,
    }
    assert {name: kind_of(f"{tmp_path}/{name}") for name in expected} == expected


@pytest.mark.parametrize("content", ["", "[]", "{}", "7", '{"format": 7}', '{"format": ["a"]}', "[" * 100_000])
def test_a_folder_with_strange_json_is_of_no_kind(tmp_path, content):
    for name in ("meta.json", "config.json", "environment.json", "classifier.json"):
        (tmp_path / name).write_text(content)
    assert kind_of(tmp_path) is None


def test_unfinished_runs_have_a_kind(tmp_path):
    started(tmp_path / "a", TOML, b"lr = 1\n")
    started(tmp_path / "b", RunFormat("nonneg convert", "config.json", frozenset()), json.dumps({}).encode())
    assert (kind_of(tmp_path / "a"), kind_of(tmp_path / "b")) == ("trained run", "conversion")
    for folder, name in (("a", "train"), ("b", "convert")):
        with pytest.raises(InputError, match=f"{folder} is an unfinished run of nonneg {name}"):
            check_finished(tmp_path / folder)


@pytest.mark.timeout(20)
def test_pipes_in_a_run_are_not_waited_for(tmp_path):
    for name in ("environment.json", "log.jsonl"):
        os.mkfifo(tmp_path / name)
    assert kind_of(tmp_path) is None
    with pytest.raises(InputError, match=r"log\.jsonl is not a regular file"):
        read_log(tmp_path)
