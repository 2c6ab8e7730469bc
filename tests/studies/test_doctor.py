"""The doctor says what is true of features whose nature is known."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from rich.console import Console
from sklearn.datasets import load_digits

from nonneg import metrics
from nonneg.convert import NonNegativeEmbedding
from nonneg.studies._doctor import diagnose
from tests.studies.conftest import QUICK, clusters, codes, rotation, said

pytestmark = pytest.mark.usefixtures("one_thread")

AGNEWS = Path(__file__).parents[3] / "shared" / "data" / "agnews-minilm.npz"


# What a rotation does


def test_of_vectors_without_axes_a_rotation_takes_nothing_away(turned):
    assert turned.axes == "free"
    assert "takes nothing away" in said(turned, "note")
    assert "no more than a random direction" in said(turned)
    assert turned.given.sparsity == pytest.approx(turned.rotated.sparsity, abs=1e-3)
    assert turned.given.excess == pytest.approx(0, abs=1e-6)


def test_of_sparse_codes_a_rotation_takes_sparsity_and_consistency_away():
    z, labels = codes()
    found = diagnose(z, labels, **QUICK)
    assert found.axes == "sparse"
    assert found.rotated.sparsity == pytest.approx(0, abs=1e-3)
    assert found.given.excess > 0.2 > abs(found.rotated.excess)
    before, after = f"{found.given.sparsity:.1%}", f"{100 * found.given.excess:.1f} points over chance to 0.0"
    assert f"sparsity falls from {before} to 0.0%, class consistency from {after}" in said(found, "good")


def test_dense_axes_that_stand_for_something_are_not_called_free():
    vectors, labels = clusters()
    found = diagnose(vectors, labels, **QUICK)
    assert found.axes == "peaked"
    assert "takes something away, though not sparsity" in said(found, "good")
    assert diagnose(vectors, **QUICK).axes == "peaked"  # without labels the kurtosis says so


def test_sparse_features_that_do_not_follow_the_labels_are_not_said_to():
    z, labels = codes()
    found = diagnose(z, np.random.default_rng(1).permutation(labels), **QUICK)
    assert "takes much away" in said(found)
    assert "class consistency from" not in said(found)
    assert "tells nothing of the labels" in said(found, "note")
    assert "They do not follow the labels" in found.verdict


# Whether non-negativity helps


def test_it_helps_where_neighbours_and_probe_are_kept_and_features_become_readable(turned):
    assert turned.non_negativity == "helps"
    assert turned.conversion.neighbours_kept >= 1 / 3
    assert turned.conversion.reading.excess > 0.1
    assert turned.verdict.startswith("Non-negativity helps here")
    assert "follow the labels better than those given" in said(turned, "good")


def test_it_hurts_where_there_is_nothing_but_noise(noise):
    assert noise.non_negativity == "hurts"
    assert noise.conversion.neighbours_kept < 1 / 3
    assert f"keeps {noise.conversion.neighbours_kept:.1%} of the 10 nearest neighbours" in said(noise, "bad")
    assert "there is nothing to lose" in said(noise, "note")
    assert noise.verdict.startswith("Signed features are better here: a non-negative version of this size keeps only")
    assert "the probe" not in noise.verdict


def test_it_hurts_where_the_probe_loses_more_than_two_standard_errors():
    vectors, _ = clusters(rows=2000, noise=0.02)
    labels = np.random.default_rng(1).integers(0, 2, 2000)
    vectors[:, -1] += 0.004 * (2 * labels - 1)  # what the labels are about is the least of what the vectors hold
    found = diagnose(vectors @ rotation(24), labels, **QUICK)
    assert found.conversion.probe_difference < -2 * found.conversion.probe_error
    assert found.non_negativity == "hurts"
    assert "a loss of more than two standard errors" in said(found, "bad")
    assert "Signed features are better here" in found.verdict
    assert f"changes the probe by {100 * found.conversion.probe_difference:+.1f}" in found.verdict


def test_without_labels_no_gain_is_claimed():
    vectors, _ = clusters()
    found = diagnose(vectors @ rotation(24), **QUICK)
    assert found.non_negativity == "possible"
    assert "without labels no gain can be measured" in found.verdict
    assert found.conversion.probe_before is found.given.excess is None
    assert "label" not in said(found)


def test_what_is_non_negative_and_sparse_is_judged_as_it_is():
    z, labels = codes()
    found = diagnose(z, labels, **QUICK)
    assert found.conversion is None
    assert found.non_negativity == "already"
    assert "nothing was fitted. They follow the labels" in found.verdict
    assert "All 24 features are live" in said(found, "good")
    assert diagnose(z[:200] - 1e-3, labels[:200], **QUICK).conversion is not None


# Single features


def test_many_dead_features_are_bad_and_come_with_advice():
    z, labels = codes(dead=8)
    found = diagnose(z, labels, **QUICK)
    assert found.dead == 8
    assert "8 of 32 features are dead: active on none of the 1,200 rows." in said(found, "bad")
    assert all(word in said(found) for word in ("rep_relu", "learning rate", "temperature", "width"))
    assert "25% of them are dead" in found.verdict


def test_few_dead_features_are_a_note_without_advice():
    z, labels = codes(dead=1)
    found = diagnose(z, labels, **QUICK)
    assert "1 of 25 features are dead" in said(found, "note")
    assert "rep_relu" not in said(found)
    assert "dead" not in found.verdict


def test_dead_columns_of_signed_vectors_can_be_dropped():
    vectors, labels = clusters(width=16)
    found = diagnose(np.hstack((vectors, np.zeros((800, 4)))), labels, **QUICK)
    assert "Dead columns can be dropped" in said(found)
    assert "rep_relu" not in said(found)


def test_dense_features_among_sparse_ones_are_bad():
    z, labels = codes()
    z[:, :4] += 0.1
    found = diagnose(z, labels, **QUICK)
    assert found.dense == 4
    assert "4 of the 24 live features are active on more than half of the rows" in said(found, "bad")


def test_a_collapsed_embedding_is_bad_and_a_wide_one_good():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 64))
    assert "most of the width is wasted" in said(diagnose(flat, **QUICK), "bad")
    assert "have not collapsed" in said(diagnose(rng.normal(size=(400, 64)), **QUICK), "good")


def test_empty_rows_and_few_rows_are_mentioned():
    z, labels = codes(rows=500)
    z[:7] = 0
    found = diagnose(z, labels, **QUICK)
    assert found.empty == 7
    assert "7 of 500 rows have no active feature" in said(found, "bad")
    assert "With 500 rows all figures are rough" in said(found, "note")


# Figures


def test_counts_are_those_of_a_loop_over_entries():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 12)) * (rng.random((200, 12)) < rng.random(12))
    z[:, 3], z[:5] = 0, 0
    z[:, 4] = 1e-6 * np.linalg.norm(z, axis=1)  # below the threshold
    active = [[abs(v) > 1e-5 * np.linalg.norm(row) for v in row] for row in z]
    share = np.mean(active, axis=0)
    found = diagnose(z, **QUICK)
    assert (found.dead, found.dense) == ((share == 0).sum(), (share > 0.5).sum())
    assert found.empty == sum(not any(row) for row in active) == 5
    assert found.active == pytest.approx(np.sum(active) / 200)
    assert found.negative == pytest.approx((z < 0).mean())


def test_readings_are_those_of_the_metrics():
    z, labels = codes()
    found = diagnose(z, labels, **QUICK)
    consistency = metrics.class_consistency(z.astype(np.float32), labels)
    assert found.rows_seen == 1200
    assert found.given.sparsity == pytest.approx(metrics.sparsity(z))
    assert found.given.consistency == pytest.approx(consistency.supported)
    assert found.given.excess == pytest.approx(consistency.excess, abs=0.01)  # rows are drawn in another order
    assert found.effective_rank == pytest.approx(metrics.effective_rank(z), rel=1e-4)
    assert found.correlation == pytest.approx(metrics.correlation(z), rel=1e-4)
    kurtosis = scipy.stats.kurtosis(z.astype(np.float32), fisher=False)
    assert found.given.kurtosis == pytest.approx(np.median(kurtosis), rel=1e-3)


def test_the_strongest_rows_are_those_with_the_largest_values():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 60)  # 60 rows are the strongest 5% of 1,200
    vectors = 0.1 + 0.01 * rng.random((1200, 20))
    vectors[np.arange(1200), labels] += np.where(np.arange(1200) % 2, 1, 0.005)
    found = diagnose(vectors, labels, **QUICK)
    shares = []
    for column in vectors.T:
        strongest = sorted(range(1200), key=lambda row: -column[row])[:60]
        shares.append(np.bincount(labels[strongest]).max() / 60)
    chance = np.mean([np.bincount(rng.choice(labels, 60, replace=False)).max() / 60 for _ in range(400)])
    assert found.given.strongest_excess == pytest.approx(np.mean(shares) - chance, abs=0.01)


def test_the_probes_error_is_that_of_a_paired_difference(turned, noise):
    for to in (turned.conversion, noise.conversion):
        n, difference = to.held_out_rows, to.probe_after - to.probe_before
        assert to.probe_difference == pytest.approx(difference)
        # McNemar: n² · error² = (b + c) − (b − c)² / n, with b and c the rows that only one of the two gets right.
        one_sided, only_one = difference * n, n * (n * to.probe_error**2 + difference**2)
        assert only_one == pytest.approx(round(only_one), abs=1e-6)
        assert (round(only_one) - round(one_sided)) % 2 == 0
        assert abs(one_sided) <= only_one + 1e-6


def test_held_out_rows_are_not_fitted_on(turned):
    assert (turned.conversion.held_out_rows, turned.conversion.fitted_rows) == (200, 600)
    assert turned.conversion.neighbours_by_chance == pytest.approx(10 / 199)


def test_the_same_seed_gives_the_same_answer():
    vectors, labels = clusters(rows=300)
    assert diagnose(vectors, labels, **QUICK) == diagnose(vectors, labels, **QUICK)


# Input of all kinds


# What is shown


def test_all_that_is_said_is_shown_and_written(turned):
    shown = " ".join(str(turned).split())
    assert all(finding.sentence in shown for finding in turned.findings)
    assert turned.verdict in shown
    assert f"{turned.conversion.neighbours_kept:.1%}" in shown
    written = json.loads(json.dumps(turned.to_dict(), allow_nan=False))
    assert written["given"]["sparsity"] == turned.given.sparsity
    assert written["findings"][0] == {"level": turned.findings[0].level, "sentence": turned.findings[0].sentence}
    assert written["conversion"]["probe_error"] == turned.conversion.probe_error


def test_a_name_is_shown_as_it_is():
    z, labels = codes()
    console = Console(file=io.StringIO(), width=200)
    console.print(diagnose(z, labels, name="mine [bold]", **QUICK))
    assert "mine [bold]" in console.file.getvalue()


# Real data


def test_digits_and_their_codes():
    X, y = load_digits(return_X_y=True)
    pixels = diagnose(X, y, **QUICK)
    assert (pixels.axes, pixels.non_negativity, pixels.dead) == ("sparse", "helps", 3)
    embedding = NonNegativeEmbedding(64, 8, max_iter=60, random_state=0)
    readable = diagnose(embedding.fit_transform(X), y, progress=False)
    assert (readable.axes, readable.non_negativity) == ("sparse", "already")
    assert readable.given.excess > pixels.given.excess + 0.2


@pytest.mark.skipif(not AGNEWS.exists(), reason="needs ../shared/data/agnews-minilm.npz")
def test_sentence_vectors_have_no_axes():
    with np.load(AGNEWS) as file:
        found = diagnose(file["description"][:1500], file["label"][:1500], **QUICK)
    assert found.axes == "free"
    assert found.given.strongest_excess == pytest.approx(found.rotated.strongest_excess, abs=0.03)
    assert found.conversion.reading.excess > found.given.excess + 0.1
