"""Decoding a collection into one array on disk: in parallel, in order, and resumed after an interruption."""

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
from nonneg.modalities.images.sources._collection import (
    MOST_BYTES,
    BrokenImageError,
    Collection,
    ListedFile,
    Listing,
    MixedSizesError,
    Pixels,
)
from nonneg.processes import cores
from nonneg.progress import progress_bar

IMAGES = "images.npy"
PROGRESS = "progress.json"
_HEADER_BYTES = 128
_SECONDS_BETWEEN_SAVES = 1.0
_SAMPLES_AT_ONCE = 64
_SECONDS_PER_THREAD = 150e-6  # decoding time per image that makes another thread worthwhile
_BYTES_AT_ONCE = 4 << 20
_BYTES_IN_PROGRESS = 256 << 20

# Errors are results too, in the order of samples, so that the message can name the sample.
_Decoded = Pixels | BrokenImageError | MemoryError


@dataclass
class Work:
    """How far decoding has come; images are written in the order of samples.

    Attributes:
        samples: number of samples done, including broken ones.
        rows: number of images written.
        shape: `(height, width, 3)` of every image; empty before the first.
        first: number of the sample that set the shape.
        broken: sample number and reason of each broken image.
    """

    samples: int = 0
    rows: int = 0
    shape: tuple[int, ...] = ()
    first: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)

    def image_bytes(self) -> int:
        """Return the size of one image in bytes; 0 before the first."""
        return math.prod(self.shape) if self.shape else 0


def build(collection: Collection, listing: Listing, folder: Path, image_size: int, show_progress: bool) -> Work:
    """Write `images.npy`, `(rows, height, width, 3)` uint8, into the folder, resuming earlier work there.

    Raises:
        InputError: sizes differ and `image_size` is 0, the data changes or cannot be read, memory runs out, or the
            cache cannot be written.
    """
    from nonneg.modalities.images.sources._decode import formats  # needs Pillow

    formats()  # loads Pillow's plugins before threads start
    total = len(listing.ids)
    work = _earlier_work(folder)
    saved = time.monotonic()
    with (
        _images_file(folder, work) as file,
        _quiet_pillow(),
        progress_bar(show_progress) as bar,
        closing(_decode_in_parallel(collection.read(work.samples), work, image_size)) as decoded,
    ):
        task = bar.add_task(f"decoding {collection.title}", total=total)
        for results in decoded:
            rows = _images_to_write(results, work, listing, folder)
            with writing(folder):
                file.writelines(row.data for row in rows)
                if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
                    _save(file, work, folder)
                    saved = time.monotonic()
            bar.update(task, completed=work.samples)
        if work.samples != total:
            shutil.rmtree(folder, ignore_errors=True)  # it holds other data than was listed
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
        # Images written after the last save are decoded again.
        file.truncate(_HEADER_BYTES + work.rows * work.image_bytes())
        file.seek(0, os.SEEK_END)
    try:
        yield file
    finally:
        with writing(folder):  # closing writes the rest of the buffer
            file.close()


def _images_to_write(results: list[_Decoded], work: Work, listing: Listing, folder: Path) -> list[Pixels]:
    """Return the decoded images; count them and the broken ones."""
    rows = []
    for result in results:
        if isinstance(result, MemoryError):  # not broken: with more memory it can be decoded
            raise InputError(
                f"out of memory while decoding {listing.ids[work.samples]}; free some, or remove that image"
            ) from result
        if isinstance(result, BrokenImageError):
            work.broken.append((work.samples, str(result)))
        else:
            if not work.shape:
                work.shape, work.first = result.shape, work.samples
                _require_space(folder, (len(listing.ids) - work.samples) * work.image_bytes())
            if result.shape != work.shape:
                shutil.rmtree(folder, ignore_errors=True)  # it can never be completed
                one, other = (f"{shape[1]} x {shape[0]}" for shape in (work.shape, result.shape))
                raise MixedSizesError(
                    f"image sizes differ: {listing.ids[work.first]} is {one} and {listing.ids[work.samples]} is "
                    f"{other}; choose one size, for instance --image-size 224"
                )
            rows.append(result)
        work.samples += 1
    work.rows += len(rows)
    return rows


def _decode_in_parallel(encoded: Iterable[Any], work: Work, image_size: int) -> Generator[list[_Decoded]]:
    """Yield decoded images in order, a few at a time, in bounded memory whatever the number of cores.

    Uses threads, because processes would run the caller's script again. Pillow releases Python's global lock while it
    decodes: 16 threads decode 2,000 photographs per second, and 16 processes 2,600. Tiny images spend their time
    holding the lock: 16 threads decode 5,400 per second, and one thread 12,700. So the time that one image takes
    decides the number of threads.
    """
    chunks = _chunks(encoded, work)
    workers = 1
    for chunk, _ in chunks:
        is_typical, start = bool(work.shape), time.perf_counter()  # the first one also loads Pillow's code
        results = _decode_all(chunk, image_size)
        seconds = (time.perf_counter() - start) / len(chunk)
        yield results
        if is_typical:
            workers = min(cores(), max(1, round(seconds / _SECONDS_PER_THREAD)))
            break
    in_progress: deque[tuple[Future[list[_Decoded]], int]] = deque()
    held = 0
    pool = ThreadPoolExecutor(workers, "decode")
    try:
        for chunk, size in chunks:
            while in_progress and (len(in_progress) >= 2 * workers or held + size > _BYTES_IN_PROGRESS):
                decoded, done = in_progress.popleft()
                held -= done
                yield decoded.result()
            in_progress.append((pool.submit(_decode_all, chunk, image_size), size))
            held += size
        while in_progress:
            yield in_progress.popleft()[0].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _chunks(encoded: Iterable[Any], work: Work) -> Iterator[tuple[list[Any], int]]:
    """Yield single samples until the image size is known, then small groups; each with its number of bytes."""
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
    """Return the bytes that an encoded image takes while it is decoded; files above the limit are not read."""
    if isinstance(item, ListedFile):
        return item.bytes if item.bytes <= MOST_BYTES else 0
    return len(item) if isinstance(item, bytes) else 0


def _decode_all(chunk: list[Any], image_size: int) -> list[_Decoded]:
    from nonneg.modalities.images.sources._decode import decode

    results: list[_Decoded] = []
    for encoded in chunk:
        try:
            results.append(decode(encoded, image_size))
        except (BrokenImageError, MemoryError) as failed:
            results.append(failed)
    return results


@contextmanager
def _quiet_pillow() -> Iterator[None]:
    """Hide Pillow's warnings about single images; `decode` itself checks that they are not too large."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _earlier_work(folder: Path) -> Work:
    """Return what an earlier call has saved, if it is intact."""
    try:
        found = json.loads((folder / PROGRESS).read_bytes())
        work = Work(
            found["samples"],
            found["rows"],
            tuple(found["shape"]),
            found["first"],
            [(number, reason) for number, reason in found["broken"]],
        )
        is_complete = (folder / IMAGES).stat().st_size >= _HEADER_BYTES + work.rows * work.image_bytes()
        is_consistent = work.samples == work.rows + len(work.broken)
    except (OSError, ValueError, KeyError, TypeError):
        return Work()
    return work if is_complete and is_consistent else Work()


def _save(file: IO[bytes], work: Work, folder: Path) -> None:
    flush(file)  # the images must be on disk before the progress file counts them
    write_atomically(folder / PROGRESS, json.dumps(asdict(work)).encode())


def _header(work: Work) -> bytes:
    """Return NumPy's header, always of the same length, because the number of rows is known only at the end."""
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
