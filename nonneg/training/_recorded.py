"""Work that is recorded once as a CUDA graph, then replayed: the host launches one thing a step."""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

_WARM_UP = 3  # times before the recording: they compile, choose convolutions and make the optimiser's state


class Recorded:
    """Calls `work` on tensors of the same shapes each time; from the fourth time on, its recording.

    Work must not wait for the device, and what it leaves behind lies in tensors that were there before, or that are
    written anew each time.

    Args:
        work: takes tensors, any of which may be None, and returns nothing.
        device: a CUDA device.
    """

    def __init__(self, work: Callable[..., None], device: torch.device) -> None:
        self.work, self.device = work, device
        self.stream = torch.cuda.Stream(device)  # what a graph records must not have run on the default stream
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor | None, ...] = ()
        self.done = 0

    def __call__(self, *inputs: Tensor | None) -> None:
        if not self.done:
            self.inputs = tuple(None if given is None else torch.empty_like(given) for given in inputs)
        for mine, given in zip(self.inputs, inputs, strict=True):
            if mine is not None and given is not None:
                mine.copy_(given)
        if self.graph is not None:
            self.graph.replay()
        elif self.done < _WARM_UP:
            self._unrecorded()
        else:
            self._record()
        self.done += 1

    def _unrecorded(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.work(*self.inputs)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        # The graph of an earlier run, were it collected while this one is recorded, would end the recording.
        gc.collect()
        collects = gc.isenabled()
        gc.disable()
        try:
            # Other threads of the process may use the device meanwhile.
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self.work(*self.inputs)
        finally:
            if collects:
                gc.enable()
        graph.replay()
        self.graph = graph
