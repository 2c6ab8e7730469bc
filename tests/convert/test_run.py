"""`nonneg convert`: from files to a run and its features."""

import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import nonneg
from nonneg import Features, InputError
from nonneg.convert import NonNegativeEmbedding, convert_file, open_inputs


def small(**changed):
    return NonNegativeEmbedding(**{"n_components": 24, "max_active": 4, "max_iter": 20, "random_state": 0} | changed)


@pytest.fixture
def files(tmp_path, clusters):
    X, kinds = clusters
    np.savez(tmp_path / "v.npz", x=X, y=X + 0.1, kind=kinds)
    (tmp_path / "texts.txt").write_text("\n".join(f"text {i}" for i in range(300)) + "\n")
    (tmp_path / "ids.csv").write_text("id,kind\n" + "\n".join(f"s{i},k{kinds[i]}" for i in range(300)))
    return tmp_path


def test_a_run_and_its_features_are_written(files, clusters):
    X, kinds = clusters
    made = convert_file(
        f"{files}/v.npz:x",
        files / "run",
        pairs=f"{files}/v.npz:y",
        labels=f"{files}/ids.csv:kind",
        ids=f"{files}/ids.csv:id",
        texts=f"{files}/texts.txt",
        embedding=small(),
        progress=False,
    )
    features = Features.load(made.features)
    assert features.shape == (300, 24) and features.is_sparse
    assert features.labels.tolist() == kinds.tolist() and features.label_names == tuple(f"k{i}" for i in range(6))
    assert features.samples["text"][5].as_py() == "text 5" and features.samples["id"][7].as_py() == "s7"
    again = NonNegativeEmbedding.from_pretrained(made.run)
    assert (again.transform(X) != made.embedding.transform(X)).nnz == 0
    np.testing.assert_array_equal(features.codes.toarray(), again.transform(X).toarray())
    assert json.loads((made.run / "log.jsonl").read_text().splitlines()[-1])["step"] == 20
    assert {path.name for path in made.run.iterdir()} == {"config.json", "environment.json", "log.jsonl", "model"}
    with pytest.raises(InputError, match="exists already"):
        convert_file(f"{files}/v.npz:x", files / "run", embedding=small(), progress=False)
    convert_file(f"{files}/v.npz:x", files / "run", embedding=small(), overwrite=True, progress=False)


def test_labels_are_used_only_if_supervised(files):
    plain, supervised = (
        convert_file(
            f"{files}/v.npz:x",
            files / str(is_supervised),
            labels=f"{files}/v.npz:kind",
            embedding=small(supervised=is_supervised),
            progress=False,
        )
        for is_supervised in (False, True)
    )
    assert not np.allclose(plain.embedding.head_.weight, supervised.embedding.head_.weight)


def test_images_are_matched_by_id_or_by_order(files, clusters):
    folder = files / "images"
    folder.mkdir()
    for i in range(300):
        Image.new("RGB", (10, 10), (i % 256, 0, 0)).save(folder / f"s{i}.png")
    made = convert_file(
        f"{files}/v.npz:x",
        files / "by-id",
        ids=f"{files}/ids.csv:id",
        media=str(folder),
        embedding=small(),
        progress=False,
    )
    features = Features.load(made.features)
    picture = Image.open(io.BytesIO(features.media(123))).convert("RGB")
    assert abs(picture.getpixel((5, 5))[0] - 123) < 6
    (folder / "s5.png").unlink()
    with pytest.raises(InputError, match="no image named 's5'"):
        convert_file(f"{files}/v.npz:x", files / "b", ids=f"{files}/ids.csv:id", media=str(folder), progress=False)
    with pytest.raises(InputError, match="299 images, expected 300"):
        convert_file(f"{files}/v.npz:x", files / "c", media=str(folder), progress=False)


def test_an_id_names_one_image_by_its_path_or_file_name(files):
    rows = 300
    for folder in ("a", "b"):
        (files / "images" / folder).mkdir(parents=True)
    for i in range(rows):
        Image.new("RGB", (8, 8), (i % 256, 0, 0)).save(files / "images" / "a" / f"s{i}.png")
    Image.new("RGB", (8, 8), "blue").save(files / "images" / "b" / "s7.png")

    def pictures(ids):
        (files / "names.txt").write_text("\n".join(ids))
        return open_inputs(
            f"{files}/v.npz:x", ids=f"{files}/names.txt", media=str(files / "images"), progress=False
        ).pixels

    exact = [f"a/s{i}.png" if i == 7 else f"s{i}" for i in range(rows)]
    assert pictures(exact)[7, 4, 4].tolist() == [7, 0, 0]
    with pytest.raises(InputError, match="2 images named 's7'"):
        pictures([f"s{i}" for i in range(rows)])


@pytest.mark.slow  # tests/hunts kills a few conversions every time
def test_a_killed_run_resumes_to_the_same_weights(files, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    settings = ["--n-components", "64", "--max-active", "4", "--max-iter", "400", "--batch-size", "300"]
    command = [sys.executable, "-m", "nonneg", "convert", f"{files}/v.npz:x", *settings, "--out"]
    # A checkpoint every 5 seconds is too rare for a test, so the clock runs 100 times as fast.
    fast = (
        "import time; now = time.monotonic; time.monotonic = lambda: 100 * now(); from nonneg.cli import main; main()"
    )
    torn = [sys.executable, "-c", fast, *command[3:], str(files / "torn")]
    process = subprocess.Popen(torn, stderr=subprocess.PIPE)
    while not (files / "torn" / "checkpoint").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert (files / "torn" / "checkpoint").exists() and not (files / "torn" / "model").exists()
    rejected = subprocess.run([*torn, "--noise", "0.1"], capture_output=True, text=True)
    assert rejected.returncode == 2 and "noise 0.7, not 0.1" in rejected.stderr
    for out in ("torn", "whole"):
        done = subprocess.run([*command, str(files / out)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    a, b = (NonNegativeEmbedding.from_pretrained(files / out).head_.weight for out in ("torn", "whole"))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda X: X.__setitem__((7, 3), np.nan), "row 7, contains NaN"),
        (lambda X: X.__setitem__((8, 3), np.inf), "row 8, contains .*infinity"),
        (lambda X: X.__setitem__(slice(5, 8), 0), r"row 5 \(and 2 more nearby\), contains only zeros"),
        (lambda X: X.resize((1, 24), refcheck=False), "one row, expected at least two"),
        (lambda X: X.__setitem__(slice(None), 1), "all 300 rows have the same direction"),
        (lambda X: X.__setitem__(slice(None), np.outer(np.arange(1, 301), X[0])), "same direction"),
    ],
)
def test_rows_without_a_direction_are_named(damage, found, tmp_path, clusters):
    X = clusters[0].copy()
    damage(X)
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match=found):
        open_inputs(str(tmp_path / "x.npy"))


def test_constant_columns_are_reported(tmp_path, clusters, capsys):
    X = clusters[0].copy()
    X[:, [2, 5]] = 0.5
    np.save(tmp_path / "x.npy", X)
    open_inputs(str(tmp_path / "x.npy"))
    assert "2 of 24 columns are constant (2, 5)" in capsys.readouterr().err


def test_a_column_of_positive_numbers_has_one_direction(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1.0, 20)[:, None])
    with pytest.raises(InputError, match=r"x\.npy: all 19 rows have the same direction"):
        open_inputs(str(tmp_path / "x.npy"))


def test_a_warning_shows_the_exact_file_name(tmp_path, clusters, capsys):
    X = clusters[0].copy()
    X[:, 0] = 0
    np.savez(tmp_path / "a[red]b.npz", a=X)
    open_inputs(f"{tmp_path}/a[red]b.npz:a")
    assert "a[red]b.npz:a: 1 of 24 columns" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [">f4", ">f8", "longdouble", ">f2", ">i4"])
def test_vectors_of_any_numeric_type_are_converted(kind, tmp_path, clusters):
    X = np.round(20 * clusters[0])
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", X.astype(kind))
    plain, other = (
        convert_file(f"{tmp_path}/{name}.npy", tmp_path / name, embedding=small(max_iter=3), progress=False)
        for name in "xy"
    )
    a, b = (Features.load(made.features).codes for made in (plain, other))
    assert abs(a - b).max() < 1e-4


def test_vectors_outside_the_range_of_float32_keep_their_direction(tmp_path, clusters):
    X = clusters[0].astype(np.float64)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X * np.where(np.arange(len(X)) % 2, 1e100, 1e-100)[:, None])
    plain, other = (
        convert_file(f"{tmp_path}/{name}.npy", tmp_path / name, embedding=small(max_iter=3), progress=False)
        for name in "xy"
    )
    a, b = (Features.load(made.features).codes for made in (plain, other))
    assert abs(a - b).max() < 1e-3 and 0 < plain.neighbours_kept == pytest.approx(other.neighbours_kept, abs=0.01)


def test_ids_are_read_as_they_are_written(files):
    np.save(files / "ids.npy", np.arange(300.0))
    assert open_inputs(f"{files}/v.npz:x", ids=f"{files}/ids.npy").ids[:3] == ["0", "1", "2"]
    (files / "ids.csv").write_text("id\n" + "\n".join(f"{i:04}" for i in range(300)))
    assert open_inputs(f"{files}/v.npz:x", ids=f"{files}/ids.csv").ids[7] == "0007"


def test_the_id_column_of_a_csv_file_is_used_unless_ids_are_given(files, clusters):
    rows = [f"n{i}," + ",".join(map(str, row)) for i, row in enumerate(clusters[0])]
    (files / "v.csv").write_text("\n".join(["id," + ",".join(map(str, range(24))), *rows]))
    assert open_inputs(f"{files}/v.csv").ids[:2] == ["n0", "n1"]
    (files / "own.txt").write_text("\n".join(map(str, range(300))))
    assert open_inputs(f"{files}/v.csv", ids=f"{files}/own.txt").ids[:2] == ["0", "1"]


def test_labels_ids_and_texts_in_the_file_of_the_vectors_are_no_part_of_them(files, clusters):
    X, kinds = clusters
    rows = [f"s{i},{kinds[i]},{','.join(map(str, row))},text {i}" for i, row in enumerate(X)]
    (files / "v.csv").write_text("\n".join(["key,label," + ",".join(f"x{i}" for i in range(24)) + ",text", *rows]))
    where = {
        name: f"{files}/v.csv:{column}" for name, column in (("labels", "label"), ("ids", "key"), ("texts", "text"))
    }
    made = convert_file(f"{files}/v.csv", files / "run", embedding=small(), progress=False, **where)
    features = Features.load(made.features)
    assert made.embedding.n_features_in_ == 24
    assert features.labels.tolist() == kinds.tolist() and features.id(3) == "s3" and features.text(3) == "text 3"


@pytest.mark.parametrize(
    ("named", "order"),
    [
        ([f"{i}.png" for i in range(12)], range(12)),
        ([f"{i}.png" for i in reversed(range(12))], range(11, -1, -1)),  # by the row's number
        ([f"row{i}.png" for i in range(1, 13)], range(12)),  # by name, numbers by value
        ([f"{'ba'[i % 2]}/{i}.png" for i in range(12)], range(12)),
        ([*(f"{i}.png" for i in range(12)), "other.png"], range(12)),
        ([f"a/{i}.png" for i in range(6)] + [f"b/{i}.png" for i in range(6)], range(12)),
    ],
)
def test_images_without_ids_are_matched_by_row_number_or_by_the_order_of_their_names(named, order, tmp_path, clusters):
    np.save(tmp_path / "x.npy", clusters[0][:12])
    for i, name in enumerate(named):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (20 * i, 0, 0)).save(tmp_path / "images" / name)
    pixels = open_inputs(f"{tmp_path}/x.npy", media=f"{tmp_path}/images", progress=False).pixels
    np.testing.assert_allclose(pixels[:, 4, 4, 0], [20 * i for i in order], atol=4)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"labels": "short.txt"}, "short.txt has 2 rows, expected 300"),
        ({"pairs": "v.npz:kind"}, r"v.npz:kind .*shape \(300,\)"),
        ({"pairs": "other.npy"}, r"other.npy .*\(2, 3\), expected \(300, 24\)"),
        ({"ids": "same.txt"}, "same.txt: rows 0 and 1 .*'a'"),
        ({"labels": "half.npy"}, "half.npy .*0.5"),
        ({"texts": "nothing.txt"}, "nothing.txt cannot be read: no such file"),
        ({"media": "nowhere"}, "media is '.*nowhere'"),
        ({"ids": "gap.txt"}, "gap.txt, row 7, has no id"),
    ],
)
def test_inconsistent_input_is_named_and_nothing_is_written(given, found, files):
    (files / "short.txt").write_text("a\nb\n")
    (files / "same.txt").write_text("a\n" * 300)
    (files / "gap.txt").write_text("\n".join("" if i == 7 else str(i) for i in range(300)))
    np.save(files / "other.npy", np.eye(2, 3))
    np.save(files / "half.npy", np.full(300, 0.5))
    ((name, value),) = given.items()
    with pytest.raises(InputError, match=found):
        convert_file(f"{files}/v.npz:x", files / "run", **{name: f"{files}/{value}"}, embedding=small(), progress=False)
    assert not (files / "run").exists()


def test_classify_writes_a_classifier_into_the_run(files):
    from nonneg.convert import NonNegativeClassifier

    options = {"embedding": small(), "classify": True, "progress": False}
    with pytest.raises(InputError, match=r"classify .*labels"):
        convert_file(f"{files}/v.npz:x", files / "run", **options)
    made = convert_file(f"{files}/v.npz:x", files / "run", labels=f"{files}/v.npz:kind", **options)
    classifier = NonNegativeClassifier.from_pretrained(made.run / "classifier")
    with np.load(files / "v.npz") as given:
        assert classifier.score(given["x"], given["kind"]) > 0.9
        codes = Features.load(made.features).codes
        assert abs(classifier.embedding_.transform(given["x"]) - codes).max() == 0


def test_names_of_labels_and_features_reach_the_classifier_and_people_may_change_them(files):
    from nonneg import NonNegativeClassifier
    from nonneg.features import journal

    kinds = np.load(files / "v.npz")["kind"]
    words = ["alpha beta", "gamma delta", "kappa omega", "sigma theta", "zeta iota"]
    (files / "words.txt").write_text("\n".join(f"{words[kind % 5]} text" for kind in kinds) + "\n")
    names = tuple(f"kind {letter}" for letter in "abcdefghij"[: len(set(kinds.tolist()))])
    made = convert_file(
        f"{files}/v.npz:x",
        files / "run",
        labels=f"{files}/v.npz:kind",
        texts=f"{files}/words.txt",
        label_names=names,
        sentence_model="some/model",
        embedding=small(),
        classify=True,
        progress=False,
    )
    features = Features.load(made.features)
    assert features.label_names == names and features.suggestions and not features.names
    assert features.provenance["sentence_model"] == "some/model"
    x = np.load(files / "v.npz")["x"]
    why = NonNegativeClassifier.from_pretrained(made.run).explain(x[0])
    assert why.label in names
    first = why.contributions[0]
    assert first.name == features.titles[first.feature]
    assert first.is_guess == features.suggestions[first.feature].is_guess
    journal(made.features).record({first.feature: "mine"})
    again = NonNegativeClassifier.from_pretrained(made.run)
    assert again.explain(x[0]).contributions[0].name == "mine"
    labels = np.array(names)[kinds]
    seen, new = again.what_if(x, labels), again.what_if(-x, labels)
    assert seen.fitted == seen.rows == len(x) and "fit" in str(seen) and new.fitted == 0


def test_features_are_named_by_a_namer_of_ones_own(files):
    (files / "words.txt").write_text("\n".join(["ants and bees", "cats and dogs", "eels and foxes"] * 100))
    made = convert_file(
        f"{files}/v.npz:x",
        files / "run",
        texts=f"{files}/words.txt",
        namer=lambda task: f"name {task.feature}",
        embedding=small(),
        progress=False,
    )
    found = Features.load(made.features).suggestions
    assert found and all(suggestion.name == f"name {feature}" for feature, suggestion in found.items())


def test_a_conversion_is_not_loaded_as_a_trained_run(files):
    made = convert_file(f"{files}/v.npz:x", files / "run", embedding=small(), progress=False)
    for path in (made.run, made.run / "model"):
        with pytest.raises(InputError, match=r"is a run of nonneg convert, .*NonNegativeEmbedding\.from_pretrained"):
            nonneg.load(path)


def test_label_names_must_match_the_labels(files):
    for given in (("a",), ("a",) * 99, ("0", "1")):
        with pytest.raises(InputError, match="label_names"):
            convert_file(f"{files}/v.npz:x", files / "run", labels=f"{files}/v.npz:kind", label_names=given)


@pytest.mark.parametrize(
    ("names", "known", "warning"),
    [
        (["k5", "k4", "k3", "k2", "k1", "k0"], ["k0", "k1", "k2", "k3", "k4", "k5"], ""),
        (["k1", *"bcdef"], ["k1", *"bcdef"], "k0 → k1, k1 → b, k2 → c"),
    ],
)
def test_labels_that_are_words_keep_their_names_or_are_renamed_openly(names, known, warning, files, clusters, capsys):
    where = f"{files}/ids.csv:kind"
    made = convert_file(
        f"{files}/v.npz:x", files / "run", labels=where, label_names=names, embedding=small(), progress=False
    )
    features = Features.load(made.features)
    assert list(features.label_names) == known and features.labels.tolist() == clusters[1].tolist()
    printed = capsys.readouterr().err
    assert warning in printed and bool(printed) == bool(warning)
