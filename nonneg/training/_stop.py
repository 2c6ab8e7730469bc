"""Being told to stop: finish the step, save, leave."""

import signal
import threading
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

_AGREE_EVERY = 10  # steps: processes must stop at the same one, and asking them all takes time


class StopSignals:
    """While it is entered, SIGTERM and Ctrl-C only ask to stop; a second one stops at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # signals can be caught nowhere else
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number

    def agreed(self, step: int) -> int | None:
        """The signal that any process has received, the same on all; asked of all every few steps."""
        if not dist.is_initialized():
            return self.received
        if step % _AGREE_EVERY:
            return None
        number = torch.tensor(self.received or 0, device=self.device)
        dist.all_reduce(number, dist.ReduceOp.MAX)
        return int(number) or None
