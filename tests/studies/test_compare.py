import json
import math
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from nonneg import InputError, NonNegativeEmbedding
from nonneg.convert import neighbours_kept
from nonneg.studies import compare
from nonneg.studies._held_out import split_rows
from nonneg.studies._peers import METHODS, Settings, symmetric_nmf

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = NonNegativeEmbedding(24, 4, max_iter=40, batch_size=64)


@pytest.fixture(scope="module")
def given():
    """Samples of 6 kinds, seen twice."""
    rng = np.random.default_rng(0)
    kinds = np.arange(300) % 6
    meant = rng.normal(size=(6, 16))[kinds] + 0.6 * rng.normal(size=(300, 16))
    seen = [(meant + 0.2 * rng.normal(size=meant.shape)).astype(np.float32) for _ in range(2)]
    return *seen, kinds


@pytest.fixture(scope="module")
def compared(given):
    x, y, kinds = given
    return compare(x, y, kinds, embedding=SMALL, train_rows=200, seeds=[0, 1], progress=False)


def test_every_method_is_measured_in_every_column_it_can_fill(compared):
    assert list(compared.rows) == list(METHODS)
    assert compared.protocol["train_rows"] == 200 and compared.protocol["test_rows"] == 100
    for name, row in compared.rows.items():
        lacking = set(compared.columns) - set(row)
        assert lacking == ({"dead", "probe", "recall_at_1"} if METHODS[name].is_transductive else set())
        seeds = 2 if METHODS[name].is_random else 1
        assert all(len(values) == seeds for values in row.values())
    for name in ("dictionary", "autoencoder", "autoencoder-samples", "nonneg"):
        assert all(value <= 4 for value in compared.rows[name]["active"])
        assert compared.rows[name]["features"] == [24, 24]
        assert all(
            value == pytest.approx(8 * compared.rows[name]["active"][i])
            for i, value in enumerate(compared.rows[name]["bytes"])
        )
    assert compared.rows["raw"]["neighbours_kept"] == [1.0]
    assert min(compared.rows["raw"]["probe"]) > 0.8 and min(compared.rows["nonneg"]["probe"]) > 0.7


def test_figures_of_raw_vectors_are_those_of_a_plain_reckoning(given, compared):
    x, y, kinds = given
    split = split_rows(x, y, kinds, 200, None)
    probe = LogisticRegression(max_iter=1000).fit(split.train, split.train_labels)
    assert compared.rows["raw"]["probe"] == [probe.score(split.test, split.test_labels)]
    nearest = (normalize(split.test_pairs) @ normalize(split.test).T).argmax(1)
    assert compared.rows["raw"]["recall_at_1"] == [pytest.approx((nearest == np.arange(100)).mean())]


def test_the_split_is_the_same_for_all_and_shares_no_row(given):
    x, y, kinds = given
    first, again = split_rows(x, y, kinds, 200, 50), split_rows(x, y, kinds, 200, 50)
    assert np.array_equal(first.test, again.test) and len(first.test) == 50
    both = np.concatenate([first.train, first.test])
    assert len(np.unique(both, axis=0)) == 250
    assert np.allclose(np.linalg.norm(first.train, axis=1), 1)


def test_without_labels_or_pairs_their_columns_are_left_out(given):
    table = compare(given[0], embedding=SMALL, methods=["raw", "pca"], progress=False)
    assert not {"probe", "consistency", "recall_at_1"} & set(table.columns)
    assert table.rows["pca"]["neighbours_kept"][0] > 0.9  # a rotation about the mean


def test_unlabelled_rows_are_not_a_class(given):
    x, _, kinds = given
    partly = np.where(np.arange(300) % 5 == 0, -1, kinds)
    figures = compare(x, labels=partly, embedding=SMALL, methods=["raw"], progress=False).rows["raw"]
    assert figures["probe"][0] > 0.8 and figures["consistency"][0] < 0.3


def test_symmetric_nmf_recovers_a_kernel_of_clusters():
    x = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    codes, _ = symmetric_nmf(x, 3, 300, 0)
    assert (codes >= 0).all() and np.abs(codes @ codes.T - x @ x.T).max() < 0.02


def test_the_autoencoder_reconstructs_sparse_sums(given):
    """Samples are sums of two of 12 directions: codes with two active features keep their neighbours."""
    rng = np.random.default_rng(1)
    parts = normalize(rng.normal(size=(12, 32)))
    weights = np.zeros((600, 12))
    for row in weights:
        row[rng.choice(12, 2, replace=False)] = rng.uniform(0.5, 1.5, 2)
    x = normalize(weights @ parts).astype(np.float32)
    settings = Settings(16, 2, 400, 0, SMALL)
    codes = METHODS["autoencoder-samples"].fit(x[:500], None, settings).encode(x[500:])
    assert codes.min() >= 0 and np.diff(codes.indptr).max() <= 2
    assert neighbours_kept(x[500:], codes) > 0.5 > neighbours_kept(x[500:], rng.normal(size=(100, 16)))


def test_tables_and_json(compared):
    text = compared.markdown()
    assert text.count("\n| ") == len(METHODS) + 1 and "symmetric NMF cannot encode new rows" in text and " ± " in text
    told = json.loads(json.dumps(compared.to_dict()))
    figures = told["methods"]["nonneg"]["probe"]
    assert figures["mean"] == pytest.approx(sum(figures["values"]) / 2)
    spread = abs(figures["values"][0] - figures["values"][1]) / 2
    assert figures["standard_error"] == pytest.approx(spread) and told["methods"]["raw"]["probe"]["values"]
    console = Console(width=200, record=True)
    console.print(compared)
    assert "TopK autoencoder" in console.export_text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"embedding": NonNegativeEmbedding(8, None)}, "max_active is None, expected a number"),
        ({"embedding": NonNegativeEmbedding(8, supervised=True)}, "supervised is True, expected False"),
        ({"embedding": NonNegativeEmbedding(0)}, "n_components is 0, expected a whole number"),
        ({"seeds": []}, "seeds is [], expected whole numbers"),
        ({"methods": ["umap"]}, "methods has 'umap', expected some of raw, pca"),
        ({"train_rows": 299}, "train_rows is 299, expected 10 to 290"),
        ({"train_rows": 200, "test_rows": 200}, "expected no more than the 300 rows"),
        ({"pairs": np.ones((3, 3))}, "pairs has shape (3, 3), expected that of vectors, (300, 16)"),
        ({"labels": np.zeros(300, int)}, "labels has 1 classes on the 240 train rows, expected 2 or more"),
        ({"labels": np.zeros(300)}, "labels is float64 of shape (300,), expected one integer"),
    ],
)
def test_refusals(given, settings, sentence):
    with pytest.raises(InputError) as error:
        compare(given[0], **{"progress": False, **settings})
    assert sentence in str(error.value)


def test_command_prints_markdown_into_a_file(given, tmp_path):
    x, y, kinds = given
    np.savez(tmp_path / "v.npz", x=x, y=y, kind=kinds)

    def run(*options):
        command = [sys.executable, "-m", "nonneg", "convert", f"{tmp_path}/v.npz:x", *options]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    files = ["--pairs", f"{tmp_path}/v.npz:y", "--labels", f"{tmp_path}/v.npz:kind"]
    small = ["--n-components", "16", "--max-active", "4", "--max-iter", "5", "--train-rows", "200"]
    done = run("--compare", *files, *small)
    assert done.returncode == 0, done.stderr
    assert "| nonneg | 16 |" in done.stdout and not (tmp_path / "runs").exists()
    for options, sentence in [
        (["--seeds", "3"], "--seeds is given, expected only with --compare"),
        (["--compare", "--texts", f"{tmp_path}/v.npz:kind"], "--texts is given, expected only without --compare"),
        (["--compare", "--seeds", "0"], "--seeds is 0, expected at least 1"),
    ]:
        refused = run(*options)
        assert refused.returncode == 2 and sentence in refused.stderr and not refused.stdout


def test_a_figure_that_cannot_be_measured_is_a_dash(given):
    x, _, kinds = given
    table = compare(x, labels=kinds, embedding=SMALL, methods=["nonneg"], test_rows=10, progress=False)
    assert math.isnan(table.rows["nonneg"]["consistency"][0]) and "| — |" in table.markdown()
    assert table.to_dict()["methods"]["nonneg"]["consistency"]["mean"] is None
