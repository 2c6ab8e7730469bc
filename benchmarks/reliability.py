"""Kills, damaged files and bad input, counted.

python -m benchmarks.reliability [--kills-train 200] [--flips 300] [--seed 0] [--page docs/results/reliability.md]

The exit code is 1 if there is a defect. With 0, a hunt is left out.
"""

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks.hardware import described
from tests.hunts import bad_input, flips, kills, more_victims, victims
from tests.hunts.children import answered, import_modules_of
from tests.hunts.subjects import subjects

PAGE_LOAD = "<!-- page load -->"
KILLS = {
    "train": 200,
    "train pairs": 20,
    "train graph": 20,
    "convert": 50,
    "bulk.convert_shards": 30,
    "index": 50,
    "Index.add": 20,
    "Index.delete": 20,
    "Features.save": 50,
    "export": 20,
}
OUTCOMES = {
    flips.DETECTED: "detected when read",
    flips.BY_VERIFY: "reported by `nonneg verify`",
    flips.HARMLESS: "the same result",
}

NOTES = [
    "- **Kills**: `SIGKILL` at a moment drawn uniformly from the duration of an undisturbed run; or before a"
    " change on disk, drawn from all that the run makes (open for writing, flush, rename, remove, new folder); or"
    " a limit on the size of files, which ends the process while it writes. One to three kills follow each other"
    " before the same work runs to its end. `train` trains on images, `train pairs` on pictures with texts, `train"
    " graph` on the nodes of a graph. For `train` and `convert`, weights, config, checkpoints, features and"
    " the figures of the log are then compared bit by bit; for the others, all files. After each kill, the folder"
    " of an index or of features must hold the old content, the new content, or nothing yet, and `nonneg verify`"
    " must agree. The duration is measured once; if the load of the machine then rises, moments fall into the"
    " earlier part of a run, and late stages are reached mostly by kills before a change on disk.",
    "- **States after a kill**: *old* and *new* content; *nothing* yet; an *unfinished* or a *finished* run; an"
    " *incomplete* copy of the page, which has no `index.html` and which the next `nonneg export` replaces.",
    "- **Damaged bytes**: one bit or byte of one file is changed, and the file is read and used again, in a"
    " process of its own. *Detected when read*: an error of one sentence or a warning names the damage. *Reported"
    " by `nonneg verify`*: the result differs, and `nonneg verify` names the file. *The same result*: to the last"
    " bit; cached images are decoded again, and a fit starts over. Any other outcome is a defect. Of a log, the"
    " figures are compared: if the damaged byte lies in the name of a line's checksum, the line is read without"
    " one. Not covered: files for other programs, which have no checksum (tables, reports, exported pages,"
    " `.kept.npy`), the pixels of image caches of more than 1 GiB, and what Milvus stores.",
    "- **Bad input**: every command, with files that are missing, empty, damaged, or of the wrong kind or shape;"
    " pipes, devices, links to themselves, pickles, NaN, numbers out of range, and text that is not Unicode. Each"
    " sentence must contain words given in the table of cases: a file or an argument for most, only a value or a"
    " reason for some.",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, count in KILLS.items():
        parser.add_argument(f"--kills-{_option(name)}", type=int, default=count, metavar="COUNT")
    parser.add_argument("--each-change", action="store_true", help="kill once before each change on disk instead")
    parser.add_argument("--flips", type=int, default=300)
    parser.add_argument(
        "--quick", action="store_true", help="damage only what is made and used in a fraction of a second"
    )
    parser.add_argument("--cases", type=int, default=len(bad_input.CASES), help="of bad input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="also write the result to this Markdown file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # before anything is computed: children are forked
    began, machine = time.perf_counter(), described()
    with tempfile.TemporaryDirectory() as scratch:
        killed = [_killed(name, arguments, Path(scratch)) for name in KILLS]
        flipped = _flipped(arguments, Path(scratch))
        rejected = _rejected(arguments.cases, Path(scratch))
    rows = [*(row for count in killed if (row := _kill_row(count))), *_flip_row(flipped), *_case_row(rejected)]
    table = ["| hunt | count | outcome |", "|---|---:|---|", *rows]
    defects = [defect for each in (*killed, flipped, rejected) if each for defect in each.defects]
    print("\n".join([*table, "", *_flip_table(flipped), "", *defects]))
    if arguments.page:
        kept = arguments.page.read_text().splitlines() if arguments.page.exists() else []
        load = [line for line in kept if PAGE_LOAD in line or "60 clients" in line] or [PAGE_LOAD]
        arguments.page.write_text("\n".join(_page([*table, *load], flipped, defects, machine, began)) + "\n")
    sys.exit(1 if defects else 0)


def _option(name: str) -> str:
    return name.lower().rpartition(".")[2].replace(" ", "-").replace("_", "-")


def _killed(name: str, arguments: argparse.Namespace, root: Path) -> kills.Count | None:
    count = getattr(arguments, f"kills_{_option(name).replace('-', '_')}")
    if not count:
        return None
    makers: dict[str, Callable[[], kills.Victim]] = {
        "train": victims.Training,
        "train pairs": lambda: more_victims.TrainingPairs(root),
        "train graph": lambda: more_victims.TrainingGraph(root),
        "bulk.convert_shards": lambda: more_victims.Sharding(root),
        "convert": lambda: victims.Conversion(root),
        "index": lambda: victims.Indexing(root),
        "Index.add": lambda: victims.Changing(root, name),
        "Index.delete": lambda: victims.Changing(root, name),
        "Features.save": victims.Saving,
        "export": lambda: victims.Exporting(root),
    }
    if arguments.each_change:
        return _told(kills.hunt_each_change(makers[name](), root))
    return _told(kills.hunt(makers[name](), count, arguments.seed, root))


def _told(count: kills.Count) -> kills.Count:
    print(_kill_row(count), file=sys.stderr, flush=True)
    return count


def _flipped(arguments: argparse.Namespace, root: Path) -> flips.Count | None:
    chosen = [subject for subject in subjects() if subject.is_quick or not arguments.quick]
    return flips.hunt(chosen, arguments.flips, arguments.seed, root) if arguments.flips else None


class Rejections:
    """How many cases of bad input there were, how many of them wrong command lines, and the defects."""

    def __init__(self, cases: int) -> None:
        self.cases = bad_input.CASES[:cases]
        self.defects: list[str] = []


def _rejected(cases: int, root: Path) -> Rejections | None:
    if not cases:
        return None
    found, answer, folder = Rejections(cases), root / "answer", root / "bad-input"
    folder.mkdir()
    os.environ["NONNEG_CACHE"] = str(root / "cache")
    answered(lambda: bad_input.prepare(folder), answer)
    before, here = bad_input.state(folder), Path.cwd()
    os.chdir(folder)
    import_modules_of(lambda: [bad_input.run(case.arguments) for case in found.cases], answer)
    for case in found.cases:
        try:
            code, printed = answered(lambda case=case: bad_input.run(case.arguments), answer)
            defect = bad_input.defect(case, code, printed)
        except RuntimeError as error:
            defect = str(error)
        if bad_input.state(folder) != before:
            defect, before = f"{defect}; it changed files", bad_input.state(folder)
        if defect:
            found.defects.append(f"nonneg {shlex.join(case.arguments)!r}: {defect}")
    os.chdir(here)
    return found


def _counted(counts: Counter[str], names: dict[str, str]) -> str:
    return ", ".join(f"{counts[key]:,} {name}" for key, name in names.items() if counts[key])


def _defects(defects: list[str]) -> str:
    return f"**{len(defects):,} defects**" if defects else "no defect"


def _kill_row(count: kills.Count | None) -> str:
    if count is None:
        return ""
    states = ", ".join(f"{number:,} {state}" for state, number in sorted(count.states.items()))
    outcome = (
        f"{_defects(count.defects)} in {count.runs:,} runs, killed up to three times and then repeated to the end: "
    )
    outcome += "the results differ or cannot be read" if count.defects else "all results equal those without kills"
    outcome += f", {count.leftovers:,} temporary files left; states after the kills: {states}"
    name = count.name if "." in count.name else f"nonneg {count.name}"  # a function or a command
    ways = ", ".join(f"{number:,} {way}" for way, number in sorted(count.kills.items()))
    return f"| kills of `{name}` | {count.kills.total():,} ({ways}) | {outcome} |"


def _flip_row(count: flips.Count | None) -> list[str]:
    if count is None:
        return []
    total = count.total()
    return [
        f"| one damaged byte in a file | {total.total():,} | {_defects(count.defects)}: {_counted(total, OUTCOMES)} |"
    ]


def _case_row(found: Rejections | None) -> list[str]:
    if found is None:
        return []
    usage = sum(case.is_usage for case in found.cases)
    outcome = (
        f"{_defects(found.defects)}: exit code 2, no traceback, nothing written; {len(found.cases) - usage:,} in one"
    )
    outcome += f" sentence with the expected words, {usage:,} wrong options explained by the parser"
    return [f"| bad input | {len(found.cases):,} | {outcome} |"]


def _flip_table(count: flips.Count | None) -> list[str]:
    if count is None:
        return []
    header = ["file", "flips", *OUTCOMES.values()]
    lines = [f"| {' | '.join(header)} |", f"|---|{'---:|' * (len(header) - 1)}"]
    for kind, outcomes in sorted(count.outcomes.items()):
        figures = " | ".join(str(outcomes[key] or "") for key in OUTCOMES)
        lines.append(f"| {kind.replace('*', '…')} | {outcomes.total()} | {figures} |")
    return lines


def _page(table: list[str], flipped: flips.Count | None, defects: list[str], machine: str, began: float) -> list[str]:
    minutes = (time.perf_counter() - began) / 60
    return [
        "# Kills, damaged files and bad input",
        "",
        "Processes were killed, bytes of files were changed, and commands got bad input, hundreds of times."
        f" {len(defects) or 'No'} defect{'s were' if len(defects) > 1 else ' was'} found: nothing may be half-written,"
        " every change of a byte must be detected or have no effect, and bad input must end in an error message. Each"
        " line of the table is counted by a program.",
        "",
        *table,
        "",
        *NOTES,
        f"- **Command**: `python -m benchmarks.reliability {shlex.join(sys.argv[1:])}`,"
        f" {datetime.now(UTC):%Y-%m-%d}, {minutes:.0f} minutes",
        f"- **Hardware**: {machine}",
        "",
        *([] if not defects else ["## Defects", "", *(f"- {defect.splitlines()[-1]}" for defect in defects), ""]),
        "## Damaged bytes by file",
        "",
        *_flip_table(flipped),
    ]


if __name__ == "__main__":
    main()
