"""A run's whole state, to a checkpoint and back."""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from nonneg.errors import InputError
from nonneg.modalities import Source, arrays_of
from nonneg.training._checkpoint import Checkpoint, optimiser_tensors, restore_optimiser
from nonneg.training._ends import check_loss, check_weights
from nonneg.training._run import RunFolder
from nonneg.training._step import Step
from nonneg.training._together import by_first, gathered


def save_state(run: RunFolder, step: Step, data: str, done: int, epoch: int) -> None:
    """All processes take part, the first one writes; it writes while training goes on."""
    step.watch.reduce(step.group)
    check_loss(float(step.watch.loss), epoch, step.config)
    check_weights(step.model.parameters(), epoch, step.config)
    states = gathered(torch.get_rng_state(), step.fabric)
    tensors = {f"model.{name}": tensor for name, tensor in step.model.state_dict().items()}
    tensors |= {f"optimiser.{name}": tensor for name, tensor in optimiser_tensors(step.optimiser.optimizer)}
    tensors |= {f"watch.{name}": tensor for name, tensor in step.watch.tensors().items()}
    tensors |= {f"random.{rank}": state for rank, state in enumerate(states)}
    if step.fabric.device.type == "cuda":
        states = gathered(torch.cuda.get_rng_state(step.fabric.device), step.fabric)
        tensors |= {f"random.cuda.{rank}": state for rank, state in enumerate(states)}

    def begin_to_write() -> None:
        run.checkpoints.wait()  # first: it may still hold the memory that the copies go to
        copies, arrived = copied_aside(tensors)
        run.checkpoints.save(Checkpoint(done, data, copies), arrived)

    by_first(step.fabric, begin_to_write)
    if not step.fabric.is_global_zero:
        step.watch.clear()  # the first process has the sums of all now


def copied_aside(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Callable[[], None]]:
    """Copies in the host's memory, and what to call before they are read.

    A GPU copies as soon as it comes to it, before whatever it is given next. Nothing waits for it here: while the
    host waited, the GPU would have nothing to do.
    """
    on_gpu = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    copies = {name: t.detach().to("cpu", copy=True, non_blocking=t.is_cuda) for name, t in tensors.items()}
    copied = [torch.cuda.current_stream(device).record_event() for device in on_gpu]

    def arrived() -> None:
        for event in copied:
            event.synchronize()

    return copies, arrived


def restore_state(run: RunFolder, step: Step, data: str, per_epoch: int) -> int:
    """The state of the newest checkpoint; returns the updates done by then."""
    checkpoint = run.checkpoints.newest()
    step.fabric.barrier()  # all have read it
    if checkpoint:
        if checkpoint.data != data:
            raise InputError(
                f"{run.folder} was trained on other data than {step.config.data} holds now; put it back or pass"
                " --overwrite to start over"
            )
        try:
            _put_back(checkpoint, step)
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(
                f"the checkpoint of step {checkpoint.step:,} in {run.folder} is of another model ({reason}); pass"
                " --overwrite to start over"
            ) from error
    done = checkpoint.step if checkpoint else 0
    if step.fabric.is_global_zero:
        run.truncate_log(done)
        run.record_resumption(done, step.fabric.device)
    return done


def _put_back(checkpoint: Checkpoint, step: Step) -> None:
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "watch": {}, "random": {}}
    for name, tensor in checkpoint.tensors.items():
        part, rest = name.split(".", 1)
        parts[part][rest] = tensor
    step.model.load_state_dict(parts["model"])
    restore_optimiser(step.optimiser.optimizer, parts["optimiser"])
    for name, tensor in step.watch.tensors().items():
        saved = parts["watch"][name]
        if saved.shape != tensor.shape:
            raise ValueError(f"{name} is of shape {tuple(saved.shape)}, expected {tuple(tensor.shape)}")
        tensor.copy_(saved)
    if not step.fabric.is_global_zero:
        step.watch.clear()
    rank = step.fabric.global_rank
    if str(rank) in parts["random"]:
        torch.set_rng_state(parts["random"][str(rank)])
    if step.fabric.device.type == "cuda" and f"cuda.{rank}" in parts["random"]:
        torch.cuda.set_rng_state(parts["random"][f"cuda.{rank}"], step.fabric.device)


def fingerprint(source: Source) -> str:
    """Of the samples' ids, order and labels, and the content of some: reading all would take as long as an epoch."""
    digest = hashlib.sha256(repr((len(source), source.label_names)).encode())
    for name in source.ids:
        digest.update(name.encode() + b"\n")
    if source.labels is not None:
        digest.update(source.labels.tobytes())
    for row in range(0, len(source), max(1, len(source) // 64)):
        for part in arrays_of(source.samples[np.array([row])]):
            digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
