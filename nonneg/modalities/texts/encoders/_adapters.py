"""Low-rank adapters: few weights beside a pretrained encoder's own, which stay as they are. Needs the extra."""

from typing import Any

from torch import nn

from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line

_SCALE = 2  # of what adapters add, for any rank, as is usual


def add_adapters(backbone: nn.Module, rank: int) -> None:
    """Put an adapter of this rank beside each linear layer; only adapters are trained."""
    library: Any = import_extra("peft", "adapters", extra="adapters")
    config = library.LoraConfig(r=rank, lora_alpha=_SCALE * rank, target_modules="all-linear")
    try:
        library.inject_adapter_in_model(config, backbone)
    except ValueError as error:
        raise InputError(f"adapters is {rank}, and no adapter fits this encoder: {one_line(error)}") from error


def merge_adapters(backbone: nn.Module) -> None:
    """Add what the adapters have learnt to the encoder's own weights, and remove them."""
    adapted = [name for name, module in backbone.named_modules() if hasattr(module, "get_base_layer")]
    for name in adapted:
        layer: Any = backbone.get_submodule(name)
        layer.merge(safe_merge=True)
        parent, _, own = name.rpartition(".")
        setattr(backbone.get_submodule(parent), own, layer.get_base_layer())
    backbone.requires_grad_(True)
