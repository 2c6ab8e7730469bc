"""Stopping on a signal: finish the step, save a checkpoint, exit."""

import signal
import threading
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

_STEPS_BETWEEN_AGREEMENTS = 10  # all processes must stop at the same step, and asking them takes time


class StopSignals:
    """A context in which SIGTERM and Ctrl-C request a stop; a second signal stops at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # only the main thread can handle signals
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number

    def agreed(self, step: int) -> int | None:
        """Return the signal that any process has received, the same on all; they agree every few steps."""
        if not dist.is_initialized():
            return self.received
        if step % _STEPS_BETWEEN_AGREEMENTS:
            return None
        number = torch.tensor(self.received or 0, device=self.device)
        dist.all_reduce(number, dist.ReduceOp.MAX)
        return int(number) or None
