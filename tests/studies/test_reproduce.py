import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nonneg.durable import unsealed
from nonneg.errors import InputError
from nonneg.studies import plan_for, reproduce
from nonneg.studies._published import PUBLISHED
from nonneg.studies._reproduce import Study, plan_file
from nonneg.studies._results_page import write_page
from nonneg.studies._steps import Step

pytestmark = pytest.mark.usefixtures("one_thread")

ONE = dict.fromkeys(("seeds", "epochs", "probe_epochs", "fine_tune_epochs", "supervised_epochs"), 1)
PLAN = plan_for("digits", **ONE, ablation_epochs=0)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan for few images of four digits, which takes seconds."""
    images, labels = load_digits(n_class=4, return_X_y=True)
    images = (images.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "four.npz"
    train, test = slice(0, 300), slice(300, 400)
    np.savez(path, x_train=images[train], y_train=labels[train], x_test=images[test], y_test=labels[test])
    return dataclasses.replace(PLAN, data=str(path))


@pytest.fixture(scope="module")
def done(plan, tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce")
    return out, reproduce(plan, out / "runs", out / "digits.md")


@pytest.mark.slow  # a whole reproduction
def test_the_page_has_every_section_and_every_picture_it_links(done):
    _, page = done
    text = page.read_text()
    for heading in ("Side by side", "Fewer features", "Supervised", "Pictures", "Method"):
        assert f"## {heading}" in text
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert len(pictures) == 8 and all((page.parent / picture).stat().st_size > 500 for picture in pictures)
    assert "| linear probe, encoder |" in text and "SEPIN@10" in text and "NCE + MLP" in text and "Not done" not in text


@pytest.mark.slow  # a whole reproduction
def test_notes_next_to_the_pictures_appear_at_the_top_of_the_page(done, plan, tmp_path):
    out, page = done
    for path in (page.with_suffix(""), out / "runs"):
        shutil.copytree(path, tmp_path / path.name)
    (tmp_path / "digits/notes.md").write_text("The images were **blue**.\n")
    text = Study(plan, tmp_path / "runs", tmp_path / "digits.md").write_page().read_text()
    assert text.index(" side by side\n") < text.index("The images were **blue**.") < text.index("## Side by side")


def test_the_page_makes_the_folder_that_it_lies_in(tmp_path):
    results = {Step("activation", activation="relu"): {"failed": "all features died"}}
    assert "all features died" in write_page(tmp_path / "new" / "page.md", PLAN, results).read_text()


@pytest.mark.slow
def test_an_activation_that_diverges_is_trained_again_with_a_tenth_of_the_learning_rate(tmp_path):
    study = Study(dataclasses.replace(PLAN, ablation_epochs=1), tmp_path / "runs", tmp_path / "digits.md")
    study.config = dataclasses.replace(study.config, lr=0.1)  # with exp, the loss overflows
    found = study.activation("exp")
    assert found["lr"] == pytest.approx(0.01) and "lr 0.1" in found["failed"] and found["figures"]
    results = {
        Step("activation", activation="exp"): found,
        Step("activation", activation="relu"): {"failed": "all features died"},
    }
    text = write_page(tmp_path / "page.md", study.plan, results).read_text()
    assert f"exp: {found['failed']}. Its row shows lr 0.01." in text
    assert "| relu | — |" in text and "relu: all features died." in text


@pytest.mark.slow  # a whole reproduction
def test_supervised_training_from_scratch_needs_no_run(done, plan, tmp_path):
    out, page = done
    kept = json.loads((out / "runs/done/supervised-scratch-ce-seed-0.json").read_text())
    assert Study(plan, tmp_path, page).supervised("scratch", "CE", 0) == kept
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_page_lists_every_commit_that_contributed(done, plan, tmp_path):
    out, page = done
    shutil.copytree(out / "runs", tmp_path / "runs")
    file = tmp_path / "runs/runs/ncl-0/environment.json"
    made = unsealed(json.loads(file.read_text()))
    file.write_text(json.dumps({**made, "commit": "abc1234", "resumed": [{"step": 3, "commit": "def5678"}]}))
    (tmp_path / "runs/done/supervised-fine-tuned-nce-seed-0.json").unlink()
    study = Study(dataclasses.replace(plan, ablation_epochs=1), tmp_path / "runs", tmp_path / "digits.md")
    study.activation("relu")
    made_then = tmp_path / "runs/runs/activation-relu/environment.json"
    made_then.write_text(json.dumps({**made, "commit": "123abcd"}))
    study.activation("relu")
    text = reproduce(plan, tmp_path / "runs", tmp_path / "digits.md").read_text()
    assert f"**Commit**: {made['commit']}, 123abcd, abc1234, def5678." in text
    assert f"**Commit**: {made['commit']}. Training" in page.read_text()
    file.write_text("{")
    (tmp_path / "runs/done/supervised-fine-tuned-nce-seed-0.json").unlink()
    with pytest.raises(InputError, match=r"environment\.json is damaged"):
        reproduce(plan, tmp_path / "runs", tmp_path / "digits.md")
    file.write_text(json.dumps(made))
    (tmp_path / "runs/done/commits.json").write_text("[")
    with pytest.raises(InputError, match=r"commits\.json is damaged"):
        reproduce(plan, tmp_path / "runs", tmp_path / "digits.md")


@pytest.mark.slow  # a whole reproduction
def test_only_missing_steps_are_repeated(done, plan, capfd):
    out, page = done
    before = {path.name: path.stat().st_mtime_ns for path in (out / "runs/done").iterdir()}
    (out / "runs/done/supervised-fine-tuned-nce-seed-0.json").unlink()
    page.unlink()
    capfd.readouterr()
    reproduce(plan, out / "runs", page)
    shown = capfd.readouterr().err
    assert re.findall(r"\[\d+ of \d+\] (.*)", shown) == ["supervised, fine-tuned, NCE, seed 0"] and page.is_file()
    after = {path.name: path.stat().st_mtime_ns for path in (out / "runs/done").iterdir()}
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] != before[name]] == ["supervised-fine-tuned-nce-seed-0.json"]


@pytest.mark.slow  # a whole reproduction
@pytest.mark.parametrize("step", ["cl-seed-0", "selection-ncl", "supervised-scratch-ce-seed-0", "matching", "pictures"])
def test_damaged_figures_are_reported_by_file(step, done, plan, tmp_path):
    out, page = done
    shutil.copytree(out / "runs/done", tmp_path / "runs/done")
    study = Study(plan, tmp_path / "runs", page)
    assert [step for step, _ in study.steps() if study.read(step) is None] == []
    for text in ("[]", '{"CL": 3}', "3", "{"):
        (tmp_path / f"runs/done/{step}.json").write_text(text)
        with pytest.raises(InputError, match=rf"{step}\.json is damaged"):
            study.write_page()


@pytest.mark.slow  # a whole reproduction
def test_another_plan_in_the_same_folder_is_rejected(done, plan):
    out, page = done
    with pytest.raises(InputError, match="probe_epochs 1, not 2"):
        reproduce(dataclasses.replace(plan, probe_epochs=2), out / "runs", page)


def test_adding_seeds_keeps_finished_steps_and_repeats_the_matching(tmp_path):
    (tmp_path / "done").mkdir()
    for name in ("cl-seed-0", "matching"):
        (tmp_path / f"done/{name}.json").write_text("{}")
    (tmp_path / "plan.json").write_text(json.dumps(plan_file(PLAN)))
    more = dataclasses.replace(PLAN, seeds=3)
    Study(more, tmp_path, tmp_path / "page.md").claim(overwrite=False)
    assert [path.name for path in (tmp_path / "done").iterdir()] == ["cl-seed-0.json"]
    assert json.loads((tmp_path / "plan.json").read_text()) == plan_file(more)
    with pytest.raises(InputError, match="seeds 3, not 1"):
        Study(PLAN, tmp_path, tmp_path / "page.md").claim(overwrite=False)


@pytest.mark.slow  # a whole reproduction
def test_a_fine_tuning_curve_that_was_not_stored_is_computed(done, plan):
    out, page = done
    study = Study(plan, out / "runs", page)
    kept, file = study.supervised("fine-tuned", "CE", 0), out / "runs/done/cl-seed-0.json"
    before = file.read_text()
    file.write_text(json.dumps({key: value for key, value in json.loads(before).items() if key != "fine_tuned"}))
    try:
        assert study.supervised("fine-tuned", "CE", 0) == kept
    finally:
        file.write_text(before)


@pytest.mark.slow  # a whole reproduction
def test_pictures_are_drawn_again_for_another_page(done, plan, tmp_path):
    out, page = done
    assert Study(plan, out / "runs", page).read(Step("pictures")) is not None
    assert Study(plan, out / "runs", tmp_path / "other.md").read(Step("pictures")) is None


def test_a_page_written_by_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.md exists"):
        reproduce(PLAN, tmp_path / "runs", tmp_path / "notes.md")
    assert (tmp_path / "notes.md").read_text() == "mine" and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("page", ["folder.md", "file/page.md"])
def test_a_page_that_cannot_be_written_is_an_error_before_any_step(page, tmp_path):
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=page):
        reproduce(PLAN, tmp_path / "runs", tmp_path / page)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow  # a whole reproduction
def test_figures_of_the_paper_are_shown_next_to_measured_ones(done, tmp_path):
    out, _ = done
    runs = {
        Step("run", side, seed=0): json.loads((out / f"runs/done/{side.lower()}-seed-0.json").read_text())
        for side in ("CL", "NCL")
    }
    plan = plan_for("cifar10", "images.tar", **ONE)
    text = write_page(tmp_path / "c.md", plan, {**runs, Step("matching"): None}).read_text()
    for published in PUBLISHED["cifar10"].values():
        assert f"{published.cl} → {published.ncl}" in text
    assert "**Not done yet**: matching." in text
    for run in runs.values():
        run["figures"].append({**run["figures"][0], "key": "shifted_imagenet-sketch", "layer": "encoder"})
    plan = plan_for("imagenet100", "images.tar", **ONE)
    selection = json.loads((out / "runs/done/selection-ncl.json").read_text())
    text = write_page(tmp_path / "i.md", plan, {**runs, Step("selection", "NCL"): selection}).read_text()
    assert "27.1 → 28.0 (ImageNet-Sketch)" in text and "The paper, 512 of 2,048 features" in text


def test_missing_data_is_reported_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        reproduce(plan_for("cifar10", str(tmp_path / "nowhere"), **ONE), tmp_path / "runs", tmp_path / "c.md")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="--page"):
        reproduce(PLAN, tmp_path / "c", tmp_path / "c.md")


def test_a_damaged_plan_is_reported(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/plan.json").write_text("{")
    with pytest.raises(InputError, match=r"plan\.json is damaged.*--overwrite"):
        reproduce(PLAN, tmp_path / "runs", tmp_path / "c.md")


def test_defaults_depend_on_the_recipe():
    digits, cifar10 = plan_for("digits"), plan_for("cifar10", "x.tar")
    assert (digits.seeds, digits.supervised_seeds, digits.epochs, digits.supervised_epochs) == (2, 2, 80, 60)
    assert (cifar10.seeds, cifar10.supervised_seeds, cifar10.fine_tune_epochs, cifar10.ablation_epochs) == (
        3,
        3,
        30,
        30,
    )
    assert plan_for("cifar10", "x.tar", seeds=1).supervised_seeds == 1
    assert plan_for("digits", epochs=None) == digits


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": "mnist"}, "recipe is 'mnist'"),
        ({"recipe": "cifar10"}, "data is missing.*cifar10"),
        ({"seeds": 0}, "seeds is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"ablation_epochs": -1}, "ablation_epochs is -1"),
        ({"supervised_seeds": 5}, "supervised_seeds is 5.*2"),
    ],
)
def test_impossible_plans_are_rejected(arguments, message):
    with pytest.raises(InputError, match=message):
        plan_for(**{"recipe": "digits", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"), [(["cifar10"], "data is missing"), (["digits", "--epochs", "0"], "epochs is 0")]
)
def test_the_command_rejects_an_impossible_plan_at_once(arguments, message, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, errors = command("reproduce", *arguments)
    assert code == 2 and message in errors and not list(tmp_path.iterdir())


def test_data_without_labels_is_rejected_before_anything_is_trained(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((64, 8, 8), np.uint8))
    plan = dataclasses.replace(PLAN, data=str(tmp_path / "images.npy"))
    with pytest.raises(InputError, match=r"images\.npy has no labels"):
        reproduce(plan, tmp_path / "runs", tmp_path / "digits.md")
    assert not (tmp_path / "runs").exists()
