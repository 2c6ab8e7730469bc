import dataclasses
import json

import numpy as np
import pytest

from nonneg import Features, InputError, measure, train
from nonneg.studies import examine
from nonneg.training import load_recipe

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = {"n_components": 16, "max_active": 4, "max_iter": 5, "progress": False}


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(0)
    kinds = np.arange(200) % 4
    X = (rng.normal(size=(4, 12))[kinds] + 0.5 * rng.normal(size=(200, 12))).astype(np.float32)
    np.savez(tmp_path / "v.npz", x=X, kind=kinds)
    return tmp_path, X, kinds


def test_files_features_folders_and_runs_are_examined(vectors):
    folder, X, kinds = vectors
    of_file = examine(f"{folder}/v.npz:x", f"{folder}/v.npz:kind", **QUICK)
    assert of_file.rows == 200 and of_file.classes == 4 and of_file.name == "v.npz:x"
    Features(X, labels=kinds).save(folder / "x.features")
    of_features = examine(f"{folder}/x.features", **QUICK)
    assert of_features.given == of_file.given and of_features.classes == 4
    (folder / "x").mkdir()  # a run folder with features next to it
    assert examine(f"{folder}/x", **QUICK).given == of_file.given


def test_labels_in_the_file_of_the_vectors_are_no_part_of_them(vectors):
    folder, X, kinds = vectors
    rows = [",".join(map(str, [*row, kind])) for row, kind in zip(X, kinds, strict=True)]
    (folder / "v.csv").write_text("\n".join([",".join(map(str, range(12))) + ",label", *rows]))
    assert examine(f"{folder}/v.csv", f"{folder}/v.csv:label", **QUICK).features == 12
    found = measure(f"{folder}/v.csv", labels=f"{folder}/v.csv:label", parts=["structure"], progress=False)
    same = measure(Features(X, labels=kinds), parts=["structure"], progress=False)
    wanted = ("sparsity", "projector")
    assert found.values("v.csv", wanted) == same.values("features", wanted)


def test_the_test_samples_of_a_trained_run_are_embedded(tmp_path):
    config = dataclasses.replace(load_recipe("digits"), epochs=1, warmup_epochs=1)
    run = train(config, tmp_path / "run", progress=False)
    found = examine(str(run), **QUICK)
    assert found.features == config.features and found.classes == 10 and found.negative == 0
    assert found.rows == 397


def test_a_run_trained_on_an_array_cannot_be_examined(tmp_path):
    config = dataclasses.replace(load_recipe("digits"), epochs=1, warmup_epochs=0, batch_size=32)
    run = train(config, tmp_path / "run", source=np.zeros((64, 8, 8, 1), np.uint8), progress=False)
    with pytest.raises(InputError, match=r"run was trained on 'array.*nonneg embed"):
        examine(str(run), **QUICK)


def test_labels_of_the_wrong_length_and_empty_folders_are_rejected(vectors, tmp_path):
    folder, _, _ = vectors
    (folder / "few.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match=r"few\.txt.* 2 rows.*200"):
        examine(f"{folder}/v.npz:x", f"{folder}/few.txt", **QUICK)
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="empty"):
        examine(f"{folder}/empty", **QUICK)


def test_the_file_with_non_finite_vectors_is_named(vectors):
    folder, X, _ = vectors
    np.save(folder / "broken.npy", np.where(np.arange(200)[:, None] == 5, np.nan, X))
    with pytest.raises(InputError, match=r"broken.npy.*NaN.* in 1 of 200 rows \(5\)"):
        examine(f"{folder}/broken.npy", **QUICK)


def test_csv_labels_without_a_header_are_explained(vectors):
    folder, _, _ = vectors
    (folder / "l.csv").write_text("first\n" + "other\n" * 199)
    with pytest.raises(InputError, match=r"l\.csv.*199 rows.*'first'.*header"):
        examine(f"{folder}/v.npz:x", f"{folder}/l.csv", **QUICK)


def test_the_command_prints_json(vectors, command):
    folder, _, _ = vectors
    code, output, errors = command("doctor", f"{folder}/v.npz:x", "--max-iter", "5", "--json")
    assert code == 0, errors
    assert json.loads(output)["rows"] == 200
