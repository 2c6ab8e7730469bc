"""How much memory a run takes, roughly, before it starts: the system kills a process that takes too much."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from nonneg.errors import InputError
from nonneg.modalities import Source, as_tensors, map_arrays
from nonneg.models import Model
from nonneg.processes import memory
from nonneg.training._feed import bytes_held
from nonneg.training._progress import print_line
from nonneg.training._step import views_per_sample
from nonneg.training.config import TrainConfig

_STATES = 4  # numbers per parameter: its value, its gradient, up to two of the optimiser
_WIDTHS = {"64-true": 2.0, "32-true": 1.0, "bf16-mixed": 0.5}  # of the numbers in a step, compared with float32


def check_memory(network: Model, source: Source, config: TrainConfig, fabric: Any, show: bool) -> None:
    """Print the memory that the data and a step take, and raise an error if the machine has less.

    On a GPU a compiled step takes less than this, and running out of memory is an error there: only data is checked.
    """
    on_gpu, share = fabric.device.type == "cuda", config.batch_size // fabric.world_size
    data = bytes_held(source, config, fabric.device, share)
    step = _step_bytes(network, source, share // config.accumulate * views_per_sample(config), config.precision)
    there = torch.cuda.mem_get_info(fabric.device)[0] if on_gpu else memory()
    sizes = [f"{size / 1e9:,.1f} GB" for size in (data, step, there)]
    if data + (0 if on_gpu else step) > there:
        raise InputError(
            f"the run takes about {sizes[0]} for data and {sizes[1]} for a step, expected at most {sizes[2]}, the"
            " memory that it can use; reduce batch_size, image_size or views.size, or raise accumulate"
        )
    if show and fabric.is_global_zero:
        print_line(f"Memory: about {sizes[0]} for data and {sizes[1]} for a step, of {sizes[2]}.")


def _step_bytes(network: Model, source: Source, views: int, precision: str) -> int:
    """Return the bytes of the weights and of everything that the forward pass keeps for the gradient.

    A copy of the network runs on the meta device, which computes shapes but no numbers.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    one = as_tensors(source.samples[[0]])
    try:
        shadow = copy.deepcopy(network).to("meta")
        batch = map_arrays(lambda part: part.to("meta").expand(views, *part.shape[1:]), one)
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            _graph = shadow.forward_layers(network.modality.inputs(batch))  # keeps the tensors until all are counted
    except Exception:  # a module of the caller may need numbers, or cannot be copied: only its weights are known
        kept = {}
    weights = sum(parameter.nbytes for parameter in network.parameters())
    return round(_STATES * weights + _WIDTHS[precision] * sum(kept.values()))
