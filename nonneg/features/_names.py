"""Names that people give to features: an append-only journal beside the codes."""

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from nonneg.durable import said_plainly
from nonneg.errors import InputError

FILE = "names.jsonl"


@dataclass(frozen=True)
class Naming:
    """One line of the journal: who called which feature what, and when. An empty name takes it back."""

    codes: str
    feature: int
    name: str
    author: str
    time: str


class NameJournal:
    """The names in a `Features` folder, for the codes that are in it now.

    Lines written for other codes (the folder was overwritten since) stay in the file and do not
    apply. Appends are locked and flushed; a line torn by a crash is dropped.
    """

    def __init__(self, folder: Path, codes: str) -> None:
        self.path = folder / FILE
        self.codes = codes

    def history(self) -> list[Naming]:
        """Every naming of these codes, oldest first."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]  # what follows the last newline is torn
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {(error.strerror or str(error)).lower()}") from error
        namings = []
        for number, line in enumerate(lines, 1):
            try:
                naming = Naming(**json.loads(line))
                fits = isinstance(naming.feature, int) and isinstance(naming.name, str)
            except (ValueError, TypeError):
                fits = False
            if not fits:
                raise InputError(f"{self.path} is damaged: line {number} is not a feature's name") from None
            namings.append(naming)
        return [naming for naming in namings if naming.codes == self.codes]

    def current(self) -> dict[int, str]:
        """Feature to name, the latest naming of each."""
        names = {naming.feature: naming.name for naming in self.history()}
        return {feature: name for feature, name in sorted(names.items()) if name}

    def record(self, names: dict[int, str], author: str = "") -> None:
        """Append these namings."""
        if not names:
            return
        time = datetime.now(UTC).isoformat(timespec="seconds")
        namings = (Naming(self.codes, int(feature), name, author, time) for feature, name in names.items())
        text = "".join(json.dumps(asdict(naming), ensure_ascii=False) + "\n" for naming in namings)
        with said_plainly(self.path), self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)  # a torn line of an earlier crash
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
