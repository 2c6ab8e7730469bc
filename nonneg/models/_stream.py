"""Embedding in batches: reading, copying, the forward pass and encoding all at the same time."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from nonneg.errors import InputError
from nonneg.modalities.images._thumbnails import Checksums, JpegProcesses, is_lossless, png_checksums, thumbnails
from nonneg.processes import cores

if TYPE_CHECKING:
    from nonneg.models._model import Layer, Model

Precision = Literal["32-true", "bf16-mixed"]
Codes = npt.NDArray[np.float32]
Encoding = list[Future[pa.LargeBinaryArray]]
EncodedBatch = tuple[int, dict["Layer", Codes], Encoding]
Outcome = Callable[[], tuple[dict["Layer", Codes], Checksums | None]]
_READ_AHEAD = 2  # batches being read while one is computed
_MOST_ENCODERS = 12
_ENCODED_BYTES, _ENCODED_LEAST = 2**22, 32  # what a thread encodes at a time


class EmbeddedBatch(NamedTuple):
    """The codes of rows `start`, `start + 1`, … by layer, and their thumbnails if asked for."""

    start: int
    layers: "dict[Layer, Codes]"
    media: pa.ChunkedArray | None


def aligned_shares(samples: int, batch_size: int, parts: int) -> list[range]:
    """Contiguous shares of the rows, one a process, that begin where a batch begins.

    Embedded apart, they go through the very batches of a single process.

    Example:
        >>> aligned_shares(samples=10, batch_size=4, parts=2)
        [range(0, 8), range(8, 10)]
    """
    check_batch_size(batch_size)
    batches = -(-samples // batch_size)
    bounds = [min(samples, -(-batches * part // parts) * batch_size) for part in range(parts + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def embed_rows(
    model: "Model",
    images: npt.NDArray[np.uint8],
    rows: range,
    layers: "Sequence[Layer]" = ("projector",),
    *,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    precision: Precision = "32-true",
    media: bool = False,
) -> Iterator[EmbeddedBatch]:
    """The codes of these rows, batch after batch; only a few batches are in memory at a time.

    Until the iterator is used up or closed, the model is in evaluation mode and on the device.

    Args:
        model: what to embed with.
        images: `(samples, height, width, channels)` uint8; may be a memory map larger than memory.
        rows: a contiguous range of them.
        layers: which of "encoder" and "projector", from one pass.
        batch_size: rows a batch; None is `usual_batch_size`.
        device: where to compute; None is where the model is.
        precision: "bf16-mixed" computes in bfloat16 what bears it; codes are float32 either way.
        media: also encode a thumbnail of each image.

    Example:
        >>> from nonneg.models import Model, ModelConfig
        >>> model = Model(ModelConfig("convnet_8", channels=1, features=32))
        >>> batches = embed_rows(model, np.zeros((5, 8, 8, 1), np.uint8), range(5), batch_size=2)
        >>> [(batch.start, batch.layers["projector"].shape) for batch in batches]
        [(0, (2, 32)), (2, (2, 32)), (4, (1, 32))]
    """
    for layer in layers:
        if layer not in ("encoder", "projector"):
            raise InputError(f"layer is {layer!r}, expected encoder or projector")
    if precision not in get_args(Precision):
        raise InputError(f"precision is {precision!r}, expected one of {', '.join(get_args(Precision))}")
    place = next(model.parameters()).device if device is None else _usable(device)
    batch_size = usual_batch_size(images.shape, place) if batch_size is None else batch_size
    check_batch_size(batch_size)
    if rows.step != 1 or rows.start < 0 or rows.stop > len(images):
        raise InputError(f"rows are {rows}, expected a contiguous range within the {len(images)} images")
    return _stream(model, images, rows, tuple(layers), batch_size, place, precision, media)


def usual_batch_size(shape: tuple[int, ...], device: torch.device) -> int:
    """1,024, but 4,096 small images on a GPU, which is done with fewer before the host has launched the next ones.

    Example:
        >>> usual_batch_size((50_000, 32, 32, 3), torch.device("cpu"))
        1024
    """
    return 4096 if device.type == "cuda" and is_lossless(shape) else 1024


def check_batch_size(batch_size: int) -> None:
    """At least one sample a batch."""
    if type(batch_size) is not int or batch_size < 1:
        raise InputError(f"batch_size is {batch_size!r}, expected a whole number, at least 1")


def _usable(device: str | torch.device) -> torch.device:
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        raise InputError(f"device {str(device)!r} cannot be used: {' '.join(str(error).split())}") from error
    return place


def _stream(
    model: "Model",
    images: npt.NDArray[np.uint8],
    rows: range,
    layers: "tuple[Layer, ...]",
    batch_size: int,
    device: torch.device,
    precision: Precision,
    media: bool,
) -> Iterator[EmbeddedBatch]:
    on_gpu = device.type == "cuda"
    copies = torch.cuda.Stream(device) if on_gpu else None
    encoders = ThreadPoolExecutor(min(_MOST_ENCODERS, max(1, cores() - 1)))
    reader = ThreadPoolExecutor(1)
    # A GPU is faster than one process can encode; a CPU is not.
    processes = JpegProcesses() if on_gpu else None
    encode = processes or thumbnails

    # Of small images the GPU works out the checksums: they wait for it.
    with_checksums = media and on_gpu and is_lossless(images.shape)

    def encoded(batch: npt.NDArray[np.uint8], checksums: Checksums | None = None) -> Encoding:
        together = max(_ENCODED_LEAST, _ENCODED_BYTES // batch[0].nbytes)
        pieces = [slice(i, i + together) for i in range(0, len(batch), together)]
        if checksums is None:
            return [encoders.submit(encode, batch[piece]) for piece in pieces]
        return [encoders.submit(thumbnails, batch[piece], checksums[:, piece]) for piece in pieces]

    def read(start: int) -> tuple[int, Tensor, Encoding]:
        # Into memory of our own: from pinned memory a GPU copies while it computes.
        source = images[start : min(start + batch_size, rows.stop)]
        pixels = torch.empty(source.shape, dtype=torch.uint8, pin_memory=on_gpu)
        np.copyto(pixels.numpy(), source)
        return start, pixels, encoded(pixels.numpy()) if media and not with_checksums else []

    def computed(start: int, pixels: Tensor, outcome: Outcome, encoding: Encoding) -> EncodedBatch:
        codes, checksums = outcome()
        return start, codes, encoding if checksums is None else encoded(pixels.numpy(), checksums)

    def finished(start: int, codes: "dict[Layer, Codes]", encoding: Encoding) -> EmbeddedBatch:
        pieces = [piece.result() for piece in encoding]
        if pieces and not with_checksums:  # few bytes, and a table of many small pieces is slow to open
            pieces = [pa.concat_arrays(pieces)]
        return EmbeddedBatch(start, codes, pa.chunked_array(pieces, pa.large_binary()) if media else None)

    with processes or nullcontext(), encoders, reader, _evaluating(model, device):
        coming = (reader.submit(read, start) for start in range(rows.start, rows.stop, batch_size))
        read_ahead = deque(islice(coming, _READ_AHEAD))
        computing: deque[tuple[int, Tensor, Outcome, Encoding]] = deque()
        encoding_on: deque[EncodedBatch] = deque()
        while read_ahead or computing or encoding_on:
            if read_ahead:
                start, pixels, encoding = read_ahead.popleft().result()
                read_ahead.extend(islice(coming, 1))
                outcome = _launched(model, pixels, layers, device, precision, copies, with_checksums)
                computing.append((start, pixels, outcome, encoding))
            # The GPU has its next batch already when the codes of the one before are waited for, and images are
            # encoded while it computes.
            if computing and (len(computing) > 1 or not read_ahead):
                encoding_on.append(computed(*computing.popleft()))
            if encoding_on and (len(encoding_on) > media or not computing):
                yield finished(*encoding_on.popleft())


@torch.inference_mode()
def _launched(
    model: "Model",
    pixels: Tensor,
    layers: "tuple[Layer, ...]",
    device: torch.device,
    precision: Precision,
    copies: torch.cuda.Stream | None,
    with_checksums: bool,
) -> Outcome:
    """Begin the forward pass of a batch; what is returned waits for its codes, and for checksums if asked to."""
    with torch.cuda.device(device) if copies is not None else nullcontext():
        if copies is not None:
            with torch.cuda.stream(copies):
                there = pixels.to(device, non_blocking=True)
            computes = torch.cuda.current_stream()
            computes.wait_stream(copies)
            there.record_stream(computes)
        else:
            there = pixels.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed"):
            x = model.normalised(there)
            outputs: dict[Layer, Tensor] = {}
            if "projector" in layers:
                outputs["encoder"], outputs["projector"] = model.forward_layers(x)
            else:
                outputs["encoder"] = model(x, "encoder")
        codes = {layer: outputs[layer].float().to("cpu", non_blocking=copies is not None) for layer in layers}
        checksums = png_checksums(there).to("cpu", non_blocking=copies is not None) if with_checksums else None
        done = None
        if copies is not None:
            done = torch.cuda.Event()
            done.record()

    def outcome() -> tuple[dict["Layer", Codes], Checksums | None]:
        if done is not None:
            done.synchronize()
        # Copied out of pinned memory, which there should never be much of.
        copied = copies is not None
        found = {layer: values.numpy().copy() if copied else values.numpy() for layer, values in codes.items()}
        return found, None if checksums is None else checksums.numpy()

    return outcome


@contextmanager
def _evaluating(model: "Model", device: torch.device) -> Iterator[None]:
    """Evaluation mode on this device; each part is as it was afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    before = next(model.parameters()).device
    try:
        model.eval().to(device)
        yield
    finally:
        model.to(before)
        for module, was_training in modes:
            module.training = was_training
