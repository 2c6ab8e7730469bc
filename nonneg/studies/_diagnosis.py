"""The result of `diagnose`: figures about an embedding, and what they mean."""

import dataclasses
import io
import json
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from nonneg.evaluate import rich_table

Level = Literal["good", "note", "bad"]


@dataclass(frozen=True)
class Finding:
    """One sentence about the features, and whether it is good or bad news."""

    level: Level
    sentence: str


@dataclass(frozen=True)
class FeatureStatistics:
    """What single features show, averaged over features.

    Attributes:
        sparsity: share of inactive entries, as `metrics.sparsity`.
        kurtosis: of a feature's values, median over features: 3 for a normal distribution, more where few rows stand
            out.
        consistency: class consistency over features that are active on 10 rows or more.
        floor: the same with permuted labels.
        excess: `consistency - floor`.
        strongest_excess: the excess over the 5% of rows (at least 10) on which each feature is largest.

    The last four are None without labels, or if no feature is active on 10 labelled rows.
    """

    sparsity: float
    kurtosis: float
    consistency: float | None = None
    floor: float | None = None
    excess: float | None = None
    strongest_excess: float | None = None


@dataclass(frozen=True)
class Conversion:
    """How a non-negative version of the vectors compares with them, on held-out rows.

    Attributes:
        fitted_rows, held_out_rows: number of rows of each part.
        features, max_active, max_iter: settings of the `NonNegativeEmbedding`.
        dead: features that are active on none of the fitted rows.
        statistics: of the codes of the held-out rows.
        neighbours: number of nearest neighbours that are compared per held-out row.
        neighbours_kept: share of them that are the same before and after.
        neighbours_by_chance: the share that codes unrelated to the vectors would keep.
        labelled_rows: number of held-out rows with a label.
        commonest: share of the most common class among the held-out rows.
        probe_before, probe_after: accuracy of the linear probe on the vectors and on the codes.
        probe_difference: `probe_after - probe_before`.
        probe_error: its standard error, paired over the held-out rows; it does not include the variation between
            fits.

    The last five are None without labels, or with too few of them for the probe.
    """

    fitted_rows: int
    held_out_rows: int
    features: int
    max_active: int | None
    max_iter: int
    dead: int
    statistics: FeatureStatistics
    neighbours: int
    neighbours_kept: float
    neighbours_by_chance: float
    labelled_rows: int = 0
    commonest: float | None = None
    probe_before: float | None = None
    probe_after: float | None = None
    probe_difference: float | None = None
    probe_error: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Figures about an embedding, and what they mean.

    Attributes:
        name: name of the vectors.
        rows, features: their shape.
        rows_seen: number of randomly drawn rows behind all figures except those marked "of all rows".
        classes: number of classes; 0 without labels.
        negative: share of negative entries, of all rows.
        dead, dense: number of features active on no row, and on more than half of the rows, of all rows.
        empty: rows without an active feature, of all rows.
        active: mean number of active features per row, of all rows.
        effective_rank, correlation: as in `metrics`; for very wide features over fewer rows or columns.
        rank_limit: the largest possible effective rank: the number of live features, or of rows if that is smaller.
        given, rotated: statistics of the features as given, and after a random rotation.
        axes: "free" if the rotation changed nothing, "sparse" if it reduced sparsity, "peaked" if it reduced
            something else.
        conversion: None if the features are non-negative and sparse already.
        non_negativity: "already" there, "helps", "possible" (no gain and no clear loss was seen), or "hurts".
        findings, verdict: the same in words.
    """

    name: str
    rows: int
    features: int
    rows_seen: int
    classes: int
    negative: float
    dead: int
    dense: int
    empty: int
    active: float
    effective_rank: float
    rank_limit: int
    correlation: float
    given: FeatureStatistics
    rotated: FeatureStatistics
    axes: Literal["free", "sparse", "peaked"]
    conversion: Conversion | None
    non_negativity: Literal["already", "helps", "possible", "hurts"]
    findings: tuple[Finding, ...] = ()
    verdict: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return all figures and findings as plain JSON types."""
        return dict(json.loads(json.dumps(dataclasses.asdict(self))))

    def __rich__(self) -> Group:
        styles = {"good": "green", "note": "yellow", "bad": "bold red"}
        sentences = Table.grid(padding=(0, 2))
        for finding in self.findings:
            sentences.add_row(Text(finding.level, styles[finding.level]), Text(finding.sentence))
        return Group(_table(self), "", sentences, "", Text(self.verdict, "bold"))

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=110, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _table(d: Diagnosis) -> Table:
    """Return the figures as a table; figures that were not measured stay blank."""
    to = d.conversion
    columns = {"as given": d.given, "rotated": d.rotated} | ({"non-negative": to.statistics} if to else {})

    def row(label: str, given: str, converted: str = "") -> list[str]:
        return [label, given, "", *([converted] if to else [])]

    def statistic(label: str, name: str, form: str = "{:.1%}", scale: float = 1.0) -> list[str]:
        values = [getattr(statistics, name) for statistics in columns.values()]
        return [label, *("" if value is None else form.format(value * scale) for value in values)]

    rows = [
        row("rows examined", f"{d.rows_seen:,} of {d.rows:,}", f"{to.held_out_rows:,} held out" if to else ""),
        row("features", f"{d.features:,}", f"{to.features:,}" if to else ""),
        row("dead", f"{d.dead:,}", f"{to.dead:,}" if to else ""),
        row("dense", f"{d.dense:,}"),
        row("negative entries", f"{d.negative:.1%}", "0.0%" if to else ""),
        statistic("sparsity", "sparsity"),
        row("effective rank", f"{d.effective_rank:,.1f} of {d.rank_limit:,}"),
        row("correlation", f"{d.correlation:.3f}"),
        statistic("kurtosis", "kurtosis", "{:.1f}"),
        statistic("class consistency", "consistency"),
        statistic("  chance floor", "floor"),
        statistic("  points above chance", "excess", "{:z.1f}", 100),
        statistic("  … on strongest rows", "strongest_excess", "{:z.1f}", 100),
    ]
    if to:
        rows.append(row("neighbours kept", "", f"{to.neighbours_kept:.1%}"))
    if to and to.probe_before is not None:
        rows.append(row("linear probe", f"{to.probe_before:.1%}", f"{to.probe_after:.1%}"))
    return rich_table([Text(d.name), *columns], [row for row in rows if any(row[1:])])
