"""Saving a run's whole state to a checkpoint, and restoring it."""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from nonneg.errors import InputError
from nonneg.messages import one_line
from nonneg.modalities import Shared, Source, arrays_of
from nonneg.processes import all_or_none, on_first_process
from nonneg.training._checkpoint import Checkpoint, optimiser_tensors, restore_optimiser
from nonneg.training._checks import check_finite, check_weights
from nonneg.training._run import RunFolder
from nonneg.training._step import Step


def save_state(run: RunFolder, step: Step, data: str, done: int, epoch: int) -> None:
    """Save a checkpoint: all processes take part, and the first one writes it while training continues."""
    step.watch.reduce(step.group)
    check_finite(float(step.watch.loss), epoch, step.config)
    check_weights(step.model, epoch, step.config)
    states = step.fabric.all_gather(torch.get_rng_state()).view(step.fabric.world_size, -1)
    tensors = {f"model.{name}": tensor for name, tensor in step.model.state_dict().items()}
    tensors |= {f"optimiser.{name}": tensor for name, tensor in optimiser_tensors(step.optimiser.optimizer)}
    if step.log_temperatures is not None:
        tensors["temperature.log"] = step.log_temperatures
    tensors |= {f"watch.{name}": tensor for name, tensor in step.watch.tensors().items()}
    tensors |= {f"random.{rank}": state for rank, state in enumerate(states)}
    if step.fabric.device.type == "cuda":
        states = step.fabric.all_gather(torch.cuda.get_rng_state(step.fabric.device)).view(step.fabric.world_size, -1)
        tensors |= {f"random.cuda.{rank}": state for rank, state in enumerate(states)}

    def start_writing() -> None:
        run.check_owned()
        run.checkpoints.wait()  # first: the previous one may still hold the memory that the copies need
        copies, wait_for_copies = copy_to_host(tensors)
        run.checkpoints.save(Checkpoint(done, data, copies), wait_for_copies)

    on_first_process(start_writing)
    if not step.fabric.is_global_zero:
        step.watch.clear()  # the first process now has the sums of all


def copy_to_host(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Callable[[], None]]:
    """Return copies in the host's memory, and a function to call before they are read.

    A GPU makes the copies in order, before the work it is given next. Nothing waits for it here: while the host
    waited, the GPU would be idle.
    """
    on_gpu = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    copies = {name: t.detach().to("cpu", copy=True, non_blocking=t.is_cuda) for name, t in tensors.items()}
    copied = [torch.cuda.current_stream(device).record_event() for device in on_gpu]

    def wait_for_copies() -> None:
        for event in copied:
            event.synchronize()

    return copies, wait_for_copies


def restore_state(run: RunFolder, step: Step, data: str) -> int:
    """Restore the newest checkpoint and return its number of updates."""
    checkpoint = all_or_none(run.checkpoints.newest)
    if checkpoint:
        if checkpoint.data != data:
            raise InputError(
                f"{run.folder} was trained on other data than {step.config.data} holds now; restore the data, or pass"
                " --overwrite to start over"
            )
        try:
            _restore(checkpoint, step)
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise InputError(
                f"the checkpoint of step {checkpoint.step:,} in {run.folder} belongs to another model"
                f" ({one_line(error)}); pass --overwrite to start over"
            ) from error
    done = checkpoint.step if checkpoint else 0

    def record() -> None:
        run.truncate_log(done)
        run.record_resumption(done, step.fabric.device)

    on_first_process(record)
    return done


def _restore(checkpoint: Checkpoint, step: Step) -> None:
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "temperature": {}, "watch": {}, "random": {}}
    for name, tensor in checkpoint.tensors.items():
        part, rest = name.split(".", 1)
        parts[part][rest] = tensor
    step.model.load_state_dict(parts["model"])
    if step.log_temperatures is not None:
        with torch.no_grad():
            step.log_temperatures.copy_(parts["temperature"]["log"])
    restore_optimiser(step.optimiser.optimizer, parts["optimiser"])
    for name, tensor in step.watch.tensors().items():
        saved = parts["watch"][name]
        if saved.shape != tensor.shape:
            raise ValueError(f"{name} has shape {tuple(saved.shape)}, expected {tuple(tensor.shape)}")
        tensor.copy_(saved)
    if not step.fabric.is_global_zero:
        step.watch.clear()
    rank = step.fabric.global_rank
    if str(rank) in parts["random"]:
        torch.set_rng_state(parts["random"][str(rank)])
    if step.fabric.device.type == "cuda" and f"cuda.{rank}" in parts["random"]:
        torch.cuda.set_rng_state(parts["random"][f"cuda.{rank}"], step.fabric.device)


def fingerprint(source: Source) -> str:
    """Return a hash of the samples' ids, order and labels, and of some of their content.

    Reading all content would take as long as an epoch.
    """
    digest = hashlib.sha256(repr((len(source), source.label_names)).encode())
    for name in source.ids:
        digest.update(name.encode() + b"\n")
    if source.labels is not None:
        digest.update(source.labels.tobytes())
    for row in range(0, len(source), max(1, len(source) // 64)):
        for part in arrays_of(source.samples[np.array([row])]):
            part = np.frombuffer(part.digest, np.uint8) if isinstance(part, Shared) else part
            digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
