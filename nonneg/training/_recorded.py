"""Work that is compiled for one run, and work recorded as a CUDA graph, which the host launches as one operation."""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_WARM_UP = 3  # calls before the recording: they compile, choose convolutions and create the optimiser's state


class Recorded:
    """Call `work` on tensors of the same shapes each time; from the fourth call on, replay a recording of it.

    `work` must not wait for the device, and must write its results into tensors that exist before it is called or
    that it writes anew each time.

    Args:
        work: a function of tensors, any of which may be None, without a result.
        device: a CUDA device.
    """

    def __init__(self, work: Callable[..., None], device: torch.device) -> None:
        self.work, self.device = work, device
        self.stream = torch.cuda.Stream(device)  # a graph cannot record what has run on the default stream
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor | None, ...] = ()
        self.calls = 0

    def __call__(self, *inputs: Tensor | None) -> None:
        if not self.calls:
            self.inputs = tuple(None if given is None else torch.empty_like(given) for given in inputs)
        for recorded, given in zip(self.inputs, inputs, strict=True):
            if recorded is not None and given is not None:
                recorded.copy_(given)
        if self.graph is not None:
            self.graph.replay()
        elif self.calls < _WARM_UP:
            self._warm_up()
        else:
            self._record()
        self.calls += 1

    def _warm_up(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.work(*self.inputs)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        # If the graph of an earlier run were garbage-collected during the recording, the recording would fail.
        gc.collect()
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            # Other threads of the process may use the device during the recording.
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self.work(*self.inputs)
        finally:
            if was_enabled:
                gc.enable()
        graph.replay()
        self.graph = graph


def compiled(function: Callable[..., Any], dynamic: bool = False) -> Callable[..., Any]:
    """Compile a function for the shapes of this run alone, or once for all, whatever else this process has compiled.

    torch caches compiled code by code object, generalises it (and slows it down) when a second set of shapes appears,
    and gives up after eight. A fresh code object gives each run a cache of its own.
    """

    def in_this_run(*args: Any) -> Any:
        return function(*args)

    in_this_run.__code__ = in_this_run.__code__.replace()
    return torch.compile(in_this_run, dynamic=dynamic)
