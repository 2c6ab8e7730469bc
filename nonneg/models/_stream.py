"""Embedding in batches: the next batches are read while one is computed."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.devices import choose_device
from nonneg.errors import InputError
from nonneg.modalities import Shared, Source, arrays_of, as_tensors, encoded_whole, map_arrays, unwrapped

if TYPE_CHECKING:
    from nonneg.models._model import Model

Layer = Literal["encoder", "projector"]
"""A layer of a model."""
Precision = Literal["32-true", "bf16-mixed"]
"""The precision of a forward pass."""
Codes = npt.NDArray[np.float32]
_READ_AHEAD = 2  # batches that are read while one is computed
_SMALL_SAMPLE, _BATCH = 2**14, 2**28  # bytes


class EmbeddedBatch(NamedTuple):
    """The codes of rows `start`, `start + 1`, … by layer, and their previews if requested."""

    start: int
    layers: dict[Layer, Codes]
    preview: dict[str, Any]


def aligned_shares(samples: int, batch_size: int, parts: int) -> list[range]:
    """Return contiguous shares of the rows, one per process, that start at the start of a batch.

    Embedded separately, they form exactly the batches of a single process.

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
    source: Source,
    rows: range,
    layers: Sequence[Layer] = ("projector",),
    *,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    precision: Precision = "32-true",
    media: bool = False,
) -> Iterator[EmbeddedBatch]:
    """Yield the codes of these rows, batch by batch; only a few batches are in memory at a time.

    Until the iterator is exhausted or closed, the model is in evaluation mode and on the device.

    Args:
        model: the model.
        source: the samples.
        rows: a contiguous range of them.
        layers: which of "encoder" and "projector", from one pass.
        batch_size: rows per batch; None is `usual_batch_size`.
        device: where to compute; None is the model's device.
        precision: "bf16-mixed" computes in bfloat16 where that is safe; codes are float32 either way.
        media: also make a preview of each sample.

    Example:
        >>> from nonneg.modalities.images import Images
        >>> from nonneg.models import Model, ModelConfig
        >>> model = Model(ModelConfig("convnet_8", Images(channels=1), features=32))
        >>> source = Source("blank", np.zeros((5, 8, 8, 1), np.uint8))
        >>> batches = embed_rows(model, source, range(5), batch_size=2)
        >>> [(batch.start, batch.layers["projector"].shape) for batch in batches]
        [(0, (2, 32)), (2, (2, 32)), (4, (1, 32))]
    """
    for layer in layers:
        check_layer(layer)
    if precision not in get_args(Precision):
        raise InputError(f"precision is {precision!r}, expected one of {', '.join(get_args(Precision))}")
    place = next(model.parameters()).device if device is None else choose_device(device)
    batch_size = usual_batch_size(source, place) if batch_size is None else batch_size
    check_batch_size(batch_size)
    if rows.step != 1 or rows.start < 0 or rows.stop > len(source):
        raise InputError(f"rows are {rows}, expected a contiguous range within the {len(source)} samples")
    return _stream(model, source, rows, tuple(layers), batch_size, place, precision, media)


def usual_batch_size(source: Source, device: torch.device) -> int:
    """Return 1,024, or 4,096 for small samples on a GPU, which would otherwise wait for the host's next launch.

    Fewer samples if these would take more than 256 MiB; all of them if they share something that the encoder computes
    as a whole for every batch, such as the graph whose nodes they are.

    Example:
        >>> usual_batch_size(Source("blank", np.zeros((2, 32, 32, 3), np.uint8)), torch.device("cpu"))
        1024
    """
    one = source.samples[[0]]
    if encoded_whole(one):
        return max(1, len(source))
    every = len(unwrapped(source.samples)[0])  # among which samples divide what they share
    size = sum(int(part.nbytes) // (every if isinstance(part, Shared) else 1) for part in arrays_of(one))
    usual = 4096 if device.type == "cuda" and size <= _SMALL_SAMPLE else 1024
    return max(1, min(usual, _BATCH // max(1, size)))


def check_layer(layer: str) -> None:
    """Raise an error if a model has no such layer."""
    if layer not in get_args(Layer):
        raise InputError(f"layer is {layer!r}, expected encoder or projector")


def check_batch_size(batch_size: int) -> None:
    """Raise an error unless the batch size is a whole number of at least 1."""
    if type(batch_size) is not int or batch_size < 1:
        raise InputError(f"batch_size is {batch_size!r}, expected a whole number, at least 1")


def _stream(
    model: "Model",
    source: Source,
    rows: range,
    layers: tuple[Layer, ...],
    batch_size: int,
    device: torch.device,
    precision: Precision,
    media: bool,
) -> Iterator[EmbeddedBatch]:
    copies = torch.cuda.Stream(device) if device.type == "cuda" else None

    def read(start: int) -> tuple[range, Any, dict[str, Any]]:
        part = range(start, min(start + batch_size, rows.stop))
        batch = as_tensors(source.samples[np.arange(part.start, part.stop)])
        if copies is not None:  # a GPU can copy from pinned memory while it computes
            batch = map_arrays(lambda tensor: tensor.pin_memory(), batch)
        return part, batch, model.modality.preview(source, part) if media else {}

    with ThreadPoolExecutor(1) as reader, _evaluating(model, device):
        coming = (reader.submit(read, start) for start in range(rows.start, rows.stop, batch_size))
        ahead = deque(islice(coming, _READ_AHEAD))
        computing: deque[tuple[int, Callable[[], dict[Layer, Codes]], dict[str, Any]]] = deque()
        while ahead or computing:
            if ahead:
                part, batch, preview = ahead.popleft().result()
                ahead.extend(islice(coming, 1))
                computing.append((part.start, _launched(model, batch, layers, device, precision, copies), preview))
            # A GPU already has its next batch when the host waits for the codes of the previous one.
            if len(computing) > 1 or not ahead:
                start, codes, preview = computing.popleft()
                yield EmbeddedBatch(start, codes(), preview)


# Not inference mode: a graph's tensors that are computed here once are used again if the graph is trained on.
@torch.no_grad()
def _launched(
    model: "Model",
    batch: Any,
    layers: tuple[Layer, ...],
    device: torch.device,
    precision: Precision,
    copies: torch.cuda.Stream | None,
) -> Callable[[], dict[Layer, Codes]]:
    """Launch the forward pass of a batch; the returned function waits for its codes."""
    with torch.cuda.device(device) if copies is not None else nullcontext():
        if copies is None:
            there = map_arrays(lambda tensor: tensor.to(device), batch)
        else:
            with torch.cuda.stream(copies):
                there = map_arrays(lambda tensor: tensor.to(device, non_blocking=True), batch)
            computes = torch.cuda.current_stream()
            computes.wait_stream(copies)
            for tensor in arrays_of(there):
                tensor.record_stream(computes)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed"):
            inputs = model.modality.inputs(there)
            outputs: dict[Layer, Tensor] = {}
            if "projector" in layers:
                outputs["encoder"], outputs["projector"] = model.forward_layers(inputs)
            else:
                outputs["encoder"] = model(inputs, "encoder")
        codes = {layer: outputs[layer].float().to("cpu", non_blocking=copies is not None) for layer in layers}
        done = None if copies is None else torch.cuda.current_stream().record_event()

    def finished() -> dict[Layer, Codes]:
        if done is None:
            return {layer: values.numpy() for layer, values in codes.items()}
        done.synchronize()
        # Copied out of pinned memory, which should stay small.
        return {layer: values.numpy().copy() for layer, values in codes.items()}

    return finished


@contextmanager
def _evaluating(model: "Model", device: torch.device) -> Iterator[None]:
    """Put the model into evaluation mode on this device, and restore the mode of every module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    before = next(model.parameters()).device
    try:
        model.eval().to(device)
        model.modality.to(device)
        yield
    finally:
        model.to(before)
        for module, was_training in modes:
            module.training = was_training
