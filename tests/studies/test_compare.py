import json
import math

import numpy as np
import pytest
from rich.console import Console
from sklearn.preprocessing import normalize

from nonneg import Features, InputError, NonNegativeEmbedding
from nonneg.convert import neighbours_kept
from nonneg.evaluate import linear_probe
from nonneg.studies import compare
from nonneg.studies._held_out import split_rows
from nonneg.studies._peers import METHODS, Settings, symmetric_nmf

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = NonNegativeEmbedding(24, 4, max_iter=40, batch_size=64)


@pytest.fixture(scope="module")
def given():
    """Two noisy views of samples of 6 classes."""
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


def test_raw_vectors_have_the_linear_probe_and_recall_of_a_direct_computation(given, compared):
    x, y, kinds = given
    split = split_rows(x, y, kinds, 200, None)
    train, test = Features(split.train, labels=split.train_labels), Features(split.test, labels=split.test_labels)
    assert compared.rows["raw"]["probe"] == [linear_probe(train, test).accuracy]
    nearest = (normalize(split.test_pairs) @ normalize(split.test).T).argmax(1)
    assert compared.rows["raw"]["recall_at_1"] == [pytest.approx((nearest == np.arange(100)).mean())]


def test_the_split_is_reproducible_and_its_parts_share_no_row(given):
    x, y, kinds = given
    first, again = split_rows(x, y, kinds, 200, 50), split_rows(x, y, kinds, 200, 50)
    assert np.array_equal(first.test, again.test) and len(first.test) == 50
    both = np.concatenate([first.train, first.test])
    assert len(np.unique(both, axis=0)) == 250
    assert np.allclose(np.linalg.norm(first.train, axis=1), 1)


def test_columns_that_need_labels_or_pairs_are_omitted_without_them(given):
    table = compare(given[0], embedding=SMALL, methods=["raw", "pca"], progress=False)
    assert not {"probe", "consistency", "recall_at_1"} & set(table.columns)
    assert table.rows["pca"]["neighbours_kept"][0] > 0.9  # a rotation about the mean


def test_unlabelled_rows_do_not_count_as_a_class(given):
    x, _, kinds = given
    partly = np.where(np.arange(300) % 5 == 0, -1, kinds)
    figures = compare(x, labels=partly, embedding=SMALL, methods=["raw"], progress=False).rows["raw"]
    assert figures["probe"][0] > 0.8 and figures["consistency"][0] < 0.3


def test_symmetric_nmf_recovers_a_kernel_of_clusters():
    x = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    codes, _ = symmetric_nmf(x, 3, 300, 0)
    assert (codes >= 0).all() and np.abs(codes @ codes.T - x @ x.T).max() < 0.02


def test_autoencoder_codes_of_sparse_sums_keep_their_neighbours(given):
    """Samples are sums of two of 12 directions, so codes with two active features suffice."""
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


def test_comparison_is_shown_as_markdown_json_and_a_rich_table(compared):
    text = compared.markdown()
    assert text.count("\n| ") == len(METHODS) + 1 and "symmetric NMF cannot encode new rows" in text and " ± " in text
    written = json.loads(json.dumps(compared.to_dict()))
    figures = written["methods"]["nonneg"]["probe"]
    assert figures["mean"] == pytest.approx(sum(figures["values"]) / 2)
    spread = abs(figures["values"][0] - figures["values"][1]) / 2
    assert figures["standard_error"] == pytest.approx(spread) and written["methods"]["raw"]["probe"]["values"]
    console = Console(width=200, record=True)
    console.print(compared)
    assert "TopK autoencoder" in console.export_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"embedding": NonNegativeEmbedding(8, None)}, "max_active is None"),
        ({"embedding": NonNegativeEmbedding(8, supervised=True)}, "supervised is True"),
        ({"embedding": NonNegativeEmbedding(0)}, "n_components is 0"),
        ({"seeds": []}, r"seeds is \[\]"),
        ({"methods": ["umap"]}, "methods has 'umap'.*raw, pca"),
        ({"train_rows": 299}, "train_rows is 299.*10 to 290"),
        ({"train_rows": 200, "test_rows": 200}, "train_rows is 200 and test_rows is 200.*300"),
        ({"pairs": np.ones((3, 3))}, r"pairs has shape \(3, 3\).*\(300, 16\)"),
        ({"labels": np.zeros(300, int)}, "labels has 1 class on the 240 train rows"),
        ({"labels": np.zeros(299)}, r"labels has shape \(299,\)"),
        ({"labels": np.full(300, 0.5)}, "labels.*0.5"),
    ],
)
def test_invalid_arguments_are_rejected(given, settings, message):
    with pytest.raises(InputError, match=message):
        compare(given[0], **{"progress": False, **settings})


def test_the_command_prints_markdown_and_writes_no_run(given, tmp_path, command):
    x, y, kinds = given
    np.savez(tmp_path / "v.npz", x=x, y=y, kind=kinds)

    files = ["--pairs", f"{tmp_path}/v.npz:y", "--labels", f"{tmp_path}/v.npz:kind"]
    small = ["--n-components", "16", "--max-active", "4", "--max-iter", "5", "--train-rows", "200"]
    code, output, errors = command("convert", f"{tmp_path}/v.npz:x", "--compare", *files, *small)
    assert code == 0, errors
    assert "| nonneg | 16 |" in output and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "3"], "--seeds"),
        (["--compare", "--texts", "v.npz:kind"], "--texts"),
        (["--compare", "--seeds", "0"], "--seeds is 0"),
    ],
)
def test_options_that_do_not_go_with_or_without_compare_are_rejected(given, options, message, command, tmp_path):
    np.savez(tmp_path / "v.npz", x=given[0], kind=given[2])
    options = [option.replace("v.npz", f"{tmp_path}/v.npz") for option in options]
    code, output, errors = command("convert", f"{tmp_path}/v.npz:x", *options)
    assert code == 2 and message in errors and not output


def test_a_figure_that_cannot_be_measured_is_shown_as_a_dash(given):
    x, _, kinds = given
    table = compare(x, labels=kinds, embedding=SMALL, methods=["nonneg"], test_rows=10, progress=False)
    assert math.isnan(table.rows["nonneg"]["consistency"][0]) and "| — |" in table.markdown()
    assert table.to_dict()["methods"]["nonneg"]["consistency"]["mean"] is None


def test_a_class_with_a_single_train_row_does_not_prevent_the_probe(given):
    x, _, kinds = given
    rare = np.where(np.arange(300) == np.arange(300)[kinds == 0][0], 6, kinds)
    figures = compare(x, labels=rare, embedding=SMALL, methods=["raw"], progress=False).rows["raw"]
    assert figures["probe"][0] > 0.8


def test_the_probe_is_a_dash_where_too_few_rows_are_labelled(given):
    x, _, kinds = given
    few = np.where(np.arange(300) % 50 == 0, kinds, -1)
    table = compare(x, labels=few, embedding=SMALL, methods=["raw"], progress=False)
    assert math.isnan(table.rows["raw"]["probe"][0])


def test_a_method_that_sees_only_unlabelled_rows_is_measured_without_labels():
    x = np.random.default_rng(0).normal(size=(2600, 4)).astype(np.float32)
    split = split_rows(x, None, np.arange(2600), 500, 2100)
    labels = np.full(2600, -1)
    labels[split.train_labels] = np.arange(500) % 2
    labels[split.test_labels[2000:]] = np.arange(100) % 2  # symmetric NMF sees the 2,000 before them
    embedding = NonNegativeEmbedding(2, 1, max_iter=1)
    found = compare(
        x,
        labels=labels,
        embedding=embedding,
        train_rows=500,
        test_rows=2100,
        methods=["raw", "symmetric-nmf"],
        progress=False,
    )
    assert "consistency" in found.rows["raw"] and "consistency" not in found.rows["symmetric-nmf"]
