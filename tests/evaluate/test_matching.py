"""Features are matched by their activations, and names and numbers can be carried over."""

import itertools
import json

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

from nonneg import Features, InputError, metrics
from nonneg.codes import dense
from nonneg.evaluate import carry_names, match_features, reordered

IDS = [f"sample {i}" for i in range(80)]


@pytest.fixture(scope="module")
def codes():
    """Non-negative, sparse codes; the last of six features is dead."""
    rng = np.random.default_rng(0)
    codes = rng.random((80, 6)) * (rng.random((80, 6)) < 0.3)
    codes[:, 5] = 0
    return codes


@pytest.fixture(scope="module")
def again(codes):
    """The same features as another seed might give them: reordered, with noise."""
    rng = np.random.default_rng(1)
    return (codes * (1 + 0.2 * rng.random(codes.shape)))[:, [3, 5, 0, 4, 1, 2]]


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def best_total(a, b):
    """Return the largest sum of cosines over all one-to-one matches, by brute force."""
    return max(
        sum(cosine(a[:, i], b[:, j]) for i, j in enumerate(order))
        for order in itertools.permutations(range(b.shape[1]), a.shape[1])
    )


# Matching


def test_the_matching_maximises_the_sum_of_cosines():
    rng = np.random.default_rng(0)
    a, b = rng.random((30, 4)), rng.random((30, 5))
    matching = match_features(Features(a), Features(b))
    for feature in range(4):
        assert matching.cosine[0, feature] == pytest.approx(cosine(a[:, feature], b[:, matching.partners[0, feature]]))
    assert matching.cosine.sum() == pytest.approx(best_total(a, b))
    assert matching.agreement.value == pytest.approx(best_total(a, b) / 4)


def test_reordered_features_are_matched(codes, again):
    matching = match_features(Features(codes), Features(again))
    assert matching.partners.tolist() == [[2, 4, 5, 0, 3, -1]]
    assert matching.live == (5, 5) and matching.at_least(0.9) == 5
    assert matching.agreement.value > 0.98 > matching.floor


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_samples_are_matched_by_id(codes, again, make):
    order = np.random.default_rng(2).permutation(80)
    by_row = match_features(Features(codes), Features(again))
    shuffled = Features(make(again[order]), ids=[IDS[i] for i in order])
    by_id = match_features(Features(make(codes), ids=IDS), shuffled)
    np.testing.assert_allclose(by_id.stability, by_row.stability)
    assert (by_id.partners == by_row.partners).all()


def test_dead_features_have_no_stability(codes, again):
    matching = match_features(Features(codes), Features(again))
    assert np.isnan(matching.stability[5]) and np.isfinite(matching.stability[:5]).all()
    assert 5 not in matching.ranked() and 1 not in matching.partners


def test_a_live_feature_without_a_partner_has_stability_0(codes):
    matching = match_features(Features(codes), Features(codes[:, [1, 3]]))
    assert matching.partners.tolist() == [[-1, 0, -1, 1, -1, -1]]
    np.testing.assert_allclose(matching.stability[:5], [0, 1, 0, 1, 0])
    assert matching.agreement.value == pytest.approx(1)  # over the matched features


def test_stability_is_the_mean_over_the_other_sets(codes, again):
    noise = np.random.default_rng(3).random(codes.shape)
    sets = [Features(each) for each in (codes, again, noise)]
    matching = match_features(*sets)
    one, two = match_features(sets[0], sets[1]), match_features(sets[0], sets[2])
    np.testing.assert_allclose(matching.stability, (one.stability + two.stability) / 2)
    assert set(matching.agreement.per_pair) == {(0, 1), (0, 2), (1, 2)}
    assert matching.agreement == metrics.agreement([codes, again, noise])


def test_negated_features_match_by_the_absolute_cosine(codes):
    negated = Features(-codes)
    assert match_features(Features(codes), negated).agreement.value <= 0
    assert match_features(Features(codes), negated, signed=False).agreement.value == pytest.approx(1)


def test_the_chance_agreement_comes_from_shuffled_samples():
    # Dense non-negative features always have large cosines, so that their agreement says little.
    rng = np.random.default_rng(0)
    a, b = rng.random((200, 5)), rng.random((200, 5))
    matching = match_features(Features(a), Features(b))
    assert matching.floor == pytest.approx(matching.agreement.value, abs=0.03) and matching.floor > 0.7


def test_json_and_table_agree(codes, again):
    features = Features(codes, names={2: "whiskers [grey]"})
    matching = match_features(features, Features(again))
    data = json.loads(json.dumps(matching.to_dict(), allow_nan=False))
    assert data["features"][5] == {"feature": 5, "name": None, "stability": None, "partners": [None]}
    assert data["features"][2]["partners"] == [5] and data["standard_error"] is None
    with (console := Console(width=100)).capture() as capture:
        console.print(matching)
    output = " ".join(capture.get().split())
    assert f"agreement {data['agreement']:.3f} ± {data['deviation']:.3f} over features" in output
    assert f"chance {data['floor']:.3f}" in output and "stable at 0.8 or more 5 of 5 features" in output
    assert f"2 whiskers [grey] {data['features'][2]['stability']:.3f} 5" in output


def test_different_samples_are_an_error(codes):
    features = Features(codes, ids=IDS)
    other = Features(codes, ids=[*IDS[:60], *(f"other {i}" for i in range(20))])
    with pytest.raises(InputError, match=r"set 3 .* 80 samples .* 60 ids"):
        match_features(features, features, other)
    with pytest.raises(InputError, match=r"60 samples .* 60 ids"):
        match_features(features, Features(codes[:60], ids=IDS[:60]))
    with pytest.raises(InputError, match="given 1 set"):
        match_features(features)
    with pytest.raises(InputError, match=r"set 2 .*no live feature"):
        match_features(features, Features(np.zeros((80, 3)), ids=IDS))


# Names and numbers


def test_names_are_carried_to_matching_features(codes, again):
    old = Features(codes, names={0: "zero", 4: "four", 5: "dead"})
    assert carry_names(old, Features(again)).names == {2: "zero", 3: "four"}


def test_existing_names_are_kept(codes, again):
    old = Features(codes, names={0: "zero", 4: "four"})
    assert carry_names(old, Features(again, names={2: "mine"})).names == {2: "mine", 3: "four"}


def test_names_are_not_carried_to_dissimilar_features(codes, again):
    changed = again.copy()
    changed[:, 2] = np.random.default_rng(5).random(80)  # the match of feature 0
    old = Features(codes, names={0: "zero", 4: "four"})
    assert carry_names(old, Features(changed), least=0.8).names == {3: "four"}


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_matched_features_get_their_old_numbers(codes, again, make):
    new = Features(make(again), ids=IDS, names={2: "mine"}, provenance={"model": "new"})
    found = reordered(Features(codes, ids=IDS), new)
    columns = [2, 4, 5, 0, 3, 1]  # the dead one fills the gap
    np.testing.assert_array_equal(dense(found.codes), again[:, columns])
    assert found.names == {0: "mine"} and found.samples == new.samples
    assert found.provenance == {"model": "new", "reordered": {"least": 0.5}, "columns": columns}


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_empty_features_fill_numbers_beyond_the_new_features(codes, make):
    found = reordered(Features(make(codes)), Features(make(codes[:, [4, 1]])))
    assert found.provenance["columns"] == [-1, 1, -1, -1, 0]
    np.testing.assert_array_equal(dense(found.codes), codes[:, :5] * [0, 1, 0, 0, 1])


def test_all_features_are_kept_if_there_are_more_new_ones(codes, again):
    extra = np.random.default_rng(4).random((80, 3))
    found = reordered(Features(codes), Features(np.hstack((extra, again))), least=0.9)
    assert sorted(found.provenance["columns"]) == list(range(9))
    assert match_features(Features(codes), found).partners.tolist() == [[0, 1, 2, 3, 4, -1]]


# The command


@pytest.fixture
def nonneg(monkeypatch, command, tmp_path, codes, again):
    """Run the command in a folder with features: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    Features(codes, ids=IDS, names={0: "zero"}).save("a.features")
    Features(again, ids=IDS).save("b.features")
    Features(again[::-1], ids=IDS[::-1]).save("c.features")
    Features(again).save("rows.features")
    for run in ("a", "b", "c", "rows"):  # runs with their features beside them
        (tmp_path / run).mkdir()

    return lambda *arguments: command("match", *arguments)


def test_the_command_prints_a_table_or_json(nonneg):
    code, output, _ = nonneg("a.features", "b", "c.features")
    assert code == 0 and "3 sets, 80 samples" in output and "0 zero" in output and "2, 2" in output
    code, output, _ = nonneg("a.features", "b.features", "--json", "--least", "0.9")
    assert code == 0 and json.loads(output)["live"] == [5, 5]
    assert json.loads(output)["at_least"] == {"0.5": 5, "0.8": 5, "0.9": 5}


def test_the_command_writes_renamed_and_reordered_features(nonneg, tmp_path, again):
    code, output, _ = nonneg("a", "c", "--carry-names", "--reorder", "--out", "new.features")
    assert code == 0 and output.endswith("Written: new.features\n")
    found = Features.load(tmp_path / "new.features")
    assert found.names == {0: "zero"} and found.id(0) == IDS[-1]
    np.testing.assert_array_equal(found.codes, again[::-1][:, [2, 4, 5, 0, 3, 1]])
    code, _, output = nonneg("a", "c", "--carry-names", "--out", "new.features")
    assert code == 2 and "new.features holds features already" in output
    code, _, _ = nonneg("a", "c", "--carry-names", "--out", "new.features", "--overwrite")
    assert code == 0 and Features.load(tmp_path / "new.features").names == {2: "zero"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "features folders given: 0"),
        (("a",), "features folders given: 1"),
        (("a", "nowhere"), "nowhere"),
        (("a", "rows"), "0 ids in common"),
        (("a", "b", "--reorder"), "--out is missing"),
        (("a", "b", "--out", "new"), "--out is new"),
        (("a", "b", "c", "--reorder", "--out", "new"), "features folders given: 3"),
        (("a", "b", "--least", "2"), "least is 2.0"),
        (("a", "b", "--least", "nan"), "least is nan"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(nonneg, arguments, message, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, output = nonneg(*arguments)
    assert code == 2 and output.startswith("nonneg: ") and output.count("\n") == 1 and message in output
    assert sorted(tmp_path.iterdir()) == before


def test_the_command_replaces_nothing_but_features(nonneg, tmp_path):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "note.txt").write_text("not written by nonneg")
    code, _, output = nonneg("a", "c", "--reorder", "--out", "others", "--overwrite")
    assert code == 2 and "others holds other files (note.txt)" in output
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["note.txt"]
