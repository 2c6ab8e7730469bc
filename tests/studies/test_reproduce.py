import dataclasses
import json
import re
import shutil
import subprocess
import sys

import pytest

from nonneg.errors import InputError, UntrainableError
from nonneg.studies import plan_for, reproduce
from nonneg.studies._published import PUBLISHED
from nonneg.studies._reproduce import Study, plan_file, refuse_another
from nonneg.studies._results_page import write_page

pytestmark = pytest.mark.usefixtures("one_thread")

ONE = dict.fromkeys(("seeds", "epochs", "probe_epochs", "fine_tune_epochs", "supervised_epochs"), 1)
PLAN = plan_for("digits", **ONE, ablation_epochs=0)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce")
    return out, reproduce(PLAN, out / "runs", out / "digits.md")


def test_the_page_has_every_section_and_every_picture_it_names(done):
    _, page = done
    text = page.read_text()
    for heading in ("Side by side", "Fewer features", "With labels", "Pictures", "How"):
        assert f"## {heading}" in text
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert len(pictures) == 8 and all((page.parent / picture).stat().st_size > 500 for picture in pictures)
    assert "| linear probe, encoder |" in text and "SEPIN@10" in text and "NCE + MLP" in text and "Not done" not in text


def test_notes_beside_the_pictures_stand_on_the_page(done, tmp_path):
    out, page = done
    for path in (page.with_suffix(""), out / "runs"):
        shutil.copytree(path, tmp_path / path.name)
    (tmp_path / "digits/notes.md").write_text("The images were **blue**.\n")
    text = Study(PLAN, tmp_path / "runs", tmp_path / "digits.md").write_page().read_text()
    assert text.index(" side by side\n") < text.index("The images were **blue**.") < text.index("## Side by side")


def test_a_map_that_diverges_is_tried_again_more_slowly(tmp_path, monkeypatch):
    study = Study(dataclasses.replace(PLAN, ablation_epochs=1), tmp_path / "runs", tmp_path / "digits.md")
    usual, train_it = study.config.lr, study._trained

    def diverges(config, name, title):
        if config.lr == usual:
            raise UntrainableError("the loss became nan")
        return train_it(config, name, title)

    monkeypatch.setattr(study, "_trained", diverges)
    found = study.activation("exp")
    assert found["lr"] == usual / 10 and found["failed"] == "the loss became nan" and found["figures"]
    results = {"activation, exp": found, "activation, relu": {"failed": "all features died"}}
    text = write_page(tmp_path / "page.md", study.plan, results).read_text()
    assert f"exp: the loss became nan. Its row is of lr {usual / 10:g}." in text
    assert "| relu | — |" in text and "relu: all features died." in text


def test_training_from_scratch_needs_no_run(done, tmp_path):
    out, page = done
    kept = json.loads((out / "runs/done/supervised-scratch-ce-seed-0.json").read_text())
    assert Study(PLAN, tmp_path, page).supervised("scratch", "CE", 0) == kept
    assert not list(tmp_path.iterdir())


def test_the_page_names_every_commit_that_had_a_part_in_it(done, tmp_path):
    out, page = done
    shutil.copytree(out / "runs", tmp_path / "runs")
    file = tmp_path / "runs/runs/ncl-0/environment.json"
    made = json.loads(file.read_text())
    file.write_text(json.dumps({**made, "commit": "abc1234", "resumed": [{"step": 3, "commit": "def5678"}]}))
    (tmp_path / "runs/done/selection-ncl.json").unlink()
    study = Study(dataclasses.replace(PLAN, ablation_epochs=1), tmp_path / "runs", tmp_path / "digits.md")
    study.activation("relu")
    made_then = tmp_path / "runs/runs/activation-relu/environment.json"
    made_then.write_text(json.dumps({**made, "commit": "123abcd"}))
    study.activation("relu")
    text = reproduce(PLAN, tmp_path / "runs", tmp_path / "digits.md").read_text()
    assert f"**Commit**: {made['commit']}, 123abcd, abc1234, def5678." in text
    assert f"**Commit**: {made['commit']}. Training" in page.read_text()
    file.write_text("{")
    (tmp_path / "runs/done/selection-ncl.json").unlink()
    with pytest.raises(InputError, match=r"environment\.json is damaged"):
        reproduce(PLAN, tmp_path / "runs", tmp_path / "digits.md")
    file.write_text(json.dumps(made))
    (tmp_path / "runs/done/commits.json").write_text("[")
    with pytest.raises(InputError, match=r"commits\.json is damaged; remove it"):
        reproduce(PLAN, tmp_path / "runs", tmp_path / "digits.md")


def test_what_is_done_is_not_done_again_and_what_is_lost_is(done, capfd):
    out, page = done
    before = {path.name: path.stat().st_mtime_ns for path in (out / "runs/done").iterdir()}
    (out / "runs/done/selection-ncl.json").unlink()
    page.unlink()
    capfd.readouterr()
    reproduce(PLAN, out / "runs", page)
    told = capfd.readouterr().err
    assert "selection, NCL" in told and "seed 0" not in told and page.is_file()
    after = {path.name: path.stat().st_mtime_ns for path in (out / "runs/done").iterdir()}
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] != before[name]] == ["selection-ncl.json"]


@pytest.mark.parametrize("step", ["cl-seed-0", "selection-ncl", "supervised-scratch-ce-seed-0", "matching", "pictures"])
def test_figures_that_are_something_else_are_said_so(step, done, tmp_path):
    out, page = done
    shutil.copytree(out / "runs/done", tmp_path / "runs/done")
    study = Study(PLAN, tmp_path / "runs", page)
    assert [name for name, _ in study.steps() if study.read(name) is None] == []
    for text in ("[]", '{"CL": 3}', "3", "{"):
        (tmp_path / f"runs/done/{step}.json").write_text(text)
        with pytest.raises(InputError, match=rf"{step}\.json is damaged; remove it"):
            study.write_page()


def test_another_plan_in_the_same_folder_is_refused(done):
    out, page = done
    with pytest.raises(InputError, match="holds a reproduction with probe_epochs 1, not 2; go on with the same"):
        reproduce(dataclasses.replace(PLAN, probe_epochs=2), out / "runs", page)


def test_seeds_can_be_added_and_then_features_are_matched_again(tmp_path):
    (tmp_path / "done").mkdir()
    for name in ("cl-seed-0", "matching"):
        (tmp_path / f"done/{name}.json").write_text("{}")
    (tmp_path / "plan.json").write_text(json.dumps(plan_file(PLAN)))
    more = plan_file(dataclasses.replace(PLAN, seeds=3))
    refuse_another(tmp_path, more)
    Study(PLAN, tmp_path, tmp_path / "page.md").grow(more)
    assert [path.name for path in (tmp_path / "done").iterdir()] == ["cl-seed-0.json"]
    assert json.loads((tmp_path / "plan.json").read_text()) == more
    with pytest.raises(InputError, match="holds a reproduction with seeds 3, not 1"):
        refuse_another(tmp_path, plan_file(PLAN))


def test_what_an_older_version_did_not_keep_is_done(done):
    out, page = done
    study = Study(PLAN, out / "runs", page)
    kept, file = study.supervised("fine-tuned", "CE", 0), out / "runs/done/cl-seed-0.json"
    told = file.read_text()
    file.write_text(json.dumps({key: value for key, value in json.loads(told).items() if key != "fine_tuned"}))
    try:
        assert study.supervised("fine-tuned", "CE", 0) == kept
    finally:
        file.write_text(told)


def test_pictures_of_another_page_are_drawn_again(done, tmp_path):
    out, page = done
    assert Study(PLAN, out / "runs", page).read("pictures") is not None
    assert Study(PLAN, out / "runs", tmp_path / "other.md").read("pictures") is None


def test_a_page_that_something_else_wrote_is_left_alone(tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.md exists already and is no page of nonneg reproduce"):
        reproduce(PLAN, tmp_path / "runs", tmp_path / "notes.md")
    assert (tmp_path / "notes.md").read_text() == "mine" and not (tmp_path / "runs").exists()


def test_figures_of_the_paper_stand_beside_ours(done, tmp_path):
    out, _ = done
    results = {name: json.loads((out / f"runs/done/{name.lower()}-seed-0.json").read_text()) for name in ("CL", "NCL")}
    plan = plan_for("cifar10", "images.tar", **ONE)
    text = write_page(
        tmp_path / "c.md", plan, {f"{side}, seed 0": told for side, told in results.items()} | {"matching": None}
    ).read_text()
    for published in PUBLISHED["cifar10"].values():
        assert f"{published.cl} → {published.ncl}" in text
    assert "**Not done yet**: matching." in text
    for told in results.values():
        told["figures"].append({**told["figures"][0], "key": "shifted_imagenet-sketch", "layer": "encoder"})
    plan = plan_for("imagenet100", "images.tar", **ONE)
    selection = json.loads((out / "runs/done/selection-ncl.json").read_text())
    steps = {f"{side}, seed 0": told for side, told in results.items()} | {"selection, NCL": selection}
    text = write_page(tmp_path / "i.md", plan, steps).read_text()
    assert "27.1 → 28.0 (ImageNet-Sketch)" in text and "The paper, 512 of 2,048 features" in text


def test_data_that_is_not_there_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        reproduce(plan_for("cifar10", str(tmp_path / "nowhere"), **ONE), tmp_path / "runs", tmp_path / "c.md")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="where the runs are; choose another"):
        reproduce(PLAN, tmp_path / "c", tmp_path / "c.md")


def test_a_damaged_plan_is_said_so(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/plan.json").write_text("{")
    with pytest.raises(InputError, match=r"plan\.json is damaged; pass --overwrite"):
        reproduce(PLAN, tmp_path / "runs", tmp_path / "c.md")


def test_plans():
    assert plan_for("digits").seeds == 2 and plan_for("cifar10", "x.tar").fine_tune_epochs == 30
    assert plan_for("cifar10", "x.tar", seeds=1).supervised_seeds == 1
    for wrong, sentence in [
        (lambda: plan_for("mnist"), "recipe is 'mnist', expected one of digits"),
        (lambda: plan_for("cifar10"), "data is missing, expected the path of the images of cifar10"),
        (lambda: plan_for("digits", seeds=0), "seeds is 0, expected at least 1"),
        (lambda: plan_for("digits", supervised_seeds=5), "supervised_seeds is 5, expected at most seeds, 2"),
    ]:
        with pytest.raises(InputError) as error:
            wrong()
        assert sentence in str(error.value)


def test_the_command_refuses_in_one_sentence(tmp_path):
    command = [sys.executable, "-m", "nonneg", "reproduce", "cifar10"]
    refused = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == 2 and "data is missing" in refused.stderr and not list(tmp_path.iterdir())
