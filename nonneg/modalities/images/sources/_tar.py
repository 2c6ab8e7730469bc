"""A tar of image files, read as a stream: nothing is extracted, and no link or path inside is followed."""

import itertools
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Literal, Self

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities._splits import SPLITS, choose_split, classes, has_splits, require_train, unique_ids
from nonneg.modalities.images.sources._collection import (
    MOST_BYTES,
    BrokenImageError,
    Listing,
    check_no_split_among_classes,
    looks_like_image,
    short_name,
    too_long,
)

_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_Mode = Literal["r:gz", "r:bz2", "r:xz", "r:*"]
_PACKED: dict[bytes, _Mode] = {b"\x1f\x8b": "r:gz", b"BZh": "r:bz2", b"\xfd7zXZ": "r:xz"}
_MAGIC, _MAGIC_AT = b"ustar", 257
# Members that only describe the next one: a long name, times, holes.
_DESCRIPTIONS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
_LONGEST_DESCRIPTION = 1 << 20


class Tar:
    """The image files of a tar in order; of a file stored twice, the last version counts."""

    def __init__(self, path: Path, split: str) -> None:
        self._path, self._split = path, split
        self._members: list[int] = []
        self.title = f"{short_name(path)}/{split}"
        self.place = f"tar {os.path.realpath(path)} {split}"

    def fingerprint(self) -> str:
        with read_errors_as_input_errors(self._path):
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
        part, below, elsewhere = _choose_images(paths, self._split, str(self._path))
        chosen = [path for path in paths if path in below]
        if not chosen:
            raise InputError(f"{self._path} holds no image in its split {part}, expected image files")
        self._members = [last[path] for path in chosen]
        labels, names = classes([below[path] for path in chosen], elsewhere, str(self._path))
        name = f"{short_name(self._path)}/{part or self._split}"
        return Listing(name, unique_ids(str(path) for path in chosen), labels, names)

    def first(self, count: int) -> Iterator[bytes | BrokenImageError]:
        """Yield up to so many images from the start of the tar, of any split, without listing it."""
        contents = (content for path, content in members(self._path) if looks_like_image(path.name))
        for content in itertools.islice(contents, count):
            yield content() if content.bytes <= MOST_BYTES else too_long(content.bytes)

    def read(self, start: int) -> Iterator[bytes | BrokenImageError]:
        wanted = iter(self._members[start:])
        following = next(wanted, None)
        for number, (_, content) in enumerate(members(self._path)):
            if number == following:
                yield content() if content.bytes <= MOST_BYTES else too_long(content.bytes)
                following = next(wanted, None)
                if following is None:
                    return


class _Content:
    """Reads one member, only while the stream is at its position; `bytes` is its size, which may be huge."""

    def __init__(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._tar, self._member = tar, member
        self.bytes = member.size

    def __call__(self) -> bytes:
        file = self._tar.extractfile(self._member)
        return b"" if file is None else file.read(self.bytes)


class _Header(tarfile.TarInfo):
    """A member's header that raises an error if damaged; `tarfile` would treat it as the end of the file."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if len(buf) == tarfile.BLOCKSIZE and not any(buf):
            return super().frombuf(buf, encoding, errors)  # signals the end
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            # A file that ends between two members is an error too, although GNU tar accepts it: a truncated download
            # looks the same, and training data must not get lost unnoticed.
            raise tarfile.ReadError("it ends too early" if not buf else str(error)) from error
        if header.type in _DESCRIPTIONS and header.size > _LONGEST_DESCRIPTION:  # it would be read into memory
            raise tarfile.ReadError(f"a member's description is {header.size:,} bytes long")
        _check_length(header)
        return header


def _check_length(member: tarfile.TarInfo) -> None:
    if member.size < 0:  # the next member would come before this one, in an endless loop
        raise tarfile.ReadError(f"a member is {member.size:,} bytes long")


def is_tar(path: Path) -> bool:
    """Whether a file is a tar, compressed in any readable way, possibly damaged."""
    start = _start(path)
    if start.startswith((_ZSTANDARD, *_PACKED)) or start[_MAGIC_AT:].startswith(_MAGIC):
        return True
    try:
        return tarfile.is_tarfile(path)  # an old tar without a magic number, or a rare compression
    except (OSError, EOFError):
        return False


def _start(path: Path) -> bytes:
    with read_errors_as_input_errors(path), path.open("rb") as file:
        return file.read(_MAGIC_AT + len(_MAGIC))


def members(path: Path) -> Iterator[tuple[PurePosixPath, _Content]]:
    """Yield the regular files of a tar in order, with their paths (without leading `/` or `./`).

    Raises:
        InputError: it is not a tar, a header is damaged, it is truncated, or something follows its end.
    """
    with _tar_errors_as_input_errors(path), _opened(path) as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # otherwise it keeps every member, a kilobyte each
            _check_length(member)  # again: a description may have changed it
            if member.isreg():
                if not member.name:  # a long name was erased: it would not look like an image
                    raise tarfile.ReadError("a member has no name")
                yield PurePosixPath(member.name.lstrip("/")), _Content(tar, member)
        _check_end(tar)


def _check_end(tar: tarfile.TarFile) -> None:
    """Check that only zeros follow the end: an erased header, or two joined tars, would look like the end."""
    assert tar.fileobj is not None
    while rest := tar.fileobj.read(1 << 16):
        if any(rest):
            raise tarfile.ReadError("data follows its end")


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    start = _start(path)
    if start.startswith(_ZSTANDARD):
        import pyarrow as pa

        with (
            pa.input_stream(str(path), compression="zstd") as stream,
            tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as tar,
        ):
            yield tar
    else:
        mode: _Mode = next((mode for magic, mode in _PACKED.items() if start.startswith(magic)), "r:*")
        with tarfile.open(path, mode, tarinfo=_Header) as tar:
            yield tar


@contextmanager
def _tar_errors_as_input_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # damaged files make tarfile and the decompressors raise nearly anything
        raise InputError(f"{path} is damaged or not a tar: {one_line(error).lower()}") from error


def _choose_images(
    paths: list[PurePosixPath], split: str, where: str
) -> tuple[str, dict[PurePosixPath, PurePosixPath], set[str]]:
    """Return the split's folder ("" for none), its images with paths below it, and the classes of other splits."""
    below = {path: path for path in paths}
    tops = {path.parts[0] for path in paths}
    if len(tops) == 1 and not has_splits(tops) and all(len(path.parts) > 1 for path in paths):
        below = {path: PurePosixPath(*path.parts[1:]) for path in paths}  # one folder holds everything
    folders = {short.parts[0] for short in below.values() if len(short.parts) > 1}
    if not has_splits(folders):
        check_no_split_among_classes(folders, (s.parts[0] for s in below.values() if len(s.parts) > 2), where)
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
