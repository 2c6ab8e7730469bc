"""Where a run is computed, and what of it is compiled."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from nonneg.errors import InputError
from nonneg.extras import is_installed, needs_extra
from nonneg.messages import one_line
from nonneg.models import OWN_ENCODER
from nonneg.processes import launched_processes
from nonneg.training._run import BOARD
from nonneg.training._step import RECORDED
from nonneg.training.config import TrainConfig


def open_fabric(config: TrainConfig, loggers: list[Any]) -> Any:
    """Start Lightning's devices and processes."""
    with needs_extra("train", "training"), _torchmetrics_by_version_alone():  # errors in the config are reported before
        from lightning_fabric import Fabric

    # It advises to lower the precision of float32, which the config decides.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    processes = launched_processes()
    # An encoder of another library may have parameters that its output does not use; searching for them takes time.
    strategy = "ddp_find_unused_parameters_true" if config.has_foreign_encoder else "ddp"
    try:
        fabric = Fabric(
            accelerator=config.accelerator,
            devices=processes.here,
            num_nodes=processes.nodes,
            strategy=strategy if processes.total > 1 else "auto",
            loggers=loggers,  # the step sets the precision, so that it is the same whether compiled or not
        )
    except (RuntimeError, ValueError) as error:
        reason = one_line(error)
        cause = "SLURM's tasks" if "slurm" in reason.lower() else f"accelerator {config.accelerator!r}"
        raise InputError(f"{cause} cannot be used: {reason}") from error
    fabric.launch()
    return fabric


@contextmanager
def _torchmetrics_by_version_alone() -> Iterator[None]:
    """Fabric imports torchmetrics for its version number, and with it torchvision and transformers: up to 9 seconds."""
    if "torchmetrics" in sys.modules or not is_installed("torchmetrics"):
        yield
        return
    sys.modules["torchmetrics"] = ModuleType("torchmetrics")  # the version is then looked up in its description
    try:
        yield
    finally:
        del sys.modules["torchmetrics"]


def chosen_path(config: TrainConfig, fabric: Any) -> str:
    """Choose what is compiled; 'auto' is the fastest that works here."""
    on_gpu = fabric.device.type == "cuda"
    is_whole = config.accumulate == 1 and not config.encode_rows
    can_record = on_gpu and fabric.world_size == 1 and is_whole and config.precision != "64-true"
    if config.compile in RECORDED and not can_record:
        raise InputError(
            f"compile is {config.compile!r} on {fabric.world_size} x {fabric.device.type} in {config.precision} with"
            f" accumulate {config.accumulate} and encode_rows {config.encode_rows}, expected one CUDA device in float32"
            " or bf16 with accumulate 1 and encode_rows 0"
        )
    if config.compile != "auto":
        return config.compile
    if config.encoder == OWN_ENCODER:  # it may do anything: only the caller can know whether it compiles
        return "off"
    works = {"graph": can_record, "record": can_record, "forward": on_gpu, "off": True}
    return next(path for path in config.modality.step_paths(config.encoder) if works[path])


def board(folder: Path) -> Any:
    with needs_extra("tensorboard", "--tensorboard"):
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(folder, name=BOARD, version="")
