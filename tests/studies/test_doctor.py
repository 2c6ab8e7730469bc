"""The doctor describes features with known properties correctly."""

import dataclasses
import io
import json

import numpy as np
import pytest
import scipy.stats
from rich.console import Console
from sklearn.datasets import load_digits

from nonneg import metrics
from nonneg.convert import NonNegativeEmbedding
from nonneg.studies import Conversion, FeatureStatistics, diagnose
from nonneg.studies._findings import classify_conversion
from tests.studies.conftest import QUICK, clusters, codes, rotation, sentences

pytestmark = pytest.mark.usefixtures("one_thread")

# Rotation


def test_a_rotation_of_vectors_without_special_axes_loses_nothing(rotated_clusters):
    assert rotated_clusters.axes == "free"
    assert "rotation loses nothing" in sentences(rotated_clusters, "note")
    assert rotated_clusters.given.sparsity == pytest.approx(rotated_clusters.rotated.sparsity, abs=1e-3)
    assert rotated_clusters.given.excess == pytest.approx(0, abs=1e-6)


def test_a_rotation_of_sparse_codes_loses_sparsity_and_class_consistency():
    z, labels = codes()
    found = diagnose(z, labels, **QUICK)
    assert found.axes == "sparse"
    assert found.rotated.sparsity == pytest.approx(0, abs=1e-3)
    assert found.given.excess > 0.2 > abs(found.rotated.excess)
    good = sentences(found, "good")
    assert f"from {found.given.sparsity:.1%} to 0.0%" in good
    assert f"from {100 * found.given.excess:.1f} to 0.0 points above chance" in good


def test_dense_axes_with_a_meaning_are_called_peaked():
    vectors, labels = clusters()
    found = diagnose(vectors, labels, **QUICK)
    assert found.axes == "peaked"
    assert "not sparsity" in sentences(found, "good")
    assert diagnose(vectors, **QUICK).axes == "peaked"  # without labels the kurtosis shows it


def test_sparse_features_that_do_not_follow_the_labels_are_reported_as_such():
    z, labels = codes()
    found = diagnose(z, np.random.default_rng(1).permutation(labels), **QUICK)
    assert "reduces sparsity" in sentences(found) and "class consistency from" not in sentences(found)
    assert "does not depend on the labels" in sentences(found, "note")
    assert "They do not follow the labels" in found.verdict


# Verdict


def test_non_negativity_helps_where_neighbours_and_probe_are_kept_and_features_gain_meaning(rotated_clusters):
    assert rotated_clusters.non_negativity == "helps"
    assert rotated_clusters.conversion.neighbours_kept >= 1 / 3
    assert rotated_clusters.conversion.statistics.excess > 0.1
    assert rotated_clusters.verdict.startswith("Non-negativity helps here")
    assert "follow the labels better" in sentences(rotated_clusters, "good")


def test_non_negativity_hurts_pure_noise(noise):
    assert noise.non_negativity == "hurts"
    assert noise.conversion.neighbours_kept < 1 / 3
    assert f"keeps {noise.conversion.neighbours_kept:.1%} of the 10 nearest neighbours" in sentences(noise, "bad")
    assert "there is nothing to lose" in sentences(noise, "note")
    assert noise.verdict.startswith("Signed features are better here: a non-negative version of this size keeps only")
    assert "the probe" not in noise.verdict


def test_non_negativity_hurts_where_the_probe_loses_more_than_two_standard_errors():
    vectors, _ = clusters(rows=2000, noise=0.02)
    labels = np.random.default_rng(1).integers(0, 2, 2000)
    vectors[:, -1] += 0.004 * (2 * labels - 1)  # the labels depend on a very small part of the vectors
    found = diagnose(vectors @ rotation(24), labels, **QUICK)
    assert found.conversion.probe_difference < -2 * found.conversion.probe_error
    assert found.non_negativity == "hurts"
    assert "a loss of more than two standard errors" in sentences(found, "bad")
    assert "Signed features are better here" in found.verdict
    assert f"changes the probe by {100 * found.conversion.probe_difference:+.1f}" in found.verdict


def test_without_labels_no_gain_is_reported():
    vectors, _ = clusters()
    found = diagnose(vectors @ rotation(24), **QUICK)
    assert found.non_negativity == "possible"
    assert "without labels no gain can be measured" in found.verdict
    assert found.conversion.probe_before is found.given.excess is None
    assert "label" not in sentences(found)


def test_non_negative_sparse_features_are_not_converted():
    z, labels = codes()
    found = diagnose(z, labels, **QUICK)
    assert found.conversion is None
    assert found.non_negativity == "already"
    assert "nothing was fitted. They follow the labels" in found.verdict
    assert "All 24 features are live" in sentences(found, "good")
    assert diagnose(z[:200] - 1e-3, labels[:200], **QUICK).conversion is not None


# Single features


def test_many_dead_features_are_bad_and_advice_is_given():
    z, labels = codes(dead=8)
    found = diagnose(z, labels, **QUICK)
    assert found.dead == 8
    assert "8 of 32 features are dead" in sentences(found, "bad")
    assert all(word in sentences(found) for word in ("rep_relu", "learning rate", "temperature", "width"))
    assert "25% of them are dead" in found.verdict


def test_few_dead_features_are_a_note_without_advice():
    z, labels = codes(dead=1)
    found = diagnose(z, labels, **QUICK)
    assert "1 of 25 features is dead" in sentences(found, "note")
    assert "rep_relu" not in sentences(found)
    assert "dead" not in found.verdict


def test_dead_columns_of_signed_vectors_can_be_dropped():
    vectors, labels = clusters(width=16)
    found = diagnose(np.hstack((vectors, np.zeros((800, 4)))), labels, **QUICK)
    assert "Dead columns can be dropped" in sentences(found)
    assert "rep_relu" not in sentences(found)


def test_dense_features_among_sparse_ones_are_bad():
    z, labels = codes()
    z[:, :4] += 0.1
    found = diagnose(z, labels, **QUICK)
    assert found.dense == 4
    assert "4 of the 24 live features are active on more than half of the rows" in sentences(found, "bad")


def test_a_collapsed_embedding_is_bad_and_a_full_rank_one_good():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 64))
    assert "most of the width is wasted" in sentences(diagnose(flat, **QUICK), "bad")
    assert "not collapsed" in sentences(diagnose(rng.normal(size=(400, 64)), **QUICK), "good")


def test_empty_rows_and_small_samples_are_mentioned():
    z, labels = codes(rows=500)
    z[:7] = 0
    found = diagnose(z, labels, **QUICK)
    assert found.empty == 7
    assert "7 of 500 rows have no active feature" in sentences(found, "bad")
    assert "only 500 rows" in sentences(found, "note")


# Figures


def test_counts_equal_those_of_a_loop_over_entries():
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


def test_statistics_equal_the_metrics():
    z, labels = codes()
    found = diagnose(z, labels, **QUICK)
    consistency = metrics.class_consistency(z.astype(np.float32), labels)
    assert found.rows_seen == 1200
    assert found.given.sparsity == pytest.approx(metrics.sparsity(z))
    assert found.given.consistency == pytest.approx(consistency.supported)
    assert found.given.excess == pytest.approx(consistency.excess, abs=0.01)  # rows are drawn in a different order
    assert found.effective_rank == pytest.approx(metrics.effective_rank(z), rel=1e-4)
    assert found.correlation == pytest.approx(metrics.correlation(z), rel=1e-4)
    kurtosis = scipy.stats.kurtosis(z.astype(np.float32), fisher=False)
    assert found.given.kurtosis == pytest.approx(np.median(kurtosis), rel=1e-3)


def test_class_consistency_of_the_strongest_rows_equals_a_loop_over_features():
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


def test_the_standard_error_of_the_probe_is_that_of_a_paired_difference(rotated_clusters, noise):
    for to in (rotated_clusters.conversion, noise.conversion):
        n, difference = to.held_out_rows, to.probe_after - to.probe_before
        assert to.probe_difference == pytest.approx(difference)
        # McNemar: n² · error² = (b + c) − (b − c)² / n; b and c count the rows that only one of the two predicts
        # correctly.
        one_sided, only_one = difference * n, n * (n * to.probe_error**2 + difference**2)
        assert only_one == pytest.approx(round(only_one), abs=1e-6)
        assert (round(only_one) - round(one_sided)) % 2 == 0
        assert abs(one_sided) <= only_one + 1e-6


def test_held_out_rows_are_not_used_for_fitting(rotated_clusters):
    assert (rotated_clusters.conversion.held_out_rows, rotated_clusters.conversion.fitted_rows) == (200, 600)
    assert rotated_clusters.conversion.neighbours_by_chance == pytest.approx(10 / 199)


def test_the_same_seed_gives_the_same_diagnosis():
    vectors, labels = clusters(rows=300)
    assert diagnose(vectors, labels, **QUICK) == diagnose(vectors, labels, **QUICK)


# Output


def test_all_findings_are_printed_and_written_as_json(rotated_clusters):
    shown = " ".join(str(rotated_clusters).split())
    assert all(finding.sentence in shown for finding in rotated_clusters.findings)
    assert rotated_clusters.verdict in shown
    assert f"{rotated_clusters.conversion.neighbours_kept:.1%}" in shown
    written = json.loads(json.dumps(rotated_clusters.to_dict(), allow_nan=False))
    assert written["given"]["sparsity"] == rotated_clusters.given.sparsity
    assert written["findings"][0] == {
        "level": rotated_clusters.findings[0].level,
        "sentence": rotated_clusters.findings[0].sentence,
    }
    assert written["conversion"]["probe_error"] == rotated_clusters.conversion.probe_error


def test_the_name_is_not_interpreted_as_markup():
    z, labels = codes()
    console = Console(file=io.StringIO(), width=200)
    console.print(diagnose(z, labels, name="mine [bold]", **QUICK))
    assert "mine [bold]" in console.file.getvalue()


# Real data


def test_digits_are_helped_and_their_codes_are_sparse_already():
    X, y = load_digits(return_X_y=True)
    pixels = diagnose(X, y, max_iter=40, progress=False)
    assert (pixels.axes, pixels.non_negativity, pixels.dead) == ("sparse", "helps", 3)
    embedding = NonNegativeEmbedding(64, 8, max_iter=60, random_state=0)
    readable = diagnose(embedding.fit_transform(X), y, progress=False)
    assert (readable.axes, readable.non_negativity) == ("sparse", "already")
    assert readable.given.excess > pixels.given.excess + 0.2


def test_a_probe_beats_guessing_only_by_as_much_as_the_labelled_rows_can_show():
    plain = FeatureStatistics(sparsity=0.0, kurtosis=3.0)
    seen = Conversion(
        fitted_rows=15_000,
        held_out_rows=5_000,
        features=64,
        max_active=8,
        max_iter=600,
        dead=0,
        statistics=plain,
        neighbours=10,
        neighbours_kept=0.6,
        neighbours_by_chance=0.002,
        labelled_rows=5_000,
        commonest=0.4,
        probe_before=0.5,
        probe_after=0.3,
        probe_difference=-0.2,
        probe_error=0.05,
    )
    assert classify_conversion(plain, seen) == "hurts"
    assert classify_conversion(plain, dataclasses.replace(seen, labelled_rows=30)) == "possible"
