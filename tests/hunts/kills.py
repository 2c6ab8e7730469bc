"""Kills: work that ends at random moments, and what it leaves behind.

A kill falls at a random moment of the work, before a random change on disk, or in the middle of writing a file. After
each kill, the state is examined; then the work is killed again, or repeated to its end, and the result must equal that
of undisturbed work, file by file.
"""

import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.hunts.children import answered, ended, import_modules_of, start, timed

MOST_KILLS = 3  # in a row, before the work may end
MOMENT, CHANGE, WITHIN = "at a random moment", "before a change on disk", "while writing a file"
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Victim(Protocol):
    """Work that is killed."""

    name: str

    def prepare(self, place: Path, trial: int) -> None:
        """Create what is in the empty folder `place` before the work."""

    def work(self, place: Path) -> None:
        """Do the work, or continue what a kill has interrupted."""

    def examine(self, place: Path) -> str:
        """Return a word for the state after a kill; a state that must not be raises an exception."""

    def result(self, place: Path) -> Any:
        """Return what must be the same as without kills."""


@dataclass
class Count:
    """What a hunt has found: how the victims died, the states after that, and the defects."""

    name: str
    runs: int = 0  # whose results were compared
    kills: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    leftovers: int = 0
    defects: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Undisturbed:
    """The result of work that nobody kills, its seconds, its changes on disk and the bytes of its largest file."""

    result: Any
    seconds: float
    changes: int
    size: int


def hunt(victim: Victim, kills: int, seed: int, root: Path) -> Count:
    """Kill a victim so many times."""
    rng, count, answer = random.Random(f"{victim.name} {seed}"), Count(victim.name), root / "answer"
    place = root / victim.name
    usual = _undisturbed(victim, place, answer)
    while count.kills.total() < kills:
        _renew(victim, place, count.runs)
        count.runs += 1
        for _ in range(min(rng.randint(1, MOST_KILLS), kills - count.kills.total())):
            way = rng.choice([MOMENT, MOMENT, CHANGE, WITHIN])
            if not _is_killed(victim, place, way, rng, usual, answer):
                break
            count.kills[way] += 1
            try:
                count.states[answered(lambda: victim.examine(place), answer)] += 1
            except RuntimeError as error:
                count.defects.append(f"{victim.name}, trial {count.runs}, {way}: {error}")
        try:
            answered(lambda: victim.work(place), answer)
            found = answered(lambda: victim.result(place), answer)
        except RuntimeError as error:
            count.defects.append(f"{victim.name}, trial {count.runs}, the work after the kills: {error}")
            continue
        count.leftovers += len(list(place.rglob(".nonneg-tmp-*")))
        if different := [name for name in {**found, **usual.result} if found.get(name) != usual.result.get(name)]:
            count.defects.append(f"{victim.name}, trial {count.runs}: another result in {', '.join(different)}")
    shutil.rmtree(place)
    return count


def hunt_each_change(victim: Victim, root: Path) -> Count:
    """Kill a victim before each of its changes on disk: the old content must stay until the new is complete."""
    count, answer, place = Count(victim.name), root / "answer", root / victim.name
    for trial in (0, 1):
        _renew(victim, place, trial)
        old = answered(lambda: victim.examine(place), answer)
        changes = answered(lambda: _counted(victim, place), answer)
        wanted = answered(lambda: victim.result(place), answer)
        for change in range(1, changes + 1):
            _renew(victim, place, trial)
            code = ended(start(lambda change=change: _counted(victim, place, change), answer))
            state = answered(lambda: victim.examine(place), answer)
            answered(lambda: victim.work(place), answer)
            found = answered(lambda: victim.result(place), answer)
            count.runs += 1
            count.kills[CHANGE] += code == -signal.SIGKILL
            count.states[state] += 1
            count.leftovers += len(list(place.rglob(".nonneg-tmp-*")))
            if code != -signal.SIGKILL or state not in (old, "new") or found != wanted:
                count.defects.append(
                    f"{victim.name}, trial {trial}, change {change}: {old} became {state}, code {code}"
                )
    return count


def _renew(victim: Victim, place: Path, trial: int) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    victim.prepare(place, trial)


def _undisturbed(victim: Victim, place: Path, answer: Path) -> Undisturbed:
    _renew(victim, place, 1)
    import_modules_of(lambda: victim.work(place), answer)
    _renew(victim, place, 1)
    seconds, changes = timed(lambda: _counted(victim, place), answer)
    result = answered(lambda: victim.result(place), answer)
    size = max(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return Undisturbed(result, seconds, changes, size)


def _counted(victim: Victim, place: Path, die_at: int = 0) -> int:
    """Do the work and return its number of changes on disk; die before one of them."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        changes = event in _CHANGES or (event == "open" and bool(arguments[2] & _WRITES))
        if changes and str(place) in str(arguments[0]):
            step()

    sync: Callable[[Any], None] = os.fsync

    def fsync(descriptor: Any) -> None:
        step()
        sync(descriptor)

    sys.addaudithook(audit)
    os.fsync = fsync
    victim.work(place)
    return count


def _cut_short(victim: Victim, place: Path, size: int) -> None:
    """Do the work and die when a file grows beyond `size` bytes, which are written."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    victim.work(place)


def _is_killed(victim: Victim, place: Path, way: str, rng: random.Random, usual: Undisturbed, answer: Path) -> bool:
    """Start the work and kill it; return False if it ended before."""
    answer.unlink(missing_ok=True)
    if way == CHANGE:
        last = rng.randint(1, usual.changes)
        pid = start(lambda: _counted(victim, place, last), answer)
    elif way == WITHIN:
        most = int(usual.size ** rng.uniform(0.3, 1))  # small files are hit as often as large ones
        pid = start(lambda: _cut_short(victim, place, most), answer)
    else:
        pid = start(lambda: victim.work(place), answer)
        time.sleep(rng.uniform(0, usual.seconds))
        os.kill(pid, signal.SIGKILL)
    code = ended(pid)
    if code > 0 or code == -signal.SIGALRM:
        raise RuntimeError(f"{victim.name} ended with {code}: {answer.read_text() if answer.exists() else ''}")
    return code < 0
