"""Flips: one damaged byte in a file that nonneg wrote, and what becomes of it.

Each flip happens in a copy, and the copy is used in a child, so that a crash counts as well. There are three good
outcomes: an error or a warning that names the damage, a result that is the same to the last bit, and a different
result of a folder that `nonneg verify` reports as damaged. Any other outcome is a defect.
"""

import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nonneg.errors import InputError
from tests.hunts.children import answered

DETECTED, BY_VERIFY, HARMLESS, SILENT, FAILED = "detected", "detected by verify", "harmless", "silent", "failed"


@dataclass(frozen=True)
class Subject:
    """Something that nonneg writes.

    Attributes:
        name: what it is.
        make: writes it to an empty folder.
        use: reads it back and returns everything that comes of it, in a form that can be compared.
        verify: reads it as `nonneg verify` does; raises `InputError` for damage.
        files: the files to damage, as a pattern.
        is_quick: whether it can be made and used in a fraction of a second.
    """

    name: str
    make: Callable[[Path], Any]
    use: Callable[[Path], Any]
    verify: Callable[[Path], Any]
    files: str = "**/*"
    is_quick: bool = True


@dataclass
class Count:
    """The outcomes by kind of file, and the defects."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)

    def total(self) -> Counter[str]:
        """Return the outcomes over all kinds of files."""
        return sum(self.outcomes.values(), Counter())


def hunt(subjects: Sequence[Subject], flips: int, seed: int, root: Path) -> Count:
    """Damage the subjects' files in turn, so many times in all."""
    rng, count, answer = random.Random(f"flips {seed}"), Count(), root / "answer"
    targets = []
    for subject in subjects:
        good, place = _places(root, subject)
        place.mkdir(parents=True)
        answered(lambda subject=subject, place=place: subject.make(place), answer)
        shutil.copytree(place, good)
        wanted = answered(lambda subject=subject, place=place: subject.use(place), answer)
        files = [path for path in sorted(good.glob(subject.files)) if path.is_file() and path.stat().st_size]
        targets += [(subject, path.relative_to(good), wanted) for path in files if not path.name.startswith(".")]
    rng.shuffle(targets)
    for number in range(flips):
        subject, file, wanted = targets[number % len(targets)]
        _, place = _places(root, subject)
        where = _damage(subject, file, rng, root)
        try:
            outcome = answered(
                lambda subject=subject, place=place, wanted=wanted: _outcome(subject, place, wanted), answer
            )
        except RuntimeError as error:
            outcome, where = FAILED, f"{where}: {error}"
        kind = f"{subject.name}: {_kind(file)}"
        count.outcomes.setdefault(kind, Counter())[outcome] += 1
        if outcome in (SILENT, FAILED):
            count.defects.append(f"{subject.name}, {where}: {outcome}")
    return count


def _places(root: Path, subject: Subject) -> tuple[Path, Path]:
    """Return where the good copy lies, and where it was made and is used."""
    return root / "good" / subject.name, root / "used" / subject.name


def _damage(subject: Subject, file: Path, rng: random.Random, root: Path) -> str:
    """Renew the folder and change one byte of the file; return what was changed."""
    good, place = _places(root, subject)
    shutil.rmtree(place)
    shutil.copytree(good, place)
    content = bytearray((place / file).read_bytes())
    position = rng.randrange(len(content))
    before = content[position]
    # Another character is the harder case: text that remains text.
    one_bit, any_byte, another = 1 << rng.randrange(8), rng.randrange(1, 256), before ^ ord(rng.choice("0123456789ae"))
    content[position] ^= rng.choice([one_bit, any_byte, another]) or one_bit
    (place / file).write_bytes(content)
    return f"{file}, byte {position} of {len(content)}: {before:#04x} to {content[position]:#04x}"


def _outcome(subject: Subject, place: Path, wanted: Any) -> str:
    """Use the damaged folder and return the outcome; exceptions other than `InputError` are not caught."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            is_same = subject.use(place) == wanted
        except InputError as error:
            return DETECTED if "\n" not in str(error) else FAILED
    if any(re.search("damaged", str(warning.message)) for warning in caught):
        return DETECTED
    if is_same:
        return HARMLESS
    try:
        subject.verify(place)
    except InputError:
        return BY_VERIFY
    return SILENT


def _kind(file: Path) -> str:
    """A file's name without hashes and numbers."""
    return re.sub(r"-[0-9a-f]{16}(?=\.)|-\d{9}(?=\.)|(?<=/)[0-9a-f]{16}(?=/)|-[0-9a-f]{12}(?=/)", "-*", str(file))
