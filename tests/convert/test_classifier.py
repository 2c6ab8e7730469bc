"""The glass box: predictions that are sums, and what becomes of them if a feature is switched off."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from nonneg.convert import NonNegativeClassifier, NonNegativeEmbedding
from nonneg.convert._classifier import _fit_head

EMBEDDING = NonNegativeEmbedding(n_components=32, max_active=6, max_iter=60)


@parametrize_with_checks([NonNegativeClassifier(NonNegativeEmbedding(16, 6, max_iter=5))])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clusters):
    X, kinds = clusters
    names = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])
    classifier = NonNegativeClassifier(EMBEDDING, feature_names={3: "wings"}, random_state=0)
    return classifier.fit(X, names[kinds]), X, names[kinds]


def test_weights_are_non_negative_and_predictions_right(fitted):
    classifier, X, y = fitted
    assert (classifier.coef_ >= 0).all() and classifier.coef_.shape == (6, 32)
    assert classifier.score(X, y) > 0.95
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1)


def test_a_prediction_is_the_sum_of_its_contributions(fitted):
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
    assert "(any sample)" in str(why)
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
    for wrong, sentence in (
        ({"off": [99]}, "there is no feature 99"),
        ({"weights": {(0, "yak"): 1.0}}, "label is 'yak', expected one of ant"),
        ({"weights": {(0, "cat"): -1.0}}, "expected at least 0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            classifier.edited(**wrong)


def test_the_head_is_the_best_there_is_with_non_negative_weights():
    rng = np.random.default_rng(0)
    codes = sp.csr_array(np.maximum(rng.normal(size=(200, 5)), 0))
    labels = np.arange(200) % 3
    weights, intercept, _ = _fit_head(codes, labels, 3, 1.0, 1000)

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


def test_bad_input_is_named(clusters):
    X, kinds = clusters
    with pytest.raises(ValueError, match="C is 0"):
        NonNegativeClassifier(EMBEDDING, C=0).fit(X, kinds)
    with pytest.raises(ValueError, match="expected as many"):
        NonNegativeClassifier(EMBEDDING).fit(X, kinds[:-1])


def test_a_saved_classifier_predicts_the_same(fitted, tmp_path):
    classifier, X, _ = fitted
    again = NonNegativeClassifier.from_pretrained(classifier.save_pretrained(tmp_path / "glass"))
    np.testing.assert_array_equal(again.decision_function(X), classifier.decision_function(X))
    assert (again.predict(X) == classifier.predict(X)).all() and again.classes_.dtype == classifier.classes_.dtype
    assert again.name(3) == "wings" and str(again.explain(X[0])) == str(classifier.explain(X[0]))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "classifier.json").unlink(), "classifier.json is missing"),
        (lambda folder: (folder / "classifier.json").write_text("{}"), "does not describe a nonneg classifier"),
        (lambda folder: (folder / "classifier.safetensors").write_bytes(b"x"), "does not describe a nonneg classifier"),
    ],
)
def test_what_is_no_classifier_is_refused(fitted, tmp_path, damage, sentence):
    folder = fitted[0].save_pretrained(tmp_path / "glass")
    damage(folder)
    with pytest.raises(ValueError, match=sentence):
        NonNegativeClassifier.from_pretrained(folder)


def test_on_a_fitted_embedding_the_head_alone_is_fitted(clusters):
    X, kinds = clusters
    embedding = NonNegativeEmbedding(32, 6, max_iter=60, random_state=0).fit(X)
    before = embedding.transform(X)
    classifier = NonNegativeClassifier.on(embedding, X, kinds)
    assert classifier.score(X, kinds) > 0.95 and (classifier.coef_ >= 0).all()
    assert (embedding.transform(X) != before).nnz == 0
    with pytest.raises(ValueError, match="y has 1 classes, expected two or more"):
        NonNegativeClassifier.on(embedding, X, np.zeros(300, int))
