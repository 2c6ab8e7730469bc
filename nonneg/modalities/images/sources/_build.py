"""Decoding a collection into one array on disk: in parallel, in order, and continued where a kill stopped it."""

import json
import math
import os
import shutil
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from nonneg.cache import ANOTHER_PLACE, writing
from nonneg.durable import flush, write_atomically
from nonneg.errors import InputError
from nonneg.modalities.images.sources._collection import Collection, ListedFile, Listing
from nonneg.modalities.images.sources._decode import MOST_BYTES, BrokenImageError, Pixels, decode, formats
from nonneg.modalities.images.sources._progress import progress_bar
from nonneg.processes import cores

IMAGES = "images.npy"
PROGRESS = "progress.json"
_HEADER_BYTES = 128
_SECONDS_BETWEEN_SAVES = 1.0
_SAMPLES_AT_ONCE = 64
_SECONDS_WORTH_A_THREAD = 150e-6
_BYTES_AT_ONCE = 4 << 20
_BYTES_UNDER_WAY = 256 << 20

# Kept as results, in their order, so that whoever takes them can name the sample.
_Decoded = Pixels | BrokenImageError | MemoryError


@dataclass
class Work:
    """How far decoding has come. Images are written in the order of samples, so two counts say it all.

    Attributes:
        samples: how many are done, broken ones included.
        rows: how many images are written.
        shape: `(height, width, 3)` of each; empty before the first.
        first: the sample that gave the shape.
        broken: sample number and reason of each broken image.
    """

    samples: int = 0
    rows: int = 0
    shape: tuple[int, ...] = ()
    first: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)

    def image_bytes(self) -> int:
        """Of one image; 0 before the first."""
        return math.prod(self.shape) if self.shape else 0


def build(collection: Collection, listing: Listing, folder: Path, image_size: int, show_progress: bool) -> Work:
    """Write `images.npy` into the folder, `(rows, height, width, 3)` uint8, going on from earlier work there.

    Raises:
        InputError: sizes differ and `image_size` is 0, the data changes or cannot be read, memory runs out, or the
            cache cannot be written.
    """
    formats()  # loads Pillow's plugins before there are threads
    total = len(listing.ids)
    work = _earlier_work(folder)
    saved = time.monotonic()
    with (
        _images_file(folder, work) as file,
        _quiet_pillow(),
        progress_bar(collection.title, work.samples, total, show_progress) as show,
        closing(_in_parallel(collection.read(work.samples), work, image_size)) as decoded,
    ):
        for results in decoded:
            rows = _accepted(results, work, listing, folder)
            with writing(folder):
                file.writelines(row.data for row in rows)
                if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
                    _save(file, work, folder)
                    saved = time.monotonic()
            show(work.samples)
        if work.samples != total:
            shutil.rmtree(folder, ignore_errors=True)  # of other data than was listed
            raise InputError(f"{collection.title} changed while it was read: {work.samples} samples, expected {total}")
        with writing(folder):
            file.seek(0)
            file.write(_header(work))
            _save(file, work, folder)
    return work


@contextmanager
def _images_file(folder: Path, work: Work) -> Iterator[IO[bytes]]:
    with writing(folder):
        file = (folder / IMAGES).open("r+b" if work.samples else "wb")
        # What came after the last save is done again.
        file.truncate(_HEADER_BYTES + work.rows * work.image_bytes())
        file.seek(0, os.SEEK_END)
    try:
        yield file
    finally:
        with writing(folder):  # closing writes what is left
            file.close()


def _accepted(results: list[_Decoded], work: Work, listing: Listing, folder: Path) -> list[Pixels]:
    """The images to write; counts them and the broken ones."""
    rows = []
    for result in results:
        if isinstance(result, MemoryError):  # not broken: with more memory it may well be decoded
            raise InputError(
                f"memory ran out while decoding {listing.ids[work.samples]}, expected enough for it; free some, or "
                "remove that image"
            ) from result
        if isinstance(result, BrokenImageError):
            work.broken.append((work.samples, str(result)))
        else:
            if not work.shape:
                work.shape, work.first = result.shape, work.samples
                _require_space(folder, (len(listing.ids) - work.samples) * work.image_bytes())
            if result.shape != work.shape:
                shutil.rmtree(folder, ignore_errors=True)  # of no use at any later time
                one, other = (f"{shape[1]} x {shape[0]}" for shape in (work.shape, result.shape))
                raise InputError(
                    f"image sizes differ: {listing.ids[work.first]} is {one} and {listing.ids[work.samples]} is "
                    f"{other}; choose one size, for instance --image-size 224"
                )
            rows.append(result)
        work.samples += 1
    work.rows += len(rows)
    return rows


def _in_parallel(encoded: Iterable[Any], work: Work, image_size: int) -> Generator[list[_Decoded]]:
    """Decoded images in order, a few at a time; what is under way fits in little memory however many cores there are.

    Threads, not processes, which would run the caller's script again: Pillow decodes outside Python's lock, and
    16 of them decode 2,000 photographs a second where processes decode 2,600. Tiny images spend their time inside
    the lock, where 16 threads do 5,400 a second and one does 12,700; so one image's time decides on the number.
    """
    chunks = _chunks(encoded, work)
    workers = 1
    for chunk, _ in chunks:
        timed, begun = bool(work.shape), time.perf_counter()
        results = _decode_all(chunk, image_size)
        seconds = (time.perf_counter() - begun) / len(chunk)
        yield results
        if timed:  # not the very first, which also pays for loading
            workers = min(cores(), max(1, round(seconds / _SECONDS_WORTH_A_THREAD)))
            break
    under_way: deque[tuple[Future[list[_Decoded]], int]] = deque()
    held = 0
    pool = ThreadPoolExecutor(workers, "decode")
    try:
        for chunk, size in chunks:
            while under_way and (len(under_way) >= 2 * workers or held + size > _BYTES_UNDER_WAY):
                decoded, done = under_way.popleft()
                held -= done
                yield decoded.result()
            under_way.append((pool.submit(_decode_all, chunk, image_size), size))
            held += size
        while under_way:
            yield under_way.popleft()[0].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _chunks(encoded: Iterable[Any], work: Work) -> Iterator[tuple[list[Any], int]]:
    """Single samples until the size of an image is known, then as many as are small together; with their bytes."""
    chunk: list[Any] = []
    held = 0
    for item in encoded:
        chunk.append(item)
        held += max(work.image_bytes(), _length(item))
        if not work.shape or len(chunk) == _SAMPLES_AT_ONCE or held >= _BYTES_AT_ONCE:
            yield chunk, held
            chunk, held = [], 0
    if chunk:
        yield chunk, held


def _length(item: Any) -> int:
    """Bytes that an encoded image takes while it is decoded; a file longer than the limit is not read."""
    if isinstance(item, ListedFile):
        return item.bytes if item.bytes <= MOST_BYTES else 0
    return len(item) if isinstance(item, bytes) else 0


def _decode_all(chunk: list[Any], image_size: int) -> list[_Decoded]:
    results: list[_Decoded] = []
    for encoded in chunk:
        try:
            results.append(decode(encoded, image_size))
        except (BrokenImageError, MemoryError) as failed:
            results.append(failed)
    return results


@contextmanager
def _quiet_pillow() -> Iterator[None]:
    """Pillow's warnings are about single images and of no interest here; `decode` itself refuses one too large."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _earlier_work(folder: Path) -> Work:
    """What an earlier call had saved, if it is whole."""
    try:
        found = json.loads((folder / PROGRESS).read_bytes())
        work = Work(
            found["samples"],
            found["rows"],
            tuple(found["shape"]),
            found["first"],
            [(number, reason) for number, reason in found["broken"]],
        )
        whole = (folder / IMAGES).stat().st_size >= _HEADER_BYTES + work.rows * work.image_bytes()
        consistent = work.samples == work.rows + len(work.broken)
    except (OSError, ValueError, KeyError, TypeError):
        return Work()
    return work if whole and consistent else Work()


def _save(file: IO[bytes], work: Work, folder: Path) -> None:
    flush(file)  # first the images, then the word that they are there
    write_atomically(folder / PROGRESS, json.dumps(asdict(work)).encode())


def _header(work: Work) -> bytes:
    """NumPy's own, always of one length: the number of rows is known only at the end."""
    content = repr({"descr": "|u1", "fortran_order": False, "shape": (work.rows, *work.shape)})
    length = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + content.ljust(length - 1).encode() + b"\n"


def _require_space(folder: Path, needed: int) -> None:
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the image cache {folder} has {free / 1e9:.1f} GB free, expected {needed / 1e9:.1f} GB for the decoded "
            f"images; {ANOTHER_PLACE}"
        )
