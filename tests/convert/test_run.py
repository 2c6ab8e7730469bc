"""`nonneg convert` from files to a run and its features."""

import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from nonneg import Features, InputError
from nonneg.convert import NonNegativeEmbedding, convert_file
from nonneg.convert._inputs import checked_vectors, open_inputs


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


def test_labels_guide_it_if_asked_to(files):
    plain, told = (
        convert_file(
            f"{files}/v.npz:x",
            files / str(supervised),
            labels=f"{files}/v.npz:kind",
            embedding=small(supervised=supervised),
            progress=False,
        )
        for supervised in (False, True)
    )
    assert not np.allclose(plain.embedding.head_.weight, told.embedding.head_.weight)


def test_images_come_along_by_id_or_in_order(files, clusters):
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
    picture = Image.open(io.BytesIO(features.samples["media"][123].as_py())).convert("RGB")
    assert abs(picture.getpixel((5, 5))[0] - 123) < 6
    (folder / "s5.png").unlink()
    with pytest.raises(InputError, match="no image named 's5'"):
        convert_file(f"{files}/v.npz:x", files / "b", ids=f"{files}/ids.csv:id", media=str(folder), progress=False)
    with pytest.raises(InputError, match="holds 299 images, expected 300"):
        convert_file(f"{files}/v.npz:x", files / "c", media=str(folder), progress=False)


def test_killed_and_started_again_it_ends_the_same(files, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    settings = ["--n-components", "64", "--max-active", "4", "--max-iter", "400", "--batch-size", "300"]
    command = [sys.executable, "-m", "nonneg", "convert", f"{files}/v.npz:x", *settings, "--out"]
    # Checkpoints every 5 seconds are too rare for a test: written often by a changed clock.
    often = "import nonneg.convert._run as r; r._SAVE_EVERY = 0.05; from nonneg.cli import main; main()"
    torn = [sys.executable, "-c", often, *command[3:], str(files / "torn")]
    process = subprocess.Popen(torn, stderr=subprocess.PIPE)
    while not (files / "torn" / "checkpoint").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert (files / "torn" / "checkpoint").exists() and not (files / "torn" / "model").exists()
    refused = subprocess.run([*torn, "--noise", "0.1"], capture_output=True, text=True)
    assert refused.returncode == 2 and "unfinished run with noise 0.7, not 0.1" in refused.stderr
    for out in ("torn", "whole"):
        done = subprocess.run([*command, str(files / out)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    a, b = (NonNegativeEmbedding.from_pretrained(files / out).head_.weight for out in ("torn", "whole"))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda X: X.__setitem__((7, 3), np.nan), "row 7, holds NaN or infinite numbers, expected finite ones"),
        (lambda X: X.__setitem__((8, 3), np.inf), "row 8, holds NaN"),
        (lambda X: X.__setitem__(slice(5, 8), 0), r"row 5 \(and 2 more nearby\), holds zeros alone"),
        (lambda X: X.__setitem__(slice(None), 1), "all 300 rows point in one direction"),
        (lambda X: X.__setitem__(slice(None), np.outer(np.arange(1, 301), X[0])), "rows point in one direction"),
    ],
)
def test_bad_rows_are_named(damage, sentence, tmp_path, clusters):
    X = clusters[0].copy()
    damage(X)
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match=sentence):
        checked_vectors(str(tmp_path / "x.npy"))


def test_constant_columns_are_mentioned(tmp_path, clusters, capsys):
    X = clusters[0].copy()
    X[:, [2, 5]] = 0.5
    np.save(tmp_path / "x.npy", X)
    checked_vectors(str(tmp_path / "x.npy"))
    assert "2 of 24 columns are the same in every row (2, 5)" in capsys.readouterr().err


def test_a_column_of_positive_numbers_has_one_direction(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1.0, 20)[:, None])
    with pytest.raises(InputError, match=r"x.npy: all 19 rows point in one direction, expected different ones"):
        checked_vectors(str(tmp_path / "x.npy"))


def test_a_warning_shows_a_files_name_as_it_is(tmp_path, clusters, capsys):
    X = clusters[0].copy()
    X[:, 0] = 0
    np.savez(tmp_path / "a[red]b.npz", a=X)
    checked_vectors(f"{tmp_path}/a[red]b.npz:a")
    assert "a[red]b.npz:a: 1 of 24 columns" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [">f4", ">f8", "longdouble", ">f2", ">i4"])
def test_numbers_of_any_kind_are_converted(kind, tmp_path, clusters):
    X = np.round(20 * clusters[0])
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", X.astype(kind))
    plain, other = (
        convert_file(f"{tmp_path}/{name}.npy", tmp_path / name, embedding=small(max_iter=3), progress=False)
        for name in "xy"
    )
    a, b = (Features.load(made.features).codes for made in (plain, other))
    assert abs(a - b).max() < 1e-4


def test_vectors_beyond_float32_count_by_direction(tmp_path, clusters):
    X = clusters[0].astype(np.float64)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X * np.where(np.arange(len(X)) % 2, 1e100, 1e-100)[:, None])
    plain, other = (
        convert_file(f"{tmp_path}/{name}.npy", tmp_path / name, embedding=small(max_iter=3), progress=False)
        for name in "xy"
    )
    a, b = (Features.load(made.features).codes for made in (plain, other))
    assert abs(a - b).max() < 1e-3 and 0 < plain.neighbours_kept == pytest.approx(other.neighbours_kept, abs=0.01)


def test_ids_are_written_as_people_write_them(files):
    np.save(files / "ids.npy", np.arange(300.0))
    assert open_inputs(f"{files}/v.npz:x", ids=f"{files}/ids.npy").ids[:3] == ["0", "1", "2"]
    (files / "ids.csv").write_text("id\n" + "\n".join(f"{i:04}" for i in range(300)))
    assert open_inputs(f"{files}/v.npz:x", ids=f"{files}/ids.csv").ids[7] == "0007"


def test_a_csv_file_of_vectors_has_its_ids_with_it(files, clusters):
    rows = [f"n{i}," + ",".join(map(str, row)) for i, row in enumerate(clusters[0])]
    (files / "v.csv").write_text("\n".join(["id," + ",".join(map(str, range(24))), *rows]))
    assert open_inputs(f"{files}/v.csv").ids[:2] == ["n0", "n1"]
    (files / "own.txt").write_text("\n".join(map(str, range(300))))
    assert open_inputs(f"{files}/v.csv", ids=f"{files}/own.txt").ids[:2] == ["0", "1"]


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
def test_images_without_ids_go_by_row_number_or_in_the_order_of_their_names(named, order, tmp_path, clusters):
    np.save(tmp_path / "x.npy", clusters[0][:12])
    for i, name in enumerate(named):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (20 * i, 0, 0)).save(tmp_path / "images" / name)
    media = open_inputs(f"{tmp_path}/x.npy", media=f"{tmp_path}/images", progress=False).media
    shown = [Image.open(io.BytesIO(picture.as_py())).convert("RGB").getpixel((4, 4))[0] for picture in media]
    np.testing.assert_allclose(shown, [20 * i for i in order], atol=4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"labels": "short.txt"}, "short.txt has 2 rows, expected 300"),
        ({"pairs": "v.npz:kind"}, "expected numbers \\(rows, width\\)"),
        ({"pairs": "other.npy"}, r"holds vectors of shape \(2, 3\), expected \(300, 24\)"),
        ({"ids": "same.txt"}, "rows 0 and 1 have the same id 'a', expected no two alike"),
        ({"labels": "half.npy"}, "half.npy holds the number"),
        ({"texts": "nothing.txt"}, "nothing.txt cannot be read: no such file"),
        ({"media": "nowhere"}, "media is '.*nowhere', where there is no folder, expected a folder of images"),
        ({"ids": "gap.txt"}, "gap.txt, row 7, holds no id, expected one for each row"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(given, sentence, files):
    (files / "short.txt").write_text("a\nb\n")
    (files / "same.txt").write_text("a\n" * 300)
    (files / "gap.txt").write_text("\n".join("" if i == 7 else str(i) for i in range(300)))
    np.save(files / "other.npy", np.eye(2, 3))
    np.save(files / "half.npy", np.full(300, 0.5))
    ((name, value),) = given.items()
    with pytest.raises(InputError, match=sentence):
        convert_file(f"{files}/v.npz:x", files / "run", **{name: f"{files}/{value}"}, embedding=small(), progress=False)
    assert not (files / "run").exists()


def test_with_classify_a_glass_box_lies_in_the_run(files):
    from nonneg.convert import NonNegativeClassifier

    options = {"embedding": small(), "classify": True, "progress": False}
    with pytest.raises(InputError, match="classify is set without labels"):
        convert_file(f"{files}/v.npz:x", files / "run", **options)
    made = convert_file(f"{files}/v.npz:x", files / "run", labels=f"{files}/v.npz:kind", **options)
    classifier = NonNegativeClassifier.from_pretrained(made.run / "classifier")
    with np.load(files / "v.npz") as given:
        assert classifier.score(given["x"], given["kind"]) > 0.9
        codes = Features.load(made.features).codes
        assert abs(classifier.embedding_.transform(given["x"]) - codes).max() == 0
