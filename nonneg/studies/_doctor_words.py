"""What the doctor's figures mean, in plain words."""

import math
from collections.abc import Iterator
from typing import Literal

from nonneg.studies._diagnosis import Conversion, Diagnosis, Finding, Level, Reading

_FEW_ROWS = 1_000
_LOST = 0.2  # of sparsity, by a rotation
_PEAKED = 1.5  # times the kurtosis of random directions
_FEW_KEPT, _MANY_KEPT = 1 / 3, 0.5  # of the neighbours; with fewer than the first, signed features are better
_MANY = 0.1  # of the features dead, or dense though the others are sparse
_COLLAPSED, _WIDE = 0.1, 0.5  # effective rank, as a share of the largest there could be


def margin_of(rows: int) -> float:
    """By how much class consistency must exceed chance to count: 2 points, more where there are few rows."""
    return max(0.02, float(rows**-0.5))


def axes_of(given: Reading, rotated: Reading, margin: float) -> Literal["free", "sparse", "peaked"]:
    if given.sparsity - rotated.sparsity >= _LOST:
        return "sparse"
    lost = (given.strongest_excess or 0.0) - (rotated.strongest_excess or 0.0)
    return "peaked" if given.kurtosis >= _PEAKED * rotated.kurtosis or lost > max(margin, 0.05) else "free"


def outcome_of(given: Reading, to: Conversion | None) -> Literal["already", "helps", "possible", "hurts"]:
    if to is None:
        return "already"
    if to.neighbours_kept < _FEW_KEPT or _loses_probe(to):
        return "hurts"
    return "helps" if _gains(given, to) else "possible"


def _beats_guessing(to: Conversion) -> bool:
    """Whether the probe on the vectors is right more often, by two standard errors, than the commonest class."""
    before, commonest = to.probe_before or 0.0, to.commonest or 0.0
    return before > commonest + 2 * math.sqrt(commonest * (1 - commonest) / to.held_out_rows)


def _loses_probe(to: Conversion) -> bool:
    return _beats_guessing(to) and (to.probe_difference or 0.0) < -2 * (to.probe_error or 0.0)


def _gains(given: Reading, to: Conversion) -> bool:
    return (to.reading.excess or 0.0) - (given.excess or 0.0) > margin_of(to.held_out_rows)


def _points(share: float | None) -> str:
    return f"{100 * (share or 0.0):z.1f}"


def _change(to: Conversion) -> str:
    return f"{100 * (to.probe_difference or 0.0):+.1f} ± {_points(to.probe_error)} points"


def findings_on(d: Diagnosis) -> Iterator[Finding]:
    yield from _on_rows(d)
    yield from _on_features(d)
    yield _on_rotation(d, d.given, d.rotated)
    if d.classes:
        yield _on_classes(d)
    if d.conversion is not None:
        yield from _on_conversion(d.given, d.conversion)


def _on_rows(d: Diagnosis) -> Iterator[Finding]:
    if d.rows < _FEW_ROWS:
        yield Finding("note", f"With {d.rows} rows all figures are rough; {_FEW_ROWS:,} or more make them steadier.")
    if d.empty:
        sentence = f"{d.empty:,} of {d.rows:,} rows have no active feature: they are like no other row."
        yield Finding("bad" if d.empty > 0.01 * d.rows else "note", sentence)


def _on_features(d: Diagnosis) -> Iterator[Finding]:
    live = d.features - d.dead
    is_sparse = d.conversion is None
    many_died = d.dead >= _MANY * d.features
    if d.dead:
        sentence = f"{d.dead:,} of {d.features:,} features are dead: active on none of the {d.rows:,} rows."
        if d.rows * d.active < 20 * d.features:
            sentence += " With so few rows, some of them may be rare rather than dead."
        yield Finding("bad" if many_died else "note", sentence)
    elif is_sparse:
        yield Finding("good", f"All {d.features:,} features are live.")
    if many_died and d.negative:
        yield Finding("note", "Dead columns can be dropped: no distance between rows changes.")
    elif many_died:
        yield Finding(
            "note",
            "If they died in training, try rep_relu in place of relu (it lets features learn that are off), a lower"
            " learning rate, a lower temperature (it asks for finer distinctions) or, if the live ones suffice, a"
            " smaller width.",
        )
    if d.dense:
        which = f"{d.dense:,} of the {live:,}" if d.dense < live else f"All {live:,}"
        sentence = f"{which} live features are active on more than half of the rows: that one is active says little."
        yield Finding("bad" if is_sparse and d.dense > _MANY * live else "note", sentence)
    used = f"The rows use the equivalent of {d.effective_rank:,.1f} of {d.rank_limit:,} directions"
    if d.effective_rank < _COLLAPSED * d.rank_limit:
        yield Finding("bad", f"{used}: nearly all they hold lies in a few, and most of the width is wasted.")
    elif d.effective_rank >= _WIDE * d.rank_limit:
        yield Finding("good", f"{used}: they have not collapsed into a few.")


def _on_rotation(d: Diagnosis, before: Reading, after: Reading) -> Finding:
    if d.axes == "sparse":
        lost = f"A random rotation takes much away: sparsity falls from {before.sparsity:.1%} to {after.sparsity:.1%}"
        if (before.excess or 0.0) > margin_of(d.rows_seen):
            lost += f", class consistency from {_points(before.excess)} points over chance to {_points(after.excess)}"
        return Finding("good", f"{lost}. What can be read lies in these axes: do not rotate or whiten them.")
    shown = f"kurtosis {before.kurtosis:.1f}, that of random directions {after.kurtosis:.1f}"
    if before.strongest_excess is not None:
        shown += (
            f"; the rows a feature is strongest on share a class {_points(before.strongest_excess)} points over"
            f" chance, those of a random direction {_points(after.strongest_excess)}"
        )
    if d.axes == "peaked":
        return Finding(
            "good",
            f"A random rotation takes something away, though not sparsity: {shown}. Read a feature by its strongest"
            " rows, not by where it is active.",
        )
    return Finding(
        "note",
        f"A random rotation takes nothing away: sparsity {before.sparsity:.1%}, then {after.sparsity:.1%}; {shown}. By"
        " these figures a single feature says no more than a random direction: what meaning there is lies in"
        " distances, not in axes.",
    )


def _on_classes(d: Diagnosis) -> Finding:
    if d.given.excess is None:
        return Finding(
            "note", "No feature is active on 10 labelled rows or more: none can be compared with the labels."
        )
    shown = f"there its commonest class has {d.given.consistency:.1%} of the rows, by chance {d.given.floor:.1%}"
    if d.given.excess > margin_of(d.rows_seen):
        return Finding("good", f"Where a feature is active tells of the labels: {shown}.")
    return Finding("note", f"Where a feature is active tells nothing of the labels: {shown}.")


def _on_conversion(given: Reading, to: Conversion) -> Iterator[Finding]:
    limit = f", at most {to.max_active} active" if to.max_active else ""
    level: Level = "good" if to.neighbours_kept >= _MANY_KEPT else "note"
    yield Finding(
        "bad" if to.neighbours_kept < _FEW_KEPT else level,
        f"A non-negative version ({to.features:,} features{limit}; {to.max_iter:,} steps on {to.fitted_rows:,} rows)"
        f" keeps {to.neighbours_kept:.1%} of the {to.neighbours} nearest neighbours among {to.held_out_rows:,} held-out"
        f" rows; chance would keep {to.neighbours_by_chance:.1%}.",
    )
    if to.probe_before is not None:
        yield _on_probe(to)
    if to.reading.excess is not None:
        compared = "follow the labels better than those given" if _gains(given, to) else "follow the labels no better"
        yield Finding(
            "good" if _gains(given, to) else "note",
            f"Its features {compared}: where one is active its commonest class has {to.reading.consistency:.1%} of the"
            f" rows, by chance {to.reading.floor:.1%}.",
        )
    if to.dead >= _MANY * to.features:
        unused = f"{to.dead:,} of its {to.features:,} features stayed unused: a smaller n_components would do."
        yield Finding("note", unused)


def _on_probe(to: Conversion) -> Finding:
    shares = f"right on {to.probe_after:.1%} of held-out rows, before on {to.probe_before:.1%}"
    said = f"A linear probe is {shares}: {_change(to)}"
    if not _beats_guessing(to):
        guess = f"always guessing the commonest class would be on {to.commonest:.1%}, so there is nothing to lose"
        return Finding("note", f"{said} (standard error); {guess}.")
    if _loses_probe(to):
        return Finding("bad", f"{said}, a loss of more than two standard errors.")
    if (to.probe_difference or 0.0) > 2 * (to.probe_error or 0.0):
        return Finding("good", f"{said}, a gain of more than two standard errors.")
    level: Level = "good" if (to.probe_error or 0.0) <= 0.02 else "note"
    return Finding(level, f"{said}, within two standard errors: no loss is seen.")


def verdict_on(d: Diagnosis) -> str:
    to = d.conversion
    if to is None:
        return _verdict_as_they_are(d)
    keeps = f"keeps {to.neighbours_kept:.0%} of the neighbours"
    probe = f"changes the probe by {_change(to)}" if to.probe_before is not None else ""
    follow = (
        f"its features follow the labels by {_points(to.reading.excess)} points over chance, those given by"
        f" {_points(d.given.excess)}"
    )
    if d.non_negativity == "hurts":
        few = f"keeps only {to.neighbours_kept:.0%} of the neighbours" if to.neighbours_kept < _FEW_KEPT else ""
        why = " and ".join(filter(None, (few, probe if _loses_probe(to) else "")))
        still = f" To read rather than to search it may still be worth having: {follow}." if _gains(d.given, to) else ""
        return (
            f"Signed features are better here: a non-negative version of this size {why}. Keep the vectors as they"
            f" are, or allow more active features (max_active) and look again.{still}"
        )
    costs = f"{keeps} and {probe}" if probe else keeps
    search = " Most neighbours change: search with the vectors, read the codes."
    search = search if to.neighbours_kept < _MANY_KEPT else ""
    if d.non_negativity == "helps":
        off = f"{to.reading.sparsity:.0%} of its entries off"
        return f"Non-negativity helps here: a version with {off} {costs}, and {follow}.{search}"
    gain = "its features follow the labels no better" if d.classes else "without labels no gain can be measured"
    return f"Non-negativity can be had here, but {gain}: a version of this size {costs}.{search}"


def _verdict_as_they_are(d: Diagnosis) -> str:
    said = "These features are non-negative and sparse already, so nothing was fitted."
    if d.given.excess is not None:
        follow = "They follow" if d.given.excess > margin_of(d.rows_seen) else "They do not follow"
        said += f" {follow} the labels: {_points(d.given.excess)} points over chance."
    if d.dead >= _MANY * d.features:
        said += f" But {d.dead / d.features:.0%} of them are dead."
    return said
