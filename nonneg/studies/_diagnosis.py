"""What the doctor finds: figures of an embedding, and what they mean."""

import dataclasses
import io
import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

Array = npt.NDArray[Any]


Level = Literal["good", "note", "bad"]


@dataclass(frozen=True)
class Finding:
    """One thing that was found."""

    level: Level
    sentence: str


@dataclass(frozen=True)
class Reading:
    """What can be read off single features.

    Attributes:
        sparsity: share of entries that are off, as `metrics.sparsity`.
        kurtosis: of a feature's values, median over features: 3 for a bell curve, more where few rows stand out.
        consistency: share of the commonest class where a feature is active, over features active on 10 rows or more.
        floor: the same with the labels permuted.
        excess: `consistency - floor`.
        strongest_excess: the same of the 5% of rows, 10 at least, that a feature is largest on.

    The last four are None without labels, and where no feature is active on 10 labelled rows.
    """

    sparsity: float
    kurtosis: float
    consistency: float | None = None
    floor: float | None = None
    excess: float | None = None
    strongest_excess: float | None = None


@dataclass(frozen=True)
class Conversion:
    """What a non-negative version of the vectors keeps, on rows it was not fitted on.

    Attributes:
        fitted_rows, held_out_rows: how many.
        features, max_active, max_iter: of the `NonNegativeEmbedding`.
        dead: features that are active on none of the fitted rows.
        reading: of the codes of the held-out rows.
        neighbours: how many nearest rows of each row are compared, among the held-out ones.
        neighbours_kept: share of them that are the same before and after.
        neighbours_by_chance: what codes would keep that have nothing to do with the vectors.
        commonest: share of the commonest class among the held-out rows.
        probe_before, probe_after: accuracy of a linear probe on the vectors and on the codes.
        probe_difference: after − before.
        probe_error: its standard error, paired over the held-out rows; what another fit would change is not in it.

    The last five are None without labels.
    """

    fitted_rows: int
    held_out_rows: int
    features: int
    max_active: int | None
    max_iter: int
    dead: int
    reading: Reading
    neighbours: int
    neighbours_kept: float
    neighbours_by_chance: float
    commonest: float | None = None
    probe_before: float | None = None
    probe_after: float | None = None
    probe_difference: float | None = None
    probe_error: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Figures of an embedding, and what they mean.

    Attributes:
        name: what the vectors are called.
        rows, features: their shape.
        rows_seen: how many rows, drawn at random, are behind the figures that are not said to be of all rows.
        classes: how many the labels name; 0 without labels.
        negative: share of the entries that are below 0, of all rows.
        dead, dense: features active on no row, and on more than half of them, of all rows.
        empty: rows without an active feature, of all rows.
        active: features active on a row, mean over all rows.
        effective_rank, correlation: as in `metrics`; of very wide features from fewer rows or columns.
        rank_limit: the largest effective rank that could be: live features, or fewer where rows were.
        given, rotated: the features as they are, and after a random rotation.
        axes: "free" if the rotation lost nothing, "sparse" if it lost sparsity, "peaked" if it lost something else.
        conversion: None where the features are non-negative and sparse already.
        non_negativity: "already" there, "helps", "possible" (no gain was seen, and no clear loss), or "hurts".
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
    given: Reading
    rotated: Reading
    axes: Literal["free", "sparse", "peaked"]
    conversion: Conversion | None
    non_negativity: Literal["already", "helps", "possible", "hurts"]
    findings: tuple[Finding, ...] = ()
    verdict: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return dict(json.loads(json.dumps(dataclasses.asdict(self))))

    def __rich__(self) -> Group:
        styles = {"good": "green", "note": "yellow", "bad": "bold red"}
        said = Table.grid(padding=(0, 2))
        for finding in self.findings:
            said.add_row(Text(finding.level, styles[finding.level]), Text(finding.sentence))
        return Group(_table(self), "", said, "", Text(self.verdict, "bold"))

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=110, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _table(d: Diagnosis) -> Table:
    """Figures by row; what was not measured stays blank."""
    to = d.conversion
    sides = {"as given": d.given, "rotated": d.rotated} | ({"non-negative": to.reading} if to else {})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(Text(d.name))
    for heading in sides:
        table.add_column(heading, justify="right")

    def add(label: str, given: str, converted: str = "") -> None:
        table.add_row(label, given, "", *([converted] if to else []))

    def read(label: str, figure: str, form: str = "{:.1%}", scale: float = 1.0) -> None:
        values = [getattr(reading, figure) for reading in sides.values()]
        if values[0] is not None:
            table.add_row(label, *("" if value is None else form.format(value * scale) for value in values))

    add("rows looked at", f"{d.rows_seen:,} of {d.rows:,}", f"{to.held_out_rows:,} held out" if to else "")
    add("features", f"{d.features:,}", f"{to.features:,}" if to else "")
    add("dead", f"{d.dead:,}", f"{to.dead:,}" if to else "")
    add("dense", f"{d.dense:,}")
    add("negative entries", f"{d.negative:.1%}", "0.0%" if to else "")
    read("sparsity", "sparsity")
    add("effective rank", f"{d.effective_rank:,.1f} of {d.rank_limit:,}")
    add("correlation", f"{d.correlation:.3f}")
    read("kurtosis", "kurtosis", "{:.1f}")
    read("class consistency", "consistency")
    read("  by chance", "floor")
    read("  points over chance", "excess", "{:z.1f}", 100)
    read("  … on strongest rows", "strongest_excess", "{:z.1f}", 100)
    if to:
        add("neighbours kept", "", f"{to.neighbours_kept:.1%}")
    if to and to.probe_before is not None:
        add("linear probe", f"{to.probe_before:.1%}", f"{to.probe_after:.1%}")
    return table
