"""Search, "try" and the glass box on the page agree with the command line, the model and the classifier."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError, NonNegativeClassifier, NonNegativeEmbedding, load
from nonneg.convert import convert_file
from nonneg.explorer import open_explorer
from nonneg.explorer._requests import Query, Weight
from nonneg.modalities.images import open_source


@pytest.fixture
def codes():
    """Sparse codes whose rows differ in length, so that cosine and inner product rank differently."""
    generator = np.random.default_rng(3)
    dense = generator.random((80, 12)) * (generator.random((80, 12)) < 0.4) * generator.uniform(0.1, 10, (80, 1))
    return dense.astype(np.float32)


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        (Query(like=(7,)), ["--like", "s7"]),
        (Query(like=(7, 11), without=(2,)), ["--like", "s7", "--like", "s11", "--without", "2"]),
        (
            Query(features=(Weight(feature=3, weight=1.5), Weight(feature=5, weight=0.5)), without=(1, 8)),
            ["--feature", "3:1.5", "--feature", "5:0.5", "--without", "1", "--without", "8"],
        ),
    ],
    ids=["like", "like-without", "features-without"],
)
def test_the_page_and_the_command_line_return_the_same_hits(codes, tmp_path, query, arguments):
    folder = Features(codes, ids=[f"s{row}" for row in range(80)]).save(tmp_path / "a.features")
    hits = open_explorer([folder]).search(0, query).hits
    command = [sys.executable, "-m", "nonneg", "search", str(folder), *arguments, "--k", "24", "--json"]
    expected = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert [hit.sample.id for hit in hits] == [hit["id"] for hit in expected]
    for hit, other in zip(hits, expected, strict=True):
        assert hit.score == pytest.approx(other["score"], rel=1e-6)
        values = {each["feature"]: each["value"] for each in other["contributions"]}
        assert {each.feature: each.value for each in hit.contributions} == pytest.approx(values, rel=1e-6)


def encoded_row(folder, features: Features, row: int):
    """Save the features beside the run `ncl`, encode the image of a row again and return the answer."""
    features.save(folder / "ncl.features", overwrite=True)
    return open_explorer([folder / "ncl"]).encode(0, features.media(row))


def check_same_sample(features: Features, row: int, found) -> None:
    """Check that an encoded image has the features of its row and is most similar to that row."""
    code = sp.csr_array(features.codes)[[row]].toarray()[0]
    parts = {part.caption.feature: part.activation for part in found.parts}
    assert parts == pytest.approx({int(i): float(code[i]) for i in np.flatnonzero(code)}, rel=1e-3, abs=1e-4)
    assert found.neighbours[0].sample.row == row
    assert found.neighbours[0].score == pytest.approx(1, abs=1e-4)


def test_try_honours_the_selection_and_order_of_the_features(own_digits):
    features = Features.load(own_digits / "ncl.features")
    columns = np.argsort(features.expected_activation)[-20:][::2]
    selected = features.with_columns(columns)
    check_same_sample(selected, 5, encoded_row(own_digits, selected, 5))


def test_try_honours_the_layer_of_the_features(own_digits):
    features = load(own_digits / "ncl").embed(open_source("digits", "test"), "encoder")
    assert features.layer == "encoder"
    check_same_sample(features, 5, encoded_row(own_digits, features, 5))


def test_a_run_that_did_not_make_the_features_is_an_error(own_digits):
    features = Features.load(own_digits / "ncl.features")
    other = Features(np.hstack([sp.csr_array(features.codes).toarray()] * 2), media=[features.media(0)] * len(features))
    with pytest.raises(InputError, match=str(other.shape[1])):
        encoded_row(own_digits, other, 5)


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """A conversion of vectors from three clusters with a classifier on all of its 12 features."""
    folder = tmp_path_factory.mktemp("classified")
    generator = np.random.default_rng(0)
    clusters = np.arange(120) % 3
    vectors = generator.normal(size=(3, 12))[clusters] + 0.3 * generator.normal(size=(120, 12))
    np.savez(folder / "v.npz", x=vectors.astype(np.float32), kind=np.array(["ant", "bee", "cow"])[clusters])
    embedding = NonNegativeEmbedding(12, 4, max_iter=60, batch_size=64, random_state=0)
    options = {"labels": f"{folder}/v.npz:kind", "embedding": embedding, "classify": True, "progress": False}
    convert_file(f"{folder}/v.npz:x", folder / "run", **options)
    return folder


def predictions(classified, tmp_path, features: Features):
    """Predictions of the page for all samples, with these features beside a copy of the run."""
    shutil.copytree(classified / "run", tmp_path / "run")
    features.save(tmp_path / "run.features")
    explorer = open_explorer([tmp_path / "run"])
    return [explorer.sample(0, row).prediction for row in range(len(features))]


@pytest.mark.parametrize(
    "columns", [np.arange(12), np.arange(12)[::-1], [7, 0, 3, 9, 10, 4], [2, -1, 11, 5, -1]], ids=str
)
def test_a_glass_box_applies_to_selected_and_reordered_features(classified, tmp_path, columns):
    features = Features.load(classified / "run.features").with_columns(columns)
    found = predictions(classified, tmp_path, features)
    head = NonNegativeClassifier.from_pretrained(classified / "run" / "classifier")
    kept = [(place, column) for place, column in enumerate(columns) if column >= 0]
    whole = np.zeros((len(features), 12))
    for place, column in kept:
        whole[:, column] = sp.csr_array(features.codes).toarray()[:, place]
    units = whole / np.maximum(np.linalg.norm(whole, axis=1, keepdims=True), 1e-30)
    scores = units @ head.coef_.T + head.intercept_
    assert [each.label for each in found] == [features.label_name(best) for best in scores.argmax(axis=1)]
    assert [each.score for each in found] == pytest.approx(scores.max(axis=1), abs=1e-4)
    assert {each.missing for each in found} == {12 - len(kept)}
    for each in found:
        assert all(columns[evidence.caption.feature] >= 0 and evidence.value > 0 for evidence in each.evidence)


def test_a_glass_box_of_other_features_is_an_error(classified, tmp_path):
    codes = sp.csr_array(Features.load(classified / "run.features").codes).toarray()
    shutil.copytree(classified / "run" / "classifier", tmp_path / "run" / "classifier")
    Features(np.hstack([codes, codes])).save(tmp_path / "run.features")
    with pytest.raises(InputError, match=r"classifier.* 12 .* 24"):
        open_explorer([tmp_path / "run"])
