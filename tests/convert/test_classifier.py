"""The glass-box classifier: scores that are sums, and edits of its weights."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, parametrize_with_checks

from nonneg import Features, InputError
from nonneg.convert import NonNegativeClassifier, NonNegativeEmbedding
from nonneg.convert._glass_head import fit_head
from nonneg.durable import unsealed
from nonneg.features import Suggestion

EMBEDDING = NonNegativeEmbedding(n_components=32, max_active=6, max_iter=60)


@parametrize_with_checks([NonNegativeClassifier(NonNegativeEmbedding(16, 6, max_iter=5))])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def test_scikit_learn_check_of_column_names():
    check_dataframe_column_names_consistency(
        "classifier", NonNegativeClassifier(NonNegativeEmbedding(16, 6, max_iter=5))
    )


@pytest.fixture(scope="module")
def fitted(clusters):
    X, kinds = clusters
    names = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])
    classifier = NonNegativeClassifier(EMBEDDING, feature_names={3: "wings"}, random_state=0)
    return classifier.fit(X, names[kinds]), X, names[kinds]


def test_weights_are_non_negative_and_predictions_accurate(fitted):
    classifier, X, y = fitted
    assert (classifier.coef_ >= 0).all() and classifier.coef_.shape == (6, 32)
    assert classifier.score(X, y) > 0.95
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1)


def test_names_of_features_and_whether_they_are_guesses_are_explained_and_saved(fitted, tmp_path):
    classifier, X, _ = fitted
    codes = classifier.embedding_.transform(X)
    every = {feature: Suggestion(f"guess {feature}", 0.6, 20) for feature in range(31)}
    features = Features(codes, names={5: "mine"}).with_suggestions(every | {4: Suggestion("sure", 0.9, 20)})
    named = classifier.with_names_of(features)
    assert [named.name(feature) for feature in (5, 4, 0, 31)] == ["mine", "sure", "guess 0", "feature 31"]
    assert classifier.name(5) == "feature 5" and classifier.name(3) == "wings"  # it is a copy
    named.save_pretrained(tmp_path / "classifier")
    for each in (named, NonNegativeClassifier.from_pretrained(tmp_path / "classifier")):
        for x in X[:20]:
            why = each.explain(x)
            assert all(c.is_guess == c.name.startswith("guess") for c in why.contributions)
            strongest = why.contributions[0]
            assert f"{strongest.name}{'?' * strongest.is_guess} (" in str(why)
    named.feature_names = {**named.feature_names, 0: "given"}
    assert not any(c.is_guess for x in X for c in named.explain(x).contributions if c.feature == 0)
    with pytest.raises(InputError, match="features has 3 columns, expected all 32"):
        classifier.with_names_of(Features(codes[:, :3]))


def test_a_score_is_the_sum_of_its_contributions(fitted):
    classifier, X, _ = fitted
    scores = classifier.decision_function(X[:20])
    for row, x in enumerate(X[:20]):
        why = classifier.explain(x)
        assert why.label == classifier.predict(x[None])[0]
        total = why.intercept + sum(c.value for c in why.contributions)
        assert why.score == pytest.approx(total, abs=1e-12)
        assert why.score == pytest.approx(scores[row].max(), abs=1e-9)
        values = [c.value for c in why.contributions]
        assert values == sorted(values, reverse=True) and 0 < len(values) <= 6
        other = classifier.explain(x, label="dog")
        assert other.label == "dog" and other.score <= why.score
    assert "(intercept)" in str(why)
    assert classifier.name(3) == "wings" and classifier.name(4) == "feature 4"


def test_features_can_be_switched_off_and_weights_edited(fitted):
    classifier, X, y = fitted
    all_off = classifier.what_if(X, y, off=range(32))
    assert all_off.before == classifier.score(X, y) and all_off.after < 0.3 and all_off.changed > 200
    nothing = classifier.what_if(X, y)
    assert nothing.before == nothing.after and nothing.changed == 0
    edited = classifier.edited(off=[0], weights={(1, "cat"): 5.0})
    assert (edited.coef_[:, 0] == 0).all() and edited.coef_[2, 1] == 5.0
    assert classifier.coef_[2, 1] != 5.0
    for wrong, found in (
        ({"off": [99]}, "feature 99 .*0 to 31"),
        ({"weights": {(0, "yak"): 1.0}}, "label is 'yak', expected one of ant"),
        ({"off": ["ears"]}, "feature 'ears' .*0 to 31"),
        ({"off": 3}, "off is 3"),
        ({"weights": {(0, "cat"): -1.0}}, "feature 0 for 'cat' is -1.0"),
        ({"weights": {(0, "cat"): "much"}}, "is 'much'"),
        ({"weights": {(0, "cat"): np.inf}}, "is inf"),
        ({"weights": {5: 2.0}}, "weights has the key 5"),
        ({"weights": [2.0]}, "weights is a list"),
    ):
        with pytest.raises(ValueError, match=found):
            classifier.edited(**wrong)


def test_no_other_non_negative_weights_have_a_lower_loss():
    rng = np.random.default_rng(0)
    codes = sp.csr_array(np.maximum(rng.normal(size=(200, 5)), 0))
    labels = np.arange(200) % 3
    weights, intercept, _ = fit_head(codes, labels, 3, 1.0, 1000)

    def loss(weights, intercept):
        scores = codes @ weights.T + intercept
        likely = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return -likely[np.arange(200), labels].sum() + 0.5 * np.square(weights).sum()

    best = loss(weights, intercept)
    for _ in range(200):
        other = np.maximum(weights + 0.01 * rng.normal(size=weights.shape), 0)
        assert best <= loss(other, intercept + 0.01 * rng.normal(size=3)) + 1e-6
    free = LogisticRegression(C=1.0, max_iter=1000).fit(codes.toarray(), labels)
    assert best >= loss(free.coef_, free.intercept_) - 1e-6


def test_wrong_parameters_and_lengths_are_named(clusters):
    X, kinds = clusters
    with pytest.raises(ValueError, match="C is 0"):
        NonNegativeClassifier(EMBEDDING, C=0).fit(X, kinds)
    with pytest.raises(ValueError, match="300 samples and y 299 labels"):
        NonNegativeClassifier(EMBEDDING).fit(X, kinds[:-1])
    with pytest.raises(ValueError, match="max_iter is 0"):
        NonNegativeClassifier(EMBEDDING, max_iter=0).fit(X, kinds)


@pytest.mark.parametrize(
    ("other", "found"),
    [(LogisticRegression(), "a LogisticRegression"), (NonNegativeEmbedding, "the class NonNegativeEmbedding")],
)
def test_other_embeddings_are_rejected(other, found, clusters):
    for fit in (
        lambda X, y: NonNegativeClassifier(other).fit(X, y),
        lambda X, y: NonNegativeClassifier.on(other, X, y),
    ):
        with pytest.raises(ValueError, match=f"embedding is {found}"):
            fit(*clusters)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({99: "wings"}, "feature_names .*99, expected 0 to 31"),
        ({-1: "wings"}, "feature_names .*-1, expected 0 to 31"),
        ({"3": "wings"}, "feature_names .*'3', expected 0 to 31"),
        ({3: 4}, "feature_names .*feature 3 4"),
        (["wings"], "feature_names is a list"),
    ],
)
def test_names_of_missing_features_are_rejected(names, found, clusters, fitted, tmp_path):
    with pytest.raises(ValueError, match=found):
        NonNegativeClassifier(EMBEDDING, feature_names=names).fit(*clusters)
    renamed = fitted[0].edited().set_params(feature_names=names)
    with pytest.raises(ValueError, match=found):
        renamed.save_pretrained(tmp_path / "glass")


def test_control_characters_in_names_are_printed_as_escapes(fitted):
    classifier, X, kinds = fitted
    labels = np.array([f"\x1b[2Jclass\n{kind}" for kind in kinds])
    named = NonNegativeClassifier.on(classifier.embedding_, X, labels)
    named.feature_names = {feature: f"two\nlines\x1b[2J {feature}" for feature in range(named.coef_.shape[1])}
    why = named.explain(X[0])
    lines = str(why).splitlines()
    assert all(line.isprintable() for line in lines) and "class" in lines[0] and "two" in lines[2]
    assert len(lines) <= len(why.contributions) + 2


def test_a_row_is_explained_in_any_form(fitted):
    classifier, X, _ = fitted
    expected = str(classifier.explain(X[0]))
    for one in (X[:1], X[0].tolist(), torch.from_numpy(X[0]), torch.from_numpy(X[:1]), pd.Series(X[0])):
        assert str(classifier.explain(one)) == expected
    for several in (X[:2], torch.from_numpy(X[:2]), X[:, :1], pd.DataFrame(X[:2])):
        with pytest.raises(ValueError, match=r"x has shape .*\(24,\) or \(1, 24\)"):
            classifier.explain(several)


def test_column_names_are_saved(clusters, tmp_path):
    X, kinds = clusters
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(24)])
    small = NonNegativeEmbedding(16, 6, max_iter=5)
    classifier = NonNegativeClassifier(small, random_state=0).fit(frame, kinds)
    again = NonNegativeClassifier.from_pretrained(classifier.save_pretrained(tmp_path / "glass"))
    for each in (classifier, again):
        assert each.feature_names_in_.tolist() == frame.columns.tolist()
        assert each.explain(frame.iloc[0]) == each.explain(frame.iloc[[0]])
        with pytest.raises(ValueError, match="feature names should match"):
            each.predict(frame[frame.columns[::-1]])
    assert not hasattr(classifier.fit(X, kinds), "feature_names_in_")


def test_a_saved_classifier_predicts_the_same(fitted, tmp_path):
    classifier, X, _ = fitted
    again = NonNegativeClassifier.from_pretrained(classifier.save_pretrained(tmp_path / "glass"))
    np.testing.assert_array_equal(again.decision_function(X), classifier.decision_function(X))
    assert (again.predict(X) == classifier.predict(X)).all() and again.classes_.dtype == classifier.classes_.dtype
    assert (
        again.random_state == 0
        and again.name(3) == "wings"
        and str(again.explain(X[0])) == str(classifier.explain(X[0]))
    )


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda folder: (folder / "classifier.json").unlink(), "classifier.json is missing"),
        (lambda folder: (folder / "classifier.json").write_text("{}"), "classifier.json"),
        (lambda folder: (folder / "classifier.safetensors").write_bytes(b"x"), "classifier.json"),
        (lambda folder: rewritten(folder, '"3": "wings"', '"99": "wings"'), "feature 99, expected 0 to 31"),
        (lambda folder: rewritten(folder, '"ant"', '"bee"'), "its classes are .*'bee', 'bee'"),
        (lambda folder: rewritten(folder, '"<U3"', '"<U50000000"'), "its classes are .*<U50000000"),
        (lambda folder: rewritten(folder, '"<U3"', '"O"'), "its classes are .*object"),
        (
            lambda folder: another_embedding().save_pretrained(folder / "embedding"),
            "its embedding .*SHA-256",
        ),
    ],
)
def test_a_damaged_classifier_is_rejected(fitted, tmp_path, damage, found):
    folder = fitted[0].save_pretrained(tmp_path / "glass")
    damage(folder)
    with pytest.raises(ValueError, match=found):
        NonNegativeClassifier.from_pretrained(folder)


def another_embedding():
    return NonNegativeEmbedding(32, 6, max_iter=1, random_state=1).fit(np.random.default_rng(0).normal(size=(50, 24)))


def rewritten(folder, old, new):
    """Rewrite the description, and remove its checksum, as somebody does who means it."""
    content = json.loads((folder / "classifier.json").read_text())
    text = json.dumps(unsealed(content))
    assert text.count(old) == 1
    (folder / "classifier.json").write_text(text.replace(old, new))


def test_the_classifier_of_a_run_is_found(fitted, tmp_path):
    fitted[0].save_pretrained(tmp_path / "run" / "classifier")
    again = NonNegativeClassifier.from_pretrained(tmp_path / "run")
    np.testing.assert_array_equal(again.coef_, fitted[0].coef_)


def test_on_fits_only_the_head(clusters):
    X, kinds = clusters
    embedding = NonNegativeEmbedding(32, 6, max_iter=60, random_state=0).fit(X)
    before = embedding.transform(X)
    classifier = NonNegativeClassifier.on(embedding, X, kinds)
    assert classifier.score(X, kinds) > 0.95 and (classifier.coef_ >= 0).all()
    assert (embedding.transform(X) != before).nnz == 0
    for fit in (NonNegativeClassifier(embedding).fit, partial(NonNegativeClassifier.on, embedding)):
        with pytest.raises(ValueError, match="y has 1 class, expected two or more"):
            fit(X, np.zeros(300, int))
    with pytest.raises(ValueError, match="x contains only zeros"):
        classifier.explain(np.zeros(24))
    with pytest.raises(ValueError, match="X has 300 samples and y 299 labels"):
        NonNegativeClassifier.on(embedding, X, kinds[:-1])
    with pytest.raises(ValueError, match="C is -1"):
        NonNegativeClassifier.on(embedding, X, kinds, C=-1)


def test_labels_from_pandas_can_be_saved(clusters, tmp_path):
    X, kinds = clusters
    embedding = NonNegativeEmbedding(16, 6, max_iter=5, random_state=0).fit(X)
    labels = pd.Series(np.array(["ant", "bee", "cat"], object)[kinds % 3])
    classifier = NonNegativeClassifier.on(embedding, X, labels)
    again = NonNegativeClassifier.from_pretrained(classifier.save_pretrained(tmp_path / "glass"))
    assert again.classes_.tolist() == ["ant", "bee", "cat"] and (again.predict(X) == classifier.predict(X)).all()


def test_negative_labels_are_classes(clusters):
    X, kinds = clusters
    classifier = NonNegativeClassifier(NonNegativeEmbedding(16, 6, max_iter=20), random_state=0)
    classifier.fit(X, np.where(kinds % 2, 1, -1))
    assert classifier.classes_.tolist() == [-1, 1] and (classifier.predict(X) == -1).any()
