"""NonNegativeEmbedding as a scikit-learn estimator."""

import importlib.util
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from nonneg import InputError, metrics
from nonneg.convert import NonNegativeClassifier, NonNegativeEmbedding, neighbours_kept
from nonneg.convert._head import Head, report_on

SMALL = {"n_components": 48, "max_active": 6, "max_iter": 80, "random_state": 0}


@parametrize_with_checks([NonNegativeEmbedding(n_components=16, max_active=4, max_iter=5)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def test_codes_are_sparse_non_negative_and_of_length_one(clusters):
    X, _ = clusters
    codes = NonNegativeEmbedding(**SMALL).fit_transform(X)
    assert sp.issparse(codes) and codes.format == "csr" and codes.dtype == np.float32
    assert codes.shape == (300, 48) and codes.has_canonical_format
    assert (np.diff(codes.indptr) <= 6).all() and (codes.data > 0).all()
    np.testing.assert_allclose(np.sqrt((codes.multiply(codes)).sum(axis=1)), 1, rtol=1e-5)


def test_codes_follow_the_documented_formula(clusters):
    X, _ = clusters
    embedding = NonNegativeEmbedding(**SMALL).fit(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    before = unit @ embedding.head_.weight.numpy().T + embedding.head_.bias.numpy()
    expected = np.zeros_like(before)
    for row, values in enumerate(before):
        kept = np.argsort(-values)[:6]
        expected[row, kept] = np.maximum(values[kept], 0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embedding.transform(X).toarray(), expected, atol=1e-5)


def test_codes_keep_neighbours_and_clusters(clusters):
    X, kinds = clusters
    embedding = NonNegativeEmbedding(**SMALL).fit(X)
    codes = embedding.transform(X)
    random = NonNegativeEmbedding(**SMALL | {"max_iter": 1, "learning_rate": 1e-9, "noise": 0}).fit(X)
    assert embedding.score(X) == pytest.approx(neighbours_kept(X, codes))
    assert embedding.score(X) > random.score(X) + 0.02
    assert metrics.precision_at_k(codes.toarray(), kinds) > 0.95
    assert metrics.class_consistency(codes.toarray(), kinds).supported > 0.6


def test_the_report_counts_features(clusters):
    X, _ = clusters
    embedding = NonNegativeEmbedding(**SMALL).fit(X)
    often = (embedding.transform(X).toarray() > 0).mean(0)
    report = embedding.report_
    assert (report.live, report.dead, report.dense) == ((often > 0).sum(), (often == 0).sum(), (often > 0.5).sum())
    assert report.features == 48 and report.rows == 300 and "48 features live" in str(report)


def test_the_same_seed_gives_the_same_codes_and_another_one_others(clusters):
    X, _ = clusters
    a, b, c = (NonNegativeEmbedding(**SMALL | {"random_state": seed}).fit_transform(X) for seed in (0, 0, 1))
    assert (a != b).nnz == 0
    assert (a != c).nnz > 0


@pytest.mark.parametrize(
    "kind", ["float16", "float64", "big-endian", "long", "tensor", "memmap", "arrow", "list", "int"]
)
def test_vectors_are_accepted_in_any_form(clusters, kind, tmp_path):
    X, _ = clusters
    X = np.round(X * 8) if kind == "int" else X.astype(np.float16).astype(np.float32)
    expected = NonNegativeEmbedding(**SMALL).fit_transform(X)
    if kind == "memmap":
        np.save(tmp_path / "x.npy", X)
    given = {
        "float16": lambda: X.astype(np.float16),
        "float64": lambda: X.astype(np.float64),
        "big-endian": lambda: X.astype(">f4"),
        "long": lambda: X.astype(np.longdouble),
        "tensor": lambda: torch.from_numpy(X),
        "memmap": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
        "arrow": lambda: pa.chunked_array([pa.array(list(X[:100])), pa.array(list(X[100:]))]),
        "list": lambda: X.tolist(),
        "int": lambda: X.astype(np.int64),
    }[kind]()
    embedding = NonNegativeEmbedding(**SMALL).fit(given)
    np.testing.assert_allclose(embedding.transform(given).toarray(), expected.toarray(), atol=1e-4)


@pytest.mark.parametrize("scale", [1e100, 1e-100])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_vectors_outside_the_range_of_float32_keep_their_direction(scale, kind, clusters):
    X = clusters[0].astype(np.float64)
    expected = NonNegativeEmbedding(**SMALL | {"max_iter": 5}).fit(X)
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 5}).fit(kind(scale * X))
    codes = embedding.transform(kind(scale * X))
    assert codes.nnz and abs(codes - expected.transform(X)).max() < 1e-3
    assert embedding.score(kind(scale * X)) == pytest.approx(expected.score(X), abs=0.01)


@pytest.mark.parametrize("X", [np.arange(1.0, 30)[:, None], np.outer(np.arange(1, 30), [3.0, -1.0, 2.0])])
def test_rows_with_the_same_direction_are_rejected(X):
    for given in (X, torch.from_numpy(X)):
        with pytest.raises(InputError, match="all 29 rows have the same direction"):
            NonNegativeEmbedding(**SMALL).fit(given)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_rows_of_zeros_cause_a_warning_and_have_empty_codes(kind, clusters):
    X = clusters[0].copy()
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit(X)
    X[[5, 9]] = 0
    codes = embedding.transform(kind(X))
    assert codes[[5, 9]].nnz == 0 and (np.diff(codes.indptr) > 0).sum() == 298
    with pytest.warns(UserWarning, match=r"row 5 of X \(and 1 more\) contains only zeros"):
        embedding.fit(kind(X))
    with pytest.warns(UserWarning, match=r"row 5 of pairs \(and 1 more\)"):
        embedding.fit(clusters[0], pairs=kind(X))


def test_neighbours_need_two_rows(clusters):
    X = clusters[0]
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit(X)
    with pytest.raises(InputError, match="1 row, expected at least two"):
        embedding.score(X[:1])
    assert 0 <= embedding.score(X[:2]) <= 1


def test_two_directions_are_enough():
    X = np.arange(-20.0, 21)[:, None][np.arange(41) != 20]
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 5}).fit(X)
    assert embedding.report_.empty == 0 and embedding.score(X) > 0


def test_rows_without_a_code_keep_no_neighbours(clusters):
    X, _ = clusters
    empty = X.copy()
    assert neighbours_kept(X, np.zeros((300, 5))) == 0
    empty[:100] = 0
    kept = [len(set(near(X, row)) & set(near(empty, row))) / 10 if row >= 100 else 0 for row in range(300)]
    assert neighbours_kept(X, empty) == pytest.approx(np.mean(kept), abs=0.002)


def near(X, row):
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30)
    similarity = unit @ unit[row]
    similarity[row] = -np.inf
    return np.argsort(-similarity)[:10]


def test_without_a_limit_every_positive_entry_is_kept(clusters):
    X, _ = clusters
    codes = NonNegativeEmbedding(**SMALL | {"max_active": None}).fit_transform(X)
    assert np.diff(codes.indptr).max() > 6
    assert (codes.data > 0).all()


def test_pairs_get_similar_codes(clusters):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 24)).astype(np.float32)
    partners = (X + 1.2 * rng.normal(size=X.shape)).astype(np.float32)

    def recall(**fit):
        codes = NonNegativeEmbedding(**SMALL | {"max_iter": 200, "positive_share": 0.9}).fit(X, **fit)
        a, b = codes.transform(X), codes.transform(partners)
        return float(((b @ a.T).toarray().argmax(1) == np.arange(200)).mean())

    assert recall(pairs=partners) > recall() + 0.1


@pytest.mark.parametrize("how", ["groups", "labels"])
def test_groups_and_labels_get_similar_codes(how):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(240, 16)).astype(np.float32), np.arange(240) % 4
    X[:, 0] += group  # a weak signal
    given = {"groups": np.array(["a", "b", "c", "d"])[group]} if how == "groups" else {}
    settings = SMALL | {"positive_share": 0.9, "max_iter": 150, "noise": 0.2}
    plain = NonNegativeEmbedding(**settings).fit(X, group)
    guided = NonNegativeEmbedding(**settings, supervised=how == "labels").fit(X, group, **given)
    precision = [metrics.precision_at_k(e.transform(X).toarray(), group) for e in (plain, guided)]
    assert precision[1] > precision[0] + 0.1


def test_without_any_label_a_supervised_fit_has_no_positives():
    X = np.random.default_rng(0).normal(size=(60, 8))
    none = NonNegativeEmbedding(**SMALL, supervised=True).fit(X, -np.ones(60, int))
    without = NonNegativeEmbedding(**SMALL).fit(X)
    np.testing.assert_allclose(none.head_.weight, without.head_.weight, atol=0.5)
    assert none.score(X) > 0.3


@pytest.mark.parametrize("how", ["groups", "labels"])
@pytest.mark.parametrize(
    "unlabelled",
    [
        lambda labels, is_known: np.where(is_known, labels, -1.0),
        lambda labels, is_known: np.where(is_known, labels, np.nan),
        lambda labels, is_known: [int(label) if known else None for label, known in zip(labels, is_known, strict=True)],
        lambda labels, is_known: np.where(is_known, labels.astype(str), ""),
    ],
    ids=["-1.0", "NaN", "None", "empty"],
)
def test_unlabelled_means_the_same_in_every_type(how, unlabelled, clusters):
    X, kinds = clusters
    is_known = np.arange(300) % 3 > 0
    settings = SMALL | {"max_iter": 20, "positive_share": 0.9, "supervised": how == "labels"}

    def weights(values):
        given = {"groups": values} if how == "groups" else {"y": values}
        return NonNegativeEmbedding(**settings).fit(X, **given).head_.weight

    assert torch.equal(weights(unlabelled(kinds, is_known)), weights(np.where(is_known, kinds, -1)))


def test_dead_features_are_revived():
    # No sample activates the first half of the features.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)).astype(np.float32)
    embedding = NonNegativeEmbedding(64, 2, max_iter=100, learning_rate=0.05, random_state=0)
    fit = embedding.begin(X)
    with torch.no_grad():
        fit.head.bias[:32] = -100.0
    while fit.done < 100:
        fit.step()
    assert embedding.finish(fit).report_.dead < 16


def test_it_works_in_pipelines_grid_searches_and_pickles(clusters):
    X, kinds = clusters
    pipeline = make_pipeline(NonNegativeEmbedding(**SMALL | {"max_iter": 20}), LogisticRegression())
    search = GridSearchCV(pipeline, {"nonnegativeembedding__max_active": [2, 6]}, cv=2).fit(X, kinds)
    assert search.best_score_ > 0.9
    embedding = clone(search.best_estimator_[0]).fit(X)
    again = pickle.loads(pickle.dumps(embedding))
    assert (again.transform(X) != embedding.transform(X)).nnz == 0
    assert embedding.get_feature_names_out()[:2].tolist() == ["nonnegativeembedding0", "nonnegativeembedding1"]


def test_a_resumed_fit_equals_an_uninterrupted_one(clusters):
    X, _ = clusters
    whole = NonNegativeEmbedding(**SMALL).fit(X)
    first = NonNegativeEmbedding(**SMALL).begin(X)
    for _ in range(33):
        first.step()
    embedding = NonNegativeEmbedding(**SMALL)
    second = embedding.begin(X)
    second.resume({name: value.clone() for name, value in first.state().items()})
    while second.done < 80:
        second.step()
    assert torch.equal(embedding.finish(second).head_.weight, whole.head_.weight)


def test_a_loaded_embedding_equals_the_saved_one(clusters, tmp_path):
    X, _ = clusters
    embedding = NonNegativeEmbedding(**SMALL).fit(X)
    folder = embedding.save_pretrained(tmp_path / "model", {"probe": 0.5})
    again = NonNegativeEmbedding.from_pretrained(folder)
    assert (again.transform(X) != embedding.transform(X)).nnz == 0
    assert again.report_ == embedding.report_ and again.get_params() == embedding.get_params()
    card = (folder / "README.md").read_text()
    assert "| probe | 0.500 |" in card and "| live features |" in card
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="does not describe a nonneg embedding"):
        NonNegativeEmbedding.from_pretrained(folder)
    with pytest.raises(InputError, match="holds no fitted embedding"):
        NonNegativeEmbedding.from_pretrained(tmp_path / "nowhere")


def test_column_names_and_numpy_parameters_are_saved(clusters, tmp_path):
    frame = pd.DataFrame(clusters[0])
    frame.columns = [f"x{i}" for i in frame]
    embedding = NonNegativeEmbedding(**(SMALL | {"n_components": np.int64(16), "random_state": np.int64(7)})).fit(frame)
    again = NonNegativeEmbedding.from_pretrained(embedding.save_pretrained(tmp_path / "model"))
    assert again.get_params() == embedding.get_params()
    assert list(again.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"max_active": 0}, "max_active is 0"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"positive_share": 1.5}, "positive_share is 1.5"),
        ({"noise": -1}, "noise is -1"),
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"max_iter": True}, "max_iter is True"),
        ({"device": "abacus"}, "device .*'abacus'"),
    ],
)
def test_wrong_parameters_are_named(changed, found, clusters):
    with pytest.raises(ValueError, match=found):
        NonNegativeEmbedding(**SMALL | changed).fit(clusters[0])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"pairs": np.zeros((3, 24))}, r"pairs has shape \(3, 24\)"),
        ({"groups": [1, 2]}, r"groups has shape \(2,\).*300"),
        ({"groups": [1] * 300, "pairs": np.ones((300, 24))}, "pairs, groups .*together"),
    ],
)
def test_positives_of_the_wrong_shape_are_named(given, found, clusters):
    with pytest.raises(ValueError, match=found):
        NonNegativeEmbedding(**SMALL).fit(clusters[0], **given)


def test_supervised_without_labels_is_an_error(clusters):
    with pytest.raises(ValueError, match=r"supervised.*y is None"):
        NonNegativeEmbedding(**SMALL, supervised=True).fit(clusters[0])


def test_tensors_are_checked():
    X = torch.ones(5, 3)
    X[2, 1] = torch.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        NonNegativeEmbedding(**SMALL).fit(X)
    with pytest.raises(ValueError, match=r"X has shape \(5,\)"):
        NonNegativeEmbedding(**SMALL).fit(torch.ones(5))


def test_a_report_on_very_many_rows_reads_only_rows_that_exist():
    class Many:
        """More rows than float32 can number."""

        def __len__(self):
            return 2**24 + 4

        def take(self, rows):
            assert int(rows.min()) >= 0 and int(rows.max()) == len(self) - 1
            return torch.ones(len(rows), 2)

    assert report_on(Head(2, 3, None), Many()).rows == 20_000


def test_a_column_of_vectors_of_pandas_or_polars_is_fitted_like_an_array(clusters):
    rows = [list(map(float, row)) for row in clusters[0]]
    expected = NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit_transform(clusters[0].astype(np.float64)).toarray()
    columns = [pd.Series(rows), pd.Series([np.array(row) for row in rows]), pd.DataFrame({"v": rows})]
    if importlib.util.find_spec("polars"):
        polars = importlib.import_module("polars")
        columns += [polars.Series(rows), polars.DataFrame({"v": rows})]
    for column in columns:
        np.testing.assert_array_equal(
            NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit_transform(column).toarray(), expected
        )
    with pytest.raises(InputError, match="row 1"):
        NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit(pd.Series([[1.0, 2.0], [1.0], [2.0, 1.0]]))


def test_set_output_gives_a_table_with_sparse_columns(clusters):
    frame = pd.DataFrame(clusters[0], index=[f"row {i}" for i in range(len(clusters[0]))])
    frame.columns = [f"x{i}" for i in frame]
    embedding = NonNegativeEmbedding(**SMALL | {"max_iter": 2}).fit(frame)
    codes, score = embedding.transform(frame), embedding.score(frame)
    table = embedding.set_output(transform="pandas").transform(frame)
    assert list(table.index) == list(frame.index) and list(table.columns) == list(embedding.get_feature_names_out())
    assert all(isinstance(kind, pd.SparseDtype) for kind in table.dtypes)
    assert (table.sparse.to_coo() != codes).nnz == 0
    assert embedding.score(frame) == score
    with config_context(transform_output="pandas"):
        classifier = NonNegativeClassifier(embedding).fit(frame, np.arange(len(frame)) % 2)
        assert len(classifier.predict(frame)) == len(frame)
