"""Selectors choose what they say, `keep` loses nothing else, and the sweep measures honestly."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from nonneg import Features, InputError, metrics
from nonneg.evaluate import linear_probe
from nonneg.select import (
    SELECTORS,
    ExpectedActivation,
    MutualInformation,
    RandomFeatures,
    Sepin,
    Variance,
    keep,
    named_selector,
    sweep,
)

PLAIN = [ExpectedActivation(1), Variance(1), RandomFeatures(1), MutualInformation(1)]


@pytest.fixture(scope="module")
def codes():
    """Signed, two thirds of it zero, an empty row and a dead feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.33)
    X[3], X[:, 5] = 0, 0
    return X


@pytest.fixture(scope="module")
def labelled():
    """Train and test features of four kinds: four features tell the kind, a fifth is loud, the rest are faint noise."""
    rng = np.random.default_rng(1)

    def draw(samples: int) -> Features:
        kinds = np.arange(samples) % 4
        X = rng.random((samples, 16)) * (rng.random((samples, 16)) < 0.2)
        X[np.arange(samples), kinds] += 2 * (rng.random(samples) < 0.9)
        X[:, 4] = 3 * rng.random(samples)
        return Features(X, labels=kinds, ids=[f"s{i}" for i in range(samples)], names={0: "zero", 4: "loud"})

    return draw(200), draw(120)


# Scores


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize(
    ("settings", "taken"),
    [
        ({}, lambda row: np.maximum(row, 0)),
        ({"rectify": False}, lambda row: row),
        ({"absolute": True}, np.abs),
    ],
)
def test_expected_activation_is_the_mean_of_the_share_of_the_length(codes, make, settings, taken):
    expected = np.zeros(8)
    for row in codes:
        value = taken(row)
        if value.any():
            expected += value / np.sqrt((value**2).sum()) / len(codes)
    found = ExpectedActivation(2, **settings).fit(make(codes)).scores_
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_unrectified_activation_is_what_features_say_of_themselves(codes):
    found = ExpectedActivation(2, rectify=False).fit(codes).scores_
    np.testing.assert_allclose(found, Features(codes).expected_activation, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_variance_is_that_of_numpy(codes, make):
    np.testing.assert_allclose(Variance(2).fit(make(codes)).scores_, codes.var(axis=0), atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bins", [1, 4])
def test_mutual_information_is_that_of_scikit_learn_on_zero_and_quantiles(codes, make, bins):
    labels = np.arange(60) % 3
    for feature, found in enumerate(MutualInformation(2, bins=bins).fit(make(codes), labels).scores_):
        column = codes[:, feature]
        edges = np.quantile(column[column != 0], np.arange(1, bins) / bins) if column.any() else []
        read = [0 if value == 0 else 1 + sum(value >= edge for edge in edges) for value in column]
        assert found == pytest.approx(mutual_info_score(read, labels), abs=1e-12)


def test_entries_stored_twice_count_as_their_sum(codes):
    twice = sp.csr_array(codes)
    halves = sp.csr_array(
        (np.repeat(twice.data / 2, 2), np.repeat(twice.indices, 2), 2 * twice.indptr), shape=twice.shape
    )
    labels = np.arange(60) % 3
    for selector in PLAIN[:2]:
        np.testing.assert_allclose(clone(selector).fit(halves).scores_, clone(selector).fit(codes).scores_)
    found = MutualInformation(1).fit(halves, labels).scores_
    np.testing.assert_allclose(found, MutualInformation(1).fit(codes, labels).scores_, atol=1e-12)
    assert halves.nnz == 2 * twice.nnz  # as it was given


@pytest.mark.parametrize("selector", PLAIN, ids=lambda selector: type(selector).__name__)
def test_sparse_codes_stay_sparse(selector):
    # 37 GB if they did not.
    wide = sp.random_array((50_000, 100_000), density=1e-6, format="csr", rng=np.random.default_rng(0))
    kept = clone(selector).fit(wide, np.arange(50_000) % 2).transform(wide)
    assert sp.issparse(kept) and kept.shape == (50_000, 1)


def test_sepin_keeps_what_no_other_feature_carries():
    rng = np.random.default_rng(0)
    X = rng.random((40, 4))
    X[:, 3] = X[:, 2]  # either tells all that the other does
    views = X + 0.01 * rng.random(X.shape)
    selector = Sepin(2).fit(X, views=views)
    np.testing.assert_allclose(selector.scores_, metrics.sepin(X, views).per_feature, atol=1e-9)
    assert selector.get_support(indices=True).tolist() == [0, 1]


def test_sepin_draws_no_more_samples_than_it_may():
    X = np.random.default_rng(0).random((50, 3))
    drawn = np.sort(np.random.RandomState(7).choice(50, 20, replace=False))
    found = Sepin(1, max_samples=20, random_state=7).fit(X, views=X**2).scores_
    np.testing.assert_allclose(found, Sepin(1).fit(X[drawn], views=X[drawn] ** 2).scores_)


# Selectors as scikit-learn knows them


@pytest.mark.parametrize("selector", PLAIN, ids=lambda selector: type(selector).__name__)
def test_scikit_learn_accepts_it(selector):
    check_estimator(selector, on_skip=None)


def test_of_equal_features_the_first_are_kept():
    X = np.ones((5, 6))
    assert ExpectedActivation(3).fit(X).get_support(indices=True).tolist() == [0, 1, 2]


def test_what_was_left_out_comes_back_as_zeros(codes):
    selector = Variance(3).fit(codes)
    kept = selector.get_support()
    back = selector.inverse_transform(selector.transform(codes))
    np.testing.assert_array_equal(back, np.where(kept, codes, 0))


def test_a_selector_goes_before_a_classifier(labelled):
    train, test = labelled
    pipeline = make_pipeline(MutualInformation(4), LogisticRegression()).fit(train.codes, train.labels)
    assert pipeline[0].get_support(indices=True).tolist() == [0, 1, 2, 3]
    assert pipeline.score(test.codes, test.labels) > 0.9


def test_random_features_depend_on_the_seed_alone(codes):
    first, same, other = (RandomFeatures(4, random_state=seed).fit(codes) for seed in (0, 0, 1))
    assert (first.scores_ == same.scores_).all() and (first.get_support() != other.get_support()).any()


@pytest.mark.parametrize("count", [0, 9, -1, 2.0, True, "2", None])
def test_a_number_of_features_that_cannot_be_kept_is_refused(codes, count):
    with pytest.raises(InputError, match=r"n_features_to_select is .*, expected 1 to 8, the number of features"):
        ExpectedActivation(count).fit(codes)


def test_labels_and_views_are_asked_for(codes):
    with pytest.raises(InputError, match="target y is None"):
        MutualInformation(1).fit(codes, None)
    with pytest.raises(InputError, match="bins is 0, expected a whole number"):
        MutualInformation(1, bins=0).fit(codes, np.arange(60) % 2)
    with pytest.raises(InputError, match="views is None, expected features of a second view"):
        Sepin(1).fit(codes)
    with pytest.raises(InputError, match="max_samples is 1, expected a whole number, at least 2"):
        Sepin(1, max_samples=1).fit(codes, views=codes)
    with pytest.raises(InputError, match=r"views has shape \(60, 7\), expected that of X, \(60, 8\)"):
        Sepin(1).fit(codes, views=codes[:, :7])


# Keeping


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_keep_takes_everything_along(codes, make):
    text = [f"text {i}" for i in range(60)]
    features = Features(
        make(codes),
        ids=[f"s{i}" for i in range(60)],
        labels=np.arange(60) % 2,
        label_names=("even", "odd"),
        media=[bytes([i]) for i in range(60)],
        texts=text,
        names={1: "one", 6: "six"},
        provenance={"model": "mine"},
    )
    fewer = keep(features, [6, 0])
    found = fewer.codes.toarray() if fewer.is_sparse else fewer.codes
    np.testing.assert_array_equal(found, codes[:, [6, 0]])
    assert fewer.is_sparse == features.is_sparse and fewer.names == {0: "six"}
    assert fewer.samples == features.samples and fewer.label_names == ("even", "odd")
    assert (fewer.labels == features.labels).all()
    assert fewer.provenance == {"model": "mine", "selected": {"by": "indices", "kept": [6, 0], "of": 8}}


def test_keep_fits_a_copy_of_the_selector(codes):
    selector = Variance(3)
    fewer = keep(Features(codes), selector)
    told = fewer.provenance["selected"]
    assert told["kept"] == np.sort(np.argsort(-codes.var(axis=0))[:3]).tolist()
    assert told["by"] == "Variance(n_features_to_select=3)" and not hasattr(selector, "scores_")


def test_a_fitted_selector_is_not_fitted_again(codes):
    selector = Variance(3).fit(codes)
    other = Features(codes[:, ::-1])
    assert keep(other, selector).provenance["selected"]["kept"] == selector.get_support(indices=True).tolist()


def test_unlabelled_samples_do_not_inform(labelled):
    train, _ = labelled
    some = np.where(np.arange(200) < 100, train.labels, -1)
    found = keep(Features(train.codes, labels=some), MutualInformation(6)).provenance["selected"]["kept"]
    expected = MutualInformation(6).fit(train.codes[:100], train.labels[:100])
    assert found == expected.get_support(indices=True).tolist()


def test_views_meet_their_samples_by_id(labelled):
    train, _ = labelled
    order = np.random.default_rng(0).permutation(200)
    views = Features(train.codes[order], ids=[f"s{i}" for i in order])
    assert keep(train, Sepin(4), views).provenance["selected"]["kept"] == [
        *keep(train, Sepin(4), train).provenance["selected"]["kept"]
    ]


def test_a_selection_of_a_selection_remembers_both(codes):
    twice = keep(keep(Features(codes), [7, 3, 1]), [2, 0]).provenance["selected"]
    assert twice["kept"] == [2, 0] and twice["before"]["kept"] == [7, 3, 1]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([8], "index 8 is not a feature, expected 0 to 7"),
        ([-1], "index -1 is not a feature"),
        ([1, 1], "some indices are the same"),
        ([], "expected whole numbers, one or more"),
        ([0.5], "indices are float64"),
        (Variance(3).fit(np.eye(5)), "fitted on 5 features, expected 8"),
        (Sepin(3), "a second view of the same samples is missing"),
        (MutualInformation(3), "the features have no labels"),
    ],
    ids=str,
)
def test_what_cannot_be_kept_is_refused(codes, chosen, message):
    with pytest.raises(InputError, match=message):
        keep(Features(codes), chosen)


def test_an_unknown_selector_is_refused():
    with pytest.raises(InputError, match="selector 'luck' is not known, expected one of expected-activation"):
        named_selector("luck", 3)


# The sweep


def test_a_point_is_the_probe_and_the_precision_of_what_is_kept(labelled):
    train, test = labelled
    found = sweep(train, test, keep=[2], selectors=["mutual-information", "expected-activation"], progress=False)
    assert [(point.by, point.keep) for point in found.points] == [
        ("mutual-information", 2),
        ("expected-activation", 2),
        ("all features", 16),
    ]
    for point, selector in zip(found.points, (MutualInformation(2), ExpectedActivation(2)), strict=False):
        kept = keep(train, selector)
        columns = kept.provenance["selected"]["kept"]
        part = keep(test, columns)
        assert point.probe == linear_probe(kept, part).accuracy
        assert point.precision == pytest.approx(metrics.precision_at_k(test.codes[:, columns], test.labels))
    # The loud feature is active most and tells nothing.
    assert found.points[0].probe > found.points[1].probe + 0.1


def test_test_samples_do_not_choose(labelled):
    train, test = labelled
    rolled = Features(np.roll(test.codes, 3, axis=1), labels=test.labels)
    found = sweep(train, rolled, keep=[4], selectors={"best": MutualInformation()}, progress=False).points[0]
    expected = linear_probe(keep(train, [0, 1, 2, 3]), keep(rolled, [0, 1, 2, 3]))
    assert found.by == "best" and found.probe == expected.accuracy


def test_bytes_are_those_of_the_smaller_way_to_store(labelled):
    train, test = labelled
    one, _, _ = (
        point.bytes
        for point in sweep(train, test, keep=[1, 4], selectors=["expected-activation"], progress=False).points
    )
    assert one == 4  # the loud feature: dense
    whole = sweep(train, test, keep=[], selectors=[], progress=False).points
    assert len(whole) == 1 and whole[0].bytes == pytest.approx(8 * (test.codes > 0).sum() / 120)


def test_by_default_all_that_differ_are_swept(labelled):
    train, test = labelled
    found = sweep(train, test, progress=False)
    assert {point.keep for point in found.points} == {1, 2, 4, 8, 16}
    names = {point.by for point in found.points}
    assert names == {"expected-activation", "variance", "mutual-information", "random", "all features"}
    signed = Features(train.codes - 0.1, labels=train.labels)
    names = {point.by for point in sweep(signed, signed, keep=[2], views=signed, progress=False).points}
    assert names == {*SELECTORS, "all features"}


def test_a_sweep_is_a_table_json_and_a_picture(labelled, tmp_path):
    found = sweep(*labelled, keep=[2], selectors=["variance", "random"], progress=False)
    lines = found.markdown().splitlines()
    assert lines[0] == "| keep | by | probe | precision@10 | bytes a sample |"
    assert lines[2].startswith("| 2 | variance |") and lines[3].startswith("|  | random |")
    assert "200 train samples" in lines[-1] and "seed 0" in lines[-1]
    assert json.loads(json.dumps(found.to_dict()))["points"][0]["by"] == "variance"
    assert found.plot(tmp_path / "a.png").read_bytes() == found.plot(tmp_path / "b.png").read_bytes()
    assert found.plot(tmp_path / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match=r"is not a picture by its ending, expected one of \.png, \.svg, \.pdf"):
        found.plot(tmp_path / "a.txt")


def test_what_cannot_be_swept_is_refused(labelled):
    train, test = labelled
    with pytest.raises(InputError, match="sweep: keep has 17, expected 1 to 16"):
        sweep(train, test, keep=[17], progress=False)
    with pytest.raises(InputError, match="train has 16 features and test 2"):
        sweep(train, keep(test, [0, 1]), progress=False)
    with pytest.raises(InputError, match="no labels"):
        sweep(train, Features(test.codes), progress=False)


# The command


@pytest.fixture
def nonneg(monkeypatch, command, tmp_path, labelled):
    """Run a command where train.features and test.features lie: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name, features in zip(("train", "test"), labelled, strict=True):
        features.save(f"{name}.features")
        (tmp_path / name).mkdir()  # a run, with its features beside it

    return command


def test_the_command_writes_features_and_their_numbers(nonneg, tmp_path):
    code, said, _ = nonneg("select", "train.features", "--keep", "4", "--by", "mutual-information")
    assert code == 0 and said == "Selected: train-4.features, train-4.kept.npy\n"
    assert np.load(tmp_path / "train-4.kept.npy").tolist() == [0, 1, 2, 3]
    kept = Features.load(tmp_path / "train-4.features")
    assert kept.shape == (200, 4) and kept.names == {0: "zero"} and kept.id(5) == "s5"
    assert kept.provenance["selected"]["kept"] == [0, 1, 2, 3]
    # The same ones of the test samples, by the numbers that were written; and a run's name will do.
    code, said, _ = nonneg("select", "test", "--indices", "train-4.kept.npy")
    assert code == 0 and Features.load(tmp_path / "test-4.features").shape == (120, 4)


def test_the_command_does_not_overwrite_unasked(nonneg, tmp_path):
    assert nonneg("select", "train.features", "--keep", "4", "--out", "some.features")[0] == 0
    assert nonneg("select", "train.features", "--keep", "4", "--out", "some.features", "--overwrite")[0] == 0
    assert (tmp_path / "some.kept.npy").is_file()
    code, _, said = nonneg("select", "train.features", "--keep", "3", "--out", "some.features")
    assert code == 2 and "some.features exists already" in said
    (tmp_path / "other.kept.npy").mkdir()
    code, _, said = nonneg("select", "train.features", "--keep", "3", "--out", "other.features", "--overwrite")
    assert code == 2 and "other.kept.npy exists already" in said and not (tmp_path / "other.features").exists()


def test_sepin_chooses_by_a_second_view(nonneg, labelled, tmp_path):
    code, _, said = nonneg("select", "train", "--keep", "2", "--by", "sepin", "--views", "train.features")
    assert code == 0, said
    expected = keep(labelled[0], Sepin(2), labelled[0]).provenance["selected"]["kept"]
    assert np.load(tmp_path / "train-2.kept.npy").tolist() == expected


def test_the_command_sweeps(nonneg, tmp_path):
    arguments = (
        "select",
        "train.features",
        "--test",
        "test.features",
        "--keep",
        "2",
        "--keep",
        "4",
        "--by",
        "variance",
    )
    code, said, _ = nonneg(*arguments, "--out", "sweep.png")
    assert code == 0 and "| 4 | variance |" in said and said.endswith("Drawn: sweep.png\n")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    code, _, said = nonneg(*arguments, "--out", "sweep.png")
    assert code == 2 and "sweep.png exists already" in said
    assert nonneg(*arguments, "--out", "sweep.png", "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "neither --keep nor --indices given"),
        (("--keep", "17"), "n_features_to_select is 17, expected 1 to 16"),
        (("--keep", "0"), "n_features_to_select is 0"),
        (("--keep", "2", "--by", "random", "--seed", "-1"), "seed is -1, expected 0 to 4294967295"),
        (("--test", "test", "--seed", "-1"), "seed is -1, expected 0 to 4294967295"),
        (("--keep", "2", "--keep", "3"), "--keep is given 2 times, expected once, or --test to compare"),
        (("--keep", "2", "--indices", "a.npy"), "--keep and --indices given, expected one of them"),
        (("--indices", "a.npy"), "a.npy cannot be read: no such file"),
        (("--indices", "test.features/meta.json"), "meta.json is not a plain NumPy array"),
        (("--indices", "a.npy", "--by", "variance"), "--by is given, expected only without --indices"),
        (("--keep", "2", "--by", "sepin"), "--views is missing, expected features of a second view"),
        (("--keep", "2", "--views", "test"), "--views is test, expected features of a second view with --by sepin"),
        (("--keep", "2", "--by", "sepin", "--views", "test"), "120 of them in common, expected the same ids"),
        (("--test", "nowhere"), "nowhere does not exist, expected a file or a folder"),
        (("--test", "test", "--out", "sweep.doc"), "sweep.doc is not a picture by its ending"),
        (("--test", "test", "--indices", "a.npy"), "--indices is given, expected only without --test"),
        (("--test", "test", "--by", "sepin"), "a second view of the same samples is missing"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(nonneg, arguments, message, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, said = nonneg("select", "train.features", *arguments)
    assert code == 2 and said.startswith("nonneg: ") and said.count("\n") == 1 and message in said
    assert sorted(tmp_path.iterdir()) == before
