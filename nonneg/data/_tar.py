"""A tar of image files, read as a stream: nothing is extracted, and no link or path in it is followed."""

import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nonneg.data._collection import (
    SPLITS,
    Listing,
    choose_split,
    classes,
    has_splits,
    looks_like_image,
    one_line,
    require_train,
    short_name,
    unique_ids,
)
from nonneg.durable import read_plainly
from nonneg.errors import InputError

_ZSTANDARD = b"\x28\xb5\x2f\xfd"


class Tar:
    """The image files of a tar, in their order in it; a file that is there twice counts as its last version."""

    def __init__(self, path: Path, split: str) -> None:
        self._path, self._split = path, split
        self._members: list[int] = []
        self.title = f"{short_name(path)}/{split}"
        self.place = f"tar {os.path.realpath(path)} {split}"

    def fingerprint(self) -> str:
        with read_plainly(self._path):
            found = self._path.stat()
        return f"{found.st_size} {found.st_mtime_ns}"

    def listing(self) -> Listing:
        last = {
            path: number
            for number, (path, _) in enumerate(members(self._path))
            if looks_like_image(path.name) and not any(part.startswith(".") for part in path.parts)
        }
        if not last:
            raise InputError(f"{self._path} holds no image, expected a tar of image files")
        paths = sorted(last, key=last.__getitem__)
        part, below, elsewhere = _arranged(paths, self._split, str(self._path))
        chosen = [path for path in paths if path in below]
        if not chosen:
            raise InputError(f"{self._path} holds no image in its split {part}, expected image files")
        self._members = [last[path] for path in chosen]
        labels, names = classes([below[path] for path in chosen], elsewhere, str(self._path))
        name = f"{short_name(self._path)}/{part or self._split}"
        return Listing(name, unique_ids(str(path) for path in chosen), labels, names)

    def read(self, start: int) -> Iterator[bytes]:
        wanted = iter(self._members[start:])
        following = next(wanted, None)
        for number, (_, content) in enumerate(members(self._path)):
            if number == following:
                yield content()
                following = next(wanted, None)
                if following is None:
                    return


class _Content:
    """Reads one member; only while the stream stands at it."""

    def __init__(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._tar, self._member = tar, member

    def __call__(self, most: int = 2**30) -> bytes:
        """At most `most` bytes and one: what is longer is seen to be."""
        file = self._tar.extractfile(self._member)
        return b"" if file is None else file.read(most + 1)


def is_tar(path: Path) -> bool:
    """Whether a file is a tar, packed in any way that can be read."""
    try:
        return _is_zstandard(path) or tarfile.is_tarfile(path)
    except (OSError, EOFError):
        return False


def _is_zstandard(path: Path) -> bool:
    with read_plainly(path), path.open("rb") as file:
        return file.read(4) == _ZSTANDARD


def members(path: Path) -> Iterator[tuple[PurePosixPath, _Content]]:
    """The regular files of a tar with their paths in it (no `/` or `./` in front), as they come.

    Raises:
        InputError: it is no tar, or a damaged one.
    """
    with _plainly(path), _opened(path) as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # else every one is kept, a kilobyte each
            if member.isreg():
                yield PurePosixPath(member.name.lstrip("/")), _Content(tar, member)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    if _is_zstandard(path):
        import pyarrow as pa

        with pa.input_stream(str(path), compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            yield tar
    else:
        with tarfile.open(path) as tar:
            yield tar


@contextmanager
def _plainly(path: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, OverflowError) as error:
        raise InputError(f"{path} is damaged or not a tar: {one_line(error).lower()}") from error


def _arranged(
    paths: list[PurePosixPath], split: str, where: str
) -> tuple[str, dict[PurePosixPath, PurePosixPath], set[str]]:
    """The split's folder ("" for none), its images with their paths below it, and the classes of other splits."""
    below = {path: path for path in paths}
    tops = {path.parts[0] for path in paths}
    if len(tops) == 1 and not has_splits(tops) and all(len(path.parts) > 1 for path in paths):
        below = {path: PurePosixPath(*path.parts[1:]) for path in paths}  # one folder around everything
    folders = {short.parts[0] for short in below.values() if len(short.parts) > 1}
    if not has_splits(folders):
        require_train(split, where)
        return "", below, set()
    part = choose_split(split, folders & set(SPLITS), where)
    elsewhere = {
        short.parts[1] for short in below.values() if len(short.parts) > 2 and short.parts[0] in set(SPLITS) - {part}
    }
    inside = {
        path: PurePosixPath(*short.parts[1:])
        for path, short in below.items()
        if short.parts[0] == part and len(short.parts) > 1
    }
    return part, inside, elsewhere
