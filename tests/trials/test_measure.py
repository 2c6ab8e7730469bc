"""`measure`: what the table holds for features, for runs and for what cannot be measured."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from sklearn.datasets import load_digits

from nonneg import Features, InputError, train
from nonneg.evaluate import Figure, Measured, Measurement, linear_probe
from nonneg.modalities.images import open_source
from nonneg.training import load_recipe
from nonneg.trials import PARTS, measure, measure_subject, open_subject

pytestmark = pytest.mark.usefixtures("one_thread")

PROBE = ("probe", "projector")


def clusters(seed: int, samples: int = 400, noise: float = 0.4) -> Features:
    """Non-negative codes of four classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, samples)
    codes = np.maximum(np.repeat(np.eye(4), 2, axis=1)[labels] + rng.normal(-0.5, noise, (samples, 8)), 0)
    return Features(sp.csr_array(codes.astype(np.float32)), labels=labels)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """CL and NCL, two seeds each, trained on some of the digits for a few epochs."""
    folder = tmp_path_factory.mktemp("runs")
    images, labels = load_digits(n_class=6, return_X_y=True)
    images = (images.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    few = folder / "few.npz"
    np.savez(few, x_train=images[:400], y_train=labels[:400], x_test=images[400:600], y_test=labels[400:600])
    recipe = dataclasses.replace(load_recipe("digits"), data=str(few), epochs=12, warmup_epochs=1, accelerator="cpu")
    for seed in (0, 1):
        for name, rectify in (("cl", "none"), ("ncl", "relu")):
            config = dataclasses.replace(recipe, seed=seed, rectify=rectify)
            train(config, folder / f"{name}-{seed}", progress=False)
    return folder


def test_features_with_separate_train_features_are_evaluated_on_all_rows():
    known, tested = clusters(0), clusters(1)
    found = measure(tested, train=[known], parts=["structure", "probe", "neighbours"], progress=False)
    assert found.values("features", PROBE) == [linear_probe(known, tested).accuracy]
    (one,) = found.columns["features"]
    figure = one.figures[PROBE]
    assert figure.samples is not None and len(figure.samples) == 400
    assert figure.interval is not None and figure.interval[0] < figure.value < figure.interval[1]
    for key in ("class_consistency", "sparsity", "hoyer", "live", "correlation", "effective_rank", "precision_at_10"):
        assert (key, "projector") in one.figures


def test_features_alone_are_split_into_train_and_test_rows():
    found = measure(clusters(0), parts=["probe"], progress=False)
    (one,) = found.columns["features"]
    assert len(one.figures[PROBE].samples) == 80 and "320" in one.protocol


def test_without_labels_only_unsupervised_parts_are_measured():
    found = measure(Features(clusters(0).codes), progress=False)
    keys = {key for key, _ in found.rows}
    assert "sparsity" in keys and not keys & {"probe", "class_consistency", "precision_at_10"}
    neighbours, probes = found.columns["features"][0].notes
    assert neighbours.startswith("neighbours could not be measured") and "no labels" in neighbours
    assert probes.endswith("(no labels): probe, few-labels, label-noise")


def test_parts_that_need_a_run_become_a_note_for_features():
    found = measure(clusters(0), parts=["structure", "sepin"], shifted_to=["digits"], progress=False)
    (note,) = found.columns["features"][0].notes
    assert note.endswith("not a trained run: sepin, shifted to digits")
    with pytest.raises(InputError, match=r"features: nothing could be measured.* sepin"):
        measure(clusters(0), parts=["sepin"], progress=False)


def test_classes_too_small_for_a_probe_leave_the_other_parts():
    few = Features(clusters(0).codes, labels=np.r_[1, np.zeros(len(clusters(0)) - 1, int)])
    found = measure(few, parts=["structure", "neighbours", "probe"], progress=False)
    keys = {key for key, _ in found.rows}
    assert {"class_consistency", "precision_at_10"} <= keys and not keys & {"probe", "neighbours"}
    (note,) = found.columns["features"][0].notes
    assert "only 1 class with two or more labelled samples (2 such classes are needed)" in note and note.endswith(
        ": probe"
    )
    assert found.markdown().count("labelled samples") == 1


def test_features_of_different_layers_share_the_rows_of_the_table(tmp_path):
    for layer in ("encoder", "projector"):
        some = clusters(0)
        Features(some.codes, labels=some.labels, provenance={"layer": layer}).save(tmp_path / f"{layer}.features")
    found = measure(*(str(tmp_path / f"{layer}.features") for layer in ("encoder", "projector")), progress=False)
    assert all(found.values("encoder", row) and found.values("projector", row) for row in found.rows)


def test_features_of_one_layer_keep_its_name():
    some = clusters(0)
    found = measure(Features(some.codes, labels=some.labels, provenance={"layer": "encoder"}), progress=False)
    assert {layer for _, layer in found.rows} == {"encoder"}


def test_too_few_labels_for_retrieval_become_a_note():
    few = Features(clusters(0).codes, labels=np.r_[[0, 0, 1, 1], np.full(len(clusters(0)) - 4, -1)])
    found = measure(few, parts=["structure", "neighbours"], progress=False)
    assert any("neighbours" in note and "too few" in note for note in found.columns["features"][0].notes)


def test_train_vectors_have_a_label_file_of_their_own(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        np.save(tmp_path / f"{name}.npy", clusters(seed).codes.toarray())
        np.save(tmp_path / f"{name}-labels.npy", clusters(seed).labels)
    a, b, a_labels, b_labels = (str(tmp_path / f"{name}.npy") for name in ("a", "b", "a-labels", "b-labels"))
    found = measure(b, train=[a], labels=b_labels, train_labels=a_labels, parts=["probe"], progress=False)
    assert len(found.columns["b.npy"][0].figures[PROBE].samples) == len(clusters(1))


def test_columns_with_the_same_samples_are_compared_sample_by_sample():
    known, tested = clusters(0), clusters(1)
    rng = np.random.default_rng(2)
    noise = [sp.csr_array(np.maximum(f.codes.toarray() + rng.normal(0, 1, f.shape), 0)) for f in (known, tested)]
    worse = [
        Features(codes.astype(np.float32), labels=f.labels) for codes, f in zip(noise, (known, tested), strict=True)
    ]
    found = measure(
        worse[1], tested, train=[worse[0], known], names=["noisy", "plain"], parts=["probe"], progress=False
    )
    difference = found.difference(PROBE, "noisy", "plain")
    hits = [found.columns[name][0].figures[PROBE].samples for name in ("noisy", "plain")]
    assert difference.over == "samples" and difference.mean == pytest.approx((hits[1] - hits[0]).mean())
    assert difference.p < 0.01 and difference.low > 0
    assert "plain - noisy" in found.markdown()


def test_columns_with_different_samples_are_not_paired():
    known, tested = clusters(0), clusters(1)
    turned = Features(tested.codes[::-1], labels=tested.labels[::-1], ids=[str(i) for i in range(400)][::-1])
    found = measure(tested, turned, train=[known, known], names=["a", "b"], parts=["probe"], progress=False)
    assert found.values("a", PROBE) == found.values("b", PROBE) and found.difference(PROBE, "a", "b") is None


def test_a_part_that_fails_leaves_the_others():
    one_class = Features(clusters(0).codes, labels=np.zeros(400, int))
    found = measure(clusters(1), train=[one_class], parts=["structure", "probe"], progress=False)
    assert found.values("features", ("sparsity", "projector")) and not found.values("features", PROBE)
    assert "probe could not be measured: linear_probe" in found.markdown()


def test_a_class_with_one_sample_is_only_fitted_on():
    some = clusters(0)
    rare = Features(some.codes, labels=np.where(np.arange(400) == 7, 9, some.labels))
    (one,) = measure(rare, parts=["probe"], progress=False).columns["features"]
    assert len(one.figures[PROBE].samples) == 80 and one.figures[PROBE].value > 0.9 and one.notes == ()


@pytest.mark.parametrize("codes", [np.ones((30, 1), np.float32), np.zeros((30, 3), np.float32)])
@pytest.mark.parametrize("labels", [None, np.full(30, -1), np.arange(30) % 2])
def test_constant_and_empty_features_can_be_measured(codes, labels):
    found = measure(Features(codes, labels=labels), progress=False)
    assert found.values("features", ("live", "projector")) == [float(codes.any(0).sum())]


def test_runs_of_several_seeds_share_a_column(runs):
    subjects = [",".join(f"{runs}/{name}-{seed}" for seed in (0, 1)) for name in ("cl", "ncl")]
    found = measure(*subjects, names=["CL", "NCL"], parts=["structure", "probe"], progress=False)
    assert len(found.values("NCL", PROBE)) == 2 and len(found.values("NCL", ("probe", "encoder"))) == 2
    assert [one.seed for one in found.columns["CL"]] == [0, 1]
    difference = found.difference(("sparsity", "projector"), "CL", "NCL")
    assert difference.over == "seeds" and difference.mean > 0.5
    subject = open_subject(f"{runs}/ncl-0")
    expected = linear_probe(subject.train["encoder"], subject.test["encoder"]).accuracy
    assert found.values("NCL", ("probe", "encoder"))[0] == expected
    text = found.markdown()
    assert " ± " in text and "paired over seeds" in text and "seeds 0, 1" in text


@pytest.mark.slow
def test_all_parts_of_a_run_are_measured(runs):
    # The shapes are in colour and larger than the digits that the run was trained on: they are converted.
    own = f"{runs}/few.npz"
    options = {"probe_epochs": 1, "fine_tune_epochs": 1, "transfer_to": [own, "shapes"], "shifted_to": [own]}
    found = measure(f"{runs}/ncl-0", parts=PARTS, progress=False, **options)
    keys = {key for key, layer in found.rows if layer == "encoder"}
    assert keys >= {"sepin_at_1", "corruptions", "corruption_fog", "augmented_probe", "fine_tuning", "neighbours"}
    assert keys >= {
        "probe_0.01_of_labels",
        "probe_0.9_random",
        "transfer_few.npz",
        "transfer_shapes",
        "shifted_few.npz",
    }
    # Transfer to the run's own data fits the same probe; shifting to it evaluates on the same samples.
    for key in ("transfer_few.npz", "shifted_few.npz"):
        assert found.values("ncl-0", (key, "encoder")) == found.values("ncl-0", ("probe", "encoder"))
    corrupted = found.values("ncl-0", ("corruptions", "encoder"))[0]
    assert corrupted < found.values("ncl-0", ("probe", "encoder"))[0]


def test_the_table_can_be_saved_in_every_format(tmp_path):
    found = measure(clusters(0), clusters(1), names=["<a>", "b|c"], parts=["structure", "probe"], progress=False)
    saved = json.loads(found.save(tmp_path / "t.json").read_text())
    assert [line["value"] for line in saved["columns"]["<a>"][0]["figures"] if line["key"] == "probe"]
    again = Measured.from_dict(saved["columns"]["<a>"][0])
    assert again.figures[PROBE].value == found.values("<a>", PROBE)[0]
    page = found.save(tmp_path / "t.html").read_text()
    assert "&lt;a&gt;" in page and "<a>" not in page and page == found._repr_html_()
    assert "b\\|c" in found.save(tmp_path / "t.md").read_text()
    lines = (found.save(tmp_path / "t.csv")).read_text().splitlines()
    frame = found.to_frame()
    assert len(lines) == len(frame) + 1 and set(frame["column"]) == {"<a>", "b|c"}
    console = Console(width=200, record=True)
    console.print(found)
    assert "linear probe" in console.export_text()
    with pytest.raises(InputError, match=r"t\.txt.*expected \.md"):
        found.save(tmp_path / "t.txt")


def test_nan_is_a_dash_in_tables_and_null_in_json():
    rare = np.zeros((40, 2), np.float32)
    rare[:3, 0] = 1
    found = measure(Features(rare, labels=np.arange(40) % 2), parts=["structure"], progress=False)
    supported = ("class_consistency_supported", "projector")
    assert np.isnan(found.values("features", supported)[0])
    figures = found.to_dict()["columns"]["features"][0]["figures"]
    assert next(line for line in figures if line["key"] == supported[0])["value"] is None
    assert Measured.from_dict(found.to_dict()["columns"]["features"][0]).figures[supported].interval is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: measure(), "no subject is given"),
        (lambda f: measure(f, parts=["taste"]), "parts has 'taste', expected some of structure, probe"),
        (lambda f: measure(f, f, names=["a"]), "names has 1 entry, expected 2"),
        (lambda f: measure(f, f, names=["a", "a"]), "names is ['a', 'a']"),
        (lambda f: measure(f, train=[Features(np.ones((9, 2), np.float32))]), "has 2 features and features 8"),
        (lambda f: measure(Features(f.codes), parts=["probe"], progress=False), "nothing could be measured"),
        (lambda f: measure(f, train=[f, f]), "train has 2 entries, expected 1"),
        (lambda f: measure("nowhere.npy"), "nowhere.npy"),
        (lambda f: measure(f, train_labels="y.npy"), "train_labels is y.npy"),
        (
            lambda f: measure(Features(np.ones((4, 2), np.float32), labels=[0, 1, 1, 1]), parts=["probe"]),
            "only 4 labelled samples (10 are needed)",
        ),
    ],
)
def test_invalid_arguments_are_errors_that_name_the_argument(call, message):
    with pytest.raises(InputError) as error:
        call(clusters(0))
    assert message in str(error.value)


def test_the_command_measures_vectors_and_features(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    codes = clusters(0)
    np.savez(tmp_path / "v.npz", x=codes.codes.toarray(), y=codes.labels)
    codes.save(tmp_path / "c.features")

    code, table, error = command(
        "measure", "v.npz:x", "--labels", "v.npz:y", "--parts", "structure", "probe", "--out", "t.json"
    )
    assert code == 0, error
    assert "| linear probe |" in table and (tmp_path / "t.json").is_file()
    code, table, _ = command("measure", "c.features", "--parts", "structure")
    assert code == 0 and "| class consistency |" in table and "Brackets" in table
    code, table, error = command("measure", "c.features", "v.npz:x", "--labels", "v.npz:y", "--parts", "probe")
    assert code == 0 and "| linear probe |" in table, error
    for arguments, message in (
        (["c.features", "--labels", "v.npz:y"], "labels is v.npz:y, expected none"),
        (["c.features", "--out", "nowhere/t.md"], "nowhere/t.md"),
        ([str(tmp_path)], str(tmp_path)),
        (["nowhere.npy"], "nowhere.npy"),
    ):
        code, table, error = command("measure", *arguments)
        assert code == 2 and message in error and not table


def test_a_run_on_data_without_splits_is_evaluated_on_a_fifth_of_it(tmp_path):
    source = open_source("digits")
    labels = np.where(np.arange(300) == 7, 10, source.labels[:300])  # a class with one sample, which is fitted on
    np.savez(tmp_path / "images.npz", images=source.samples[:300], labels=labels)
    config = dataclasses.replace(load_recipe("digits"), data=str(tmp_path / "images.npz"), epochs=1, warmup_epochs=1)
    run = train(dataclasses.replace(config, accelerator="cpu"), tmp_path / "run", progress=False)
    found = measure(str(run), parts=["probe", "sepin"], shifted_to=[config.data], progress=False)
    (one,) = found.columns["run"]
    assert len(one.figures[PROBE].samples) == 60 and "240" in one.protocol
    assert len(one.figures["shifted_images.npz", "projector"].samples) == 300

    other = measure(str(run), data="digits", parts=["structure"], progress=False).columns["run"][0]
    assert "trained on" in one.protocol and "trained on" not in other.protocol


def test_without_labels_a_run_still_says_that_it_is_evaluated_on_what_it_was_trained_on(tmp_path):
    np.save(tmp_path / "images.npy", open_source("digits").samples[:200])
    config = dataclasses.replace(load_recipe("digits"), data=str(tmp_path / "images.npy"), epochs=1, warmup_epochs=1)
    run = train(dataclasses.replace(config, accelerator="cpu", batch_size=64), tmp_path / "run", progress=False)
    (one,) = measure(str(run), parts=["structure", "probe"], progress=False).columns["run"]
    assert "40 samples of images/train" in one.protocol and "trained on all of them" in one.protocol
    assert one.protocol.endswith("no labels") and "probe" in one.notes[0]


def test_other_data_gets_distinct_names_and_is_opened_before_the_work_starts(tmp_path):
    config = dataclasses.replace(load_recipe("digits"), epochs=1, warmup_epochs=1, accelerator="cpu")
    run = str(train(config, tmp_path / "run", progress=False))
    test = open_source("digits", "test")
    coloured = np.concatenate([test.samples, test.samples // 2, test.samples], axis=3)
    for name, images in (("plain", test.samples), ("dark", test.samples // 4), ("colour", coloured)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "val.npz", images=images, labels=test.labels)
    paths = [str(tmp_path / name / "val.npz") for name in ("plain", "dark", "colour")]
    found = measure(run, parts=["structure"], shifted_to=paths, progress=False).columns["run"][0]
    assert found.notes == ()
    accuracies = [found.figures[f"shifted_{name}/val.npz", "encoder"].value for name in ("plain", "dark", "colour")]
    assert len(set(accuracies)) == 3
    started = []
    for other in ({"shifted_to": ["missing.npz"]}, {"transfer_to": ["missing.npz"]}):
        with pytest.raises(InputError, match=r"missing\.npz"):
            measure_subject(open_subject(run), ["structure"], **other, on_start=started.append)
    assert not started


def test_a_path_may_contain_a_comma(tmp_path):
    clusters(0).save(tmp_path / "a,b.features")
    assert list(measure(str(tmp_path / "a,b.features"), parts=["structure"], progress=False).columns) == ["a,b"]


def test_the_interval_of_class_consistency_stays_between_0_and_1():
    labels = np.arange(400) % 2
    codes = np.eye(2, dtype=np.float32)[labels]
    codes[:2] = codes[:2, ::-1]
    (one,) = measure(Features(codes, labels=labels), parts=["structure"], progress=False).columns["features"]
    low, high = one.figures["class_consistency", "projector"].interval
    assert 0.9 < low < 0.995 and high == 1.0


def test_runs_on_other_samples_have_no_difference_over_seeds():
    def column(samples):
        figures = {PROBE: Figure(*PROBE, "linear probe", 0.5)}
        return tuple(Measured("x", seed, "", figures, samples) for seed in (0, 1))

    found = Measurement({"a": column("some"), "b": column("others"), "c": column("some")}, {})
    assert found.difference(PROBE, "a", "b") is None
    assert found.difference(PROBE, "a", "c").over == "seeds"


def test_runs_without_shared_seeds_have_no_difference():
    def column(seed, value):
        return (Measured("x", seed, "", {PROBE: Figure(*PROBE, "linear probe", value)}),)

    found = Measurement({"a": column(0, 0.5), "b": column(1, 0.6)}, {})
    assert found.difference(PROBE, "a", "b") is None and "b - a" not in found.markdown()


def test_the_mutual_information_gap_is_measured_where_factors_are_known(tmp_path):
    config = dataclasses.replace(load_recipe("shapes"), epochs=1, warmup_epochs=1, accelerator="cpu")
    found = measure(str(train(config, tmp_path / "shapes", progress=False)), parts=["structure"], progress=False)
    for binning in ("equal-width", "zero-quantiles"):
        (value,) = found.values("shapes", (f"mutual_information_gap_{binning}", "projector"))
        assert 0 <= value <= 1


def test_a_run_trained_on_an_array_asks_for_data(tmp_path):
    images = open_source("digits", "train").samples[:64]
    recipe = dataclasses.replace(load_recipe("digits"), epochs=1, warmup_epochs=0, batch_size=32, accelerator="cpu")
    run = str(train(recipe, tmp_path / "run", source=images, progress=False))
    with pytest.raises(InputError, match=r"run was trained on 'array.*--data"):
        measure(run, parts=["structure"], progress=False)
    with pytest.raises(InputError, match="data is 'nowhere'"):
        measure(run, data="nowhere", parts=["structure"], progress=False)
    found = measure(run, data="digits", parts=["structure"], progress=False)
    assert found.values("run", ("features", "projector")) == [recipe.features]


def test_paths_are_given_as_strings_or_as_path_objects(tmp_path):
    for name, seed in (("known", 0), ("tested", 1)):
        clusters(seed).save(tmp_path / f"{name}.features")
    found = measure(tmp_path / "tested.features", train=[tmp_path / "known.features"], parts=["probe"], progress=False)
    assert found.values("tested", PROBE) == [linear_probe(clusters(0), clusters(1)).accuracy]
