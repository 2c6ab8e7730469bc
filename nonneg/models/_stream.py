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
from nonneg.models._thumbnails import JpegProcesses, is_lossless, png_checksums, thumbnails
from nonneg.processes import cores

if TYPE_CHECKING:
    from nonneg.models._model import Layer, Model

Precision = Literal["32-true", "bf16-mixed"]
Codes = npt.NDArray[np.float32]
Encoding = list[Future[pa.LargeBinaryArray]]
Outcome = Callable[[], tuple[dict["Layer", Codes], pa.LargeBinaryArray | None]]
_READ_AHEAD = 2  # batches being read while one is computed
_MOST_ENCODERS = 12
_ENCODED_BYTES, _ENCODED_LEAST = 2**22, 32  # what a thread encodes at a time


class EmbeddedBatch(NamedTuple):
    """The codes of rows `start`, `start + 1`, … by layer, and their thumbnails if asked for."""

    start: int
    layers: "dict[Layer, Codes]"
    media: pa.LargeBinaryArray | None


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

    small, large = (media and is_lossless(images.shape) is wanted for wanted in (True, False))

    def read(start: int) -> tuple[int, Tensor, Encoding]:
        # Into memory of our own: from pinned memory a GPU copies while it computes.
        source = images[start : min(start + batch_size, rows.stop)]
        pixels = torch.empty(source.shape, dtype=torch.uint8, pin_memory=on_gpu)
        batch = pixels.numpy()
        np.copyto(batch, source)
        together = max(_ENCODED_LEAST, _ENCODED_BYTES // batch[0].nbytes)
        pieces = range(0, len(batch) if large else 0, together)
        return start, pixels, [encoders.submit(encode, batch[i : i + together]) for i in pieces]

    def finished(start: int, outcome: Outcome, encoding: Encoding) -> EmbeddedBatch:
        codes, pictures = outcome()
        return EmbeddedBatch(start, codes, pa.concat_arrays([e.result() for e in encoding]) if large else pictures)

    with processes or nullcontext(), encoders, reader, _evaluating(model, device):
        coming = (reader.submit(read, start) for start in range(rows.start, rows.stop, batch_size))
        read_ahead = deque(islice(coming, _READ_AHEAD))
        computing: deque[tuple[int, Outcome, Encoding]] = deque()
        while read_ahead:
            start, pixels, encoding = read_ahead.popleft().result()
            read_ahead.extend(islice(coming, 1))
            computing.append((start, _launched(model, pixels, layers, device, precision, copies, small), encoding))
            # The GPU has its next batch already when the codes of the one before are waited for.
            if len(computing) > 1:
                yield finished(*computing.popleft())
        for batch in computing:
            yield finished(*batch)


@torch.inference_mode()
def _launched(
    model: "Model",
    pixels: Tensor,
    layers: "tuple[Layer, ...]",
    device: torch.device,
    precision: Precision,
    copies: torch.cuda.Stream | None,
    encode: bool,
) -> Outcome:
    """Begin the forward pass of a batch; what is returned waits for its codes, and encodes its images if asked to."""
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
        checksums, done = None, None
        if copies is not None:
            checksums = png_checksums(there).to("cpu", non_blocking=True) if encode else None
            done = torch.cuda.Event()
            done.record()

    def outcome() -> tuple[dict["Layer", Codes], pa.LargeBinaryArray | None]:
        if done is not None:
            done.synchronize()
        sums = None if checksums is None else checksums.numpy()
        pictures = thumbnails(pixels.numpy(), sums) if encode else None
        # Copied out of pinned memory, which there should never be much of.
        copied = copies is not None
        return {layer: values.numpy().copy() if copied else values.numpy() for layer, values in codes.items()}, pictures

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
