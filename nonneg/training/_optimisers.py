"""Optimisers by name, and the schedules of the learning rate and of the share of active samples."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from nonneg.models import Model
from nonneg.training._recorded import compiled
from nonneg.training.config import TrainConfig

_FACTOR = "factor"  # of a group of parameters: its learning rate as a multiple of the config's
_FALLING = 0.8  # the part of training in which the share falls


class LARS(Optimizer):
    """SGD with momentum whose steps are scaled, for each weight tensor, to a share of the tensor's length.

    The gradient g of a weight p, with decay λp added, is multiplied by min(trust · ‖p‖ / (‖g‖ + λ‖p‖) / lr, 1).
    Biases and the parameters of norms (those with one dimension) are neither scaled nor decayed.

    Args:
        params: the parameters.
        lr: learning rate, a number or a scalar tensor on the parameters' device.
        momentum, weight_decay: as in SGD.
        trust: the share.

    A step never waits for the device.

    Example:
        >>> p = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
        >>> p.grad = torch.tensor([[1.0, 0.0]])
        >>> LARS([p], lr=1.0, momentum=0.0, weight_decay=0.0, trust=0.02).step()
        >>> p.data
        tensor([[2.9000, 4.0000]])
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor, momentum: float, weight_decay: float, trust: float
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            self.state[p]["momentum"] = torch.zeros_like(p)

    def compile(self) -> None:
        """Compile the next steps: one pass over a weight's numbers, by a kernel that is compiled once for all sizes."""
        update = compiled(LARS._update, dynamic=True)

        def update_flat(p: Tensor, grad: Tensor, momentum: Tensor, *rest: Any) -> None:
            if _is_dense(p) and momentum.stride() == p.stride():
                grad = grad if grad.stride() == p.stride() else torch.empty_like(p).copy_(grad)
                update(_flat(p), _flat(grad), _flat(momentum), *rest)
            else:
                LARS._update(p, grad, momentum, *rest)

        self._update = update_flat  # type: ignore[assignment]

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, momentum: Tensor, share: Tensor, lr: float | Tensor, weight_decay: float, kept: float
    ) -> None:
        momentum.mul_(kept).add_((grad + weight_decay * p) * share)
        p.sub_(momentum * lr)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            with_grad = [p for p in group["params"] if p.grad is not None]
            weights, others = [p for p in with_grad if p.dim() > 1], [p for p in with_grad if p.dim() <= 1]
            if weights:
                shares = _shares(weights, [p.grad for p in weights], lr, group["weight_decay"], group["trust"])
                for p, share in zip(weights, shares, strict=True):
                    self._update(p, p.grad, self.state[p]["momentum"], share, lr, group["weight_decay"], momentum)
            if others:
                velocities = [self.state[p]["momentum"] for p in others]
                torch._foreach_mul_(velocities, momentum)
                torch._foreach_add_(velocities, [p.grad for p in others])
                torch._foreach_sub_(others, torch._foreach_mul(velocities, lr))


def _shares(
    weights: list[Tensor], grads: list[Tensor], lr: float | Tensor, weight_decay: float, trust: float
) -> Tensor:
    """Return `(weights,)`, by how much to multiply each gradient."""
    lengths, slopes = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, grads))
    # If both lengths are 0 the quotient must still be finite; such a weight does not change anyway.
    shares = trust * lengths / (slopes + weight_decay * lengths).clamp_min(1e-30) / lr
    # A weight of zeros would be scaled to 0 and never change: it is updated as in SGD.
    return torch.where(lengths == 0, 1.0, shares).clamp_max(1.0)


def _is_dense(tensor: Tensor) -> bool:
    """Whether the numbers lie in memory one after the other."""
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def _flat(tensor: Tensor) -> Tensor:
    """Return the numbers as a vector, in their order in memory.

    A tensor of its own, not a view: the compiler would compile anew for each shape of which a vector is a view.
    """
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return flat.set_(tensor.untyped_storage(), tensor.storage_offset(), (tensor.numel(),), (1,))


def parameter_groups(network: Model, config: TrainConfig) -> list[dict[str, Any]]:
    """Return the parameters to train: the encoder's, which may have a learning rate of their own, and the others."""
    inner = getattr(network.encoder, "encoders", network.encoder)  # of pairs: without the maps to the shared space
    encoder = [parameter for parameter in inner.parameters() if parameter.requires_grad]
    inside = {id(parameter) for parameter in inner.parameters()}
    others = [parameter for parameter in network.parameters() if id(parameter) not in inside]
    groups = [{"params": encoder, _FACTOR: config.encoder_lr}, {"params": others, _FACTOR: 1.0}]
    return [group for group in groups if group["params"]]


def optimiser_of(params: Iterable[Any], config: TrainConfig, device: torch.device) -> Optimizer:
    """Create the optimiser of a config. On CUDA its learning rate is a tensor there, which a recorded step reads.

    Args:
        params: parameters, or the groups of `parameter_groups`.
        config: the settings.
        device: of the parameters.
    """
    optimiser = _optimiser(params, config, device.type == "cuda", device)
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"] = group["lr"].clone()  # one per group, because it is set in place
    return optimiser


def _optimiser(params: Iterable[Any], config: TrainConfig, on_gpu: bool, device: torch.device) -> Optimizer:
    lr = torch.tensor(config.lr, device=device) if on_gpu else config.lr
    if config.optimiser == "lars":
        return LARS(params, lr, config.momentum, config.weight_decay, config.trust)
    if config.optimiser == "sgd":
        return SGD(params, lr, config.momentum, weight_decay=config.weight_decay, fused=on_gpu)
    # The fused version reads its learning rate and step count on the device; on the CPU torch's default is as fast.
    return AdamW(params, lr, weight_decay=config.weight_decay, fused=on_gpu, capturable=on_gpu)


def set_learning_rate(optimiser: Optimizer, lr: float) -> None:
    """Set the learning rate of all groups, in place if it is a tensor, without waiting for the device."""
    for group in optimiser.param_groups:
        own = lr * group.get(_FACTOR, 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def learning_rate(config: TrainConfig, step: int, steps: int, warmup: int) -> float:
    """Return the learning rate of a step: a linear warm-up to `lr`, then a cosine to 0."""
    if step < warmup:
        return config.lr * (step + 1) / warmup
    return config.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def active_share(config: TrainConfig, step: int, steps: int) -> float:
    """Return the share of samples on which features are to be active at a step: it falls by the same factor each step.

    Sparse from the start, features compete before they mean anything, and the encoder learns less.
    """
    done = min(1.0, step / (_FALLING * steps))
    return float((config.first_share or config.share) ** (1 - done) * config.share**done)


def dense_weight(config: TrainConfig, step: int, steps: int) -> float:
    """Return the weight of the loss before the rectifier at a step: it falls by the same amount each step.

    That loss is the same for any rotation of the features. Without it at the end, features settle where they are
    readable, and the encoder keeps what it has learnt.
    """
    done = min(1.0, step / (_FALLING * steps))
    first = config.first_dense_weight or config.dense_weight
    return first + (config.dense_weight - first) * done
