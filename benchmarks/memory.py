"""Peak memory of a computation, as counted by the allocator."""

import os
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences the profiler's own messages

import torch
from torch.autograd import ProfilerActivity  # type: ignore[attr-defined]


def peak_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """Return the largest number of bytes held at once by tensors that `run` creates."""
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    held = peak = 0
    allocations = (e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]")  # type: ignore[union-attr]
    for event in sorted(allocations, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
