"""What the doctor's figures mean, in sentences."""

import math
from collections.abc import Iterator
from typing import Literal

from nonneg.messages import counted
from nonneg.studies._diagnosis import Conversion, Diagnosis, FeatureStatistics, Finding, Level

_FEW_ROWS = 1_000
_SPARSITY_LOSS = 0.2  # a rotation that costs this much sparsity shows sparse axes
_PEAKED = 1.5  # a kurtosis this many times that of random directions shows peaked axes
_FEW_KEPT, _MANY_KEPT = 1 / 3, 0.5  # shares of neighbours kept; below the first, signed features are better
_MANY = 0.1  # share of features that are dead, or dense among sparse ones
_COLLAPSED, _WIDE = 0.1, 0.5  # effective rank as a share of the largest possible one


def margin_for(rows: int) -> float:
    """How far class consistency must exceed chance to count: 2 points, more with few rows."""
    return max(0.02, float(rows**-0.5))


def classify_axes(
    given: FeatureStatistics, rotated: FeatureStatistics, margin: float
) -> Literal["free", "sparse", "peaked"]:
    """Say whether the features' axes are special, by what a random rotation changes."""
    if given.sparsity - rotated.sparsity >= _SPARSITY_LOSS:
        return "sparse"
    lost = (given.strongest_excess or 0.0) - (rotated.strongest_excess or 0.0)
    return "peaked" if given.kurtosis >= _PEAKED * rotated.kurtosis or lost > max(margin, 0.05) else "free"


def classify_conversion(
    given: FeatureStatistics, to: Conversion | None
) -> Literal["already", "helps", "possible", "hurts"]:
    """Say whether a non-negative version helps; None means that the features are non-negative and sparse already."""
    if to is None:
        return "already"
    if to.neighbours_kept < _FEW_KEPT or _probe_loses(to):
        return "hurts"
    return "helps" if _follows_labels_better(given, to) else "possible"


def _beats_guessing(to: Conversion) -> bool:
    """Whether the probe on the vectors beats the most common class by two standard errors."""
    before, commonest = to.probe_before or 0.0, to.commonest or 0.0
    return before > commonest + 2 * math.sqrt(commonest * (1 - commonest) / max(1, to.labelled_rows))


def _probe_loses(to: Conversion) -> bool:
    return _beats_guessing(to) and (to.probe_difference or 0.0) < -2 * (to.probe_error or 0.0)


def _follows_labels_better(given: FeatureStatistics, to: Conversion) -> bool:
    return (to.statistics.excess or 0.0) - (given.excess or 0.0) > margin_for(max(1, to.labelled_rows))


def _points(share: float | None) -> str:
    return f"{100 * (share or 0.0):z.1f}"


def _all(number: int, what: str) -> str:
    return f"The only {what} is" if number == 1 else f"All {counted(number, what)} are"


def _change(to: Conversion) -> str:
    return f"{100 * (to.probe_difference or 0.0):+.1f} ± {_points(to.probe_error)} points"


def findings_for(d: Diagnosis) -> Iterator[Finding]:
    """Yield what the figures mean, one sentence at a time."""
    yield from _about_rows(d)
    yield from _about_features(d)
    yield from _about_rank(d)
    yield _about_rotation(d, d.given, d.rotated)
    if d.classes:
        yield _about_classes(d)
    if d.conversion is not None:
        yield from _about_conversion(d.given, d.conversion)


def _about_rows(d: Diagnosis) -> Iterator[Finding]:
    if d.rows < _FEW_ROWS:
        yield Finding("note", f"With only {d.rows} rows all figures are imprecise; use {_FEW_ROWS:,} or more.")
    if d.empty:
        verbs = ("has", "it is") if d.empty == 1 else ("have", "they are")
        sentence = (
            f"{d.empty:,} of {d.rows:,} rows {verbs[0]} no active feature, so {verbs[1]} similar to no other row."
        )
        yield Finding("bad" if d.empty > 0.01 * d.rows else "note", sentence)


def _about_features(d: Diagnosis) -> Iterator[Finding]:
    live = d.features - d.dead
    is_sparse = d.conversion is None
    many_died = d.dead >= _MANY * d.features
    if d.dead:
        which = f"{d.dead:,} of {counted(d.features, 'feature')}"
        verb = "is dead: active" if d.dead == 1 else "are dead: they are active"
        sentence = f"{which} {verb} on none of the {d.rows:,} rows."
        if d.rows * d.active < 20 * d.features:
            sentence += " With so few rows, some of them may be rare rather than dead."
        yield Finding("bad" if many_died else "note", sentence)
    elif is_sparse:
        yield Finding("good", f"{_all(d.features, 'feature')} live.")
    if many_died and d.negative:
        yield Finding("note", "Dead columns can be dropped without changing any distance between rows.")
    elif many_died:
        yield Finding(
            "note",
            "If they died in training, try rep_relu instead of relu (inactive features then keep learning), a lower"
            " learning rate, a lower temperature (it requires finer distinctions) or, if the live features suffice,"
            " a smaller width.",
        )
    if d.dense:
        some = f"{d.dense:,} of the {live:,} live features {'is' if d.dense == 1 else 'are'}"
        which = some if d.dense < live else _all(live, "live feature")
        sentence = f"{which} active on more than half of the rows, so being active means little."
        yield Finding("bad" if is_sparse and d.dense > _MANY * live else "note", sentence)


def _about_rank(d: Diagnosis) -> Iterator[Finding]:
    used = f"The rows use the equivalent of {d.effective_rank:,.1f} of {d.rank_limit:,} directions"
    if d.effective_rank < _COLLAPSED * d.rank_limit:
        yield Finding("bad", f"{used}: nearly all information lies in a few of them, and most of the width is wasted.")
    elif d.effective_rank >= _WIDE * d.rank_limit:
        yield Finding("good", f"{used}: the representation has not collapsed.")


def _about_rotation(d: Diagnosis, before: FeatureStatistics, after: FeatureStatistics) -> Finding:
    if d.axes == "sparse":
        lost = f"A random rotation reduces sparsity from {before.sparsity:.1%} to {after.sparsity:.1%}"
        if (before.excess or 0.0) > margin_for(d.rows_seen):
            lost += (
                f" and class consistency from {_points(before.excess)} to {_points(after.excess)} points above chance"
            )
        return Finding("good", f"{lost}. The meaning lies in these axes: do not rotate or whiten them.")
    figures = f"kurtosis is {before.kurtosis:.1f}, and {after.kurtosis:.1f} for random directions"
    if before.strongest_excess is not None:
        figures += (
            f"; the rows on which a feature is strongest share a class {_points(before.strongest_excess)} points above"
            f" chance, and {_points(after.strongest_excess)} for random directions"
        )
    if d.axes == "peaked":
        return Finding(
            "good",
            f"A random rotation loses information, though not sparsity: {figures}. Interpret a feature by its"
            " strongest rows, not by where it is active.",
        )
    return Finding(
        "note",
        f"A random rotation loses nothing: sparsity changes from {before.sparsity:.1%} to {after.sparsity:.1%};"
        f" {figures}. By these figures a single feature means no more than a random direction: the information lies in"
        " distances, not in axes.",
    )


def _about_classes(d: Diagnosis) -> Finding:
    if d.given.excess is None:
        return Finding(
            "note", "No feature is active on 10 labelled rows or more, so none can be compared with the labels."
        )
    shares = f"its most common class has {d.given.consistency:.1%} of those rows, {d.given.floor:.1%} by chance"
    if d.given.excess > margin_for(d.rows_seen):
        return Finding("good", f"Where a feature is active depends on the labels: {shares}.")
    return Finding("note", f"Where a feature is active does not depend on the labels: {shares}.")


def _about_conversion(given: FeatureStatistics, to: Conversion) -> Iterator[Finding]:
    limit = f", at most {to.max_active} active" if to.max_active else ""
    level: Level = "good" if to.neighbours_kept >= _MANY_KEPT else "note"
    yield Finding(
        "bad" if to.neighbours_kept < _FEW_KEPT else level,
        f"A non-negative version ({to.features:,} features{limit}; {to.max_iter:,} steps on {to.fitted_rows:,} rows)"
        f" keeps {to.neighbours_kept:.1%} of the {to.neighbours} nearest neighbours among {to.held_out_rows:,} held-out"
        f" rows; unrelated codes would keep {to.neighbours_by_chance:.1%}.",
    )
    if to.probe_before is not None:
        yield _about_probe(to)
    if to.statistics.excess is not None:
        is_better = _follows_labels_better(given, to)
        compared = "follow the labels better than the given ones" if is_better else "follow the labels no better"
        yield Finding(
            "good" if is_better else "note",
            f"Its features {compared}: where one is active, its most common class has"
            f" {to.statistics.consistency:.1%} of the rows, {to.statistics.floor:.1%} by chance.",
        )
    if to.dead >= _MANY * to.features:
        unused = f"{to.dead:,} of its {to.features:,} features stayed unused: a smaller n_components suffices."
        yield Finding("note", unused)


def _about_probe(to: Conversion) -> Finding:
    accuracies = f"{to.probe_after:.1%} of held-out rows, {to.probe_before:.1%} on the given vectors"
    sentence = f"A linear probe correctly predicts {accuracies}: {_change(to)}"
    if not _beats_guessing(to):
        guess = f"always guessing the most common class scores {to.commonest:.1%}, so there is nothing to lose"
        return Finding("note", f"{sentence} (standard error); {guess}.")
    if _probe_loses(to):
        return Finding("bad", f"{sentence}, a loss of more than two standard errors.")
    if (to.probe_difference or 0.0) > 2 * (to.probe_error or 0.0):
        return Finding("good", f"{sentence}, a gain of more than two standard errors.")
    level: Level = "good" if (to.probe_error or 0.0) <= 0.02 else "note"
    return Finding(level, f"{sentence}, a difference within two standard errors.")


def verdict_for(d: Diagnosis) -> str:
    """Say in one paragraph whether a non-negative version is worth having."""
    to = d.conversion
    if to is None:
        return _verdict_without_conversion(d)
    kept = f"{to.neighbours_kept:.0%} of the neighbours"
    probe = f"changes the probe by {_change(to)}" if to.probe_before is not None else ""
    follow = (
        f"its features follow the labels by {_points(to.statistics.excess)} points above chance, the given ones by"
        f" {_points(d.given.excess)}"
    )
    if d.non_negativity == "hurts":
        few = f"keeps only {kept}" if to.neighbours_kept < _FEW_KEPT else ""
        reasons = " and ".join(filter(None, (few, probe if _probe_loses(to) else "")))
        gain = f" It may still be useful for interpretation: {follow}." if _follows_labels_better(d.given, to) else ""
        return (
            f"Signed features are better here: a non-negative version of this size {reasons}. Keep the vectors as they"
            f" are, or allow more active features (max_active) and try again.{gain}"
        )
    costs = f"keeps {kept} and {probe}" if probe else f"keeps {kept}"
    is_faithful = to.neighbours_kept >= _MANY_KEPT
    search = "" if is_faithful else " Most neighbours change: search with the vectors, interpret the codes."
    if d.non_negativity == "helps":
        inactive = f"{to.statistics.sparsity:.0%} inactive entries"
        return f"Non-negativity helps here: a version with {inactive} {costs}, and {follow}.{search}"
    gain = "its features follow the labels no better" if d.classes else "without labels no gain can be measured"
    return f"Non-negativity is possible here, but {gain}: a version of this size {costs}.{search}"


def _verdict_without_conversion(d: Diagnosis) -> str:
    verdict = "These features are non-negative and sparse already, so nothing was fitted."
    if d.given.excess is not None:
        follow = "They follow" if d.given.excess > margin_for(d.rows_seen) else "They do not follow"
        verdict += f" {follow} the labels: {_points(d.given.excess)} points above chance."
    if d.dead >= _MANY * d.features:
        verdict += f" However, {d.dead / d.features:.0%} of them are dead."
    return verdict
