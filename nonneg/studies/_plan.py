"""What `reproduce` does for a recipe: how many seeds and epochs of each part."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from nonneg.errors import InputError

Activation = Literal["relu", "rep_relu", "softplus", "sigmoid", "exp", "gelu", "leaky_relu"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


@dataclass(frozen=True)
class Plan:
    """Everything that decides a reproduction.

    Attributes:
        recipe: digits, cifar10, cifar100 or imagenet100.
        data: where the images are; the recipe's own if empty.
        seeds: how many of CL and NCL, from 0 on.
        epochs: of CL and NCL; 0 is the recipe's.
        probe_epochs: of the linear layer trained on views.
        fine_tune_epochs: of fine-tuning.
        supervised_epochs: of cross entropy from scratch; fine-tuned from CL and NCL it takes `fine_tune_epochs`.
        supervised_seeds: how many of those.
        ablation_epochs: of each activation.
        transfer_to: other data sets, on whose features a probe is fitted and told.
        shifted_to: other images of the same classes, which the probe is told.
    """

    recipe: str
    data: str
    seeds: int
    epochs: int
    probe_epochs: int
    fine_tune_epochs: int
    supervised_epochs: int
    supervised_seeds: int
    ablation_epochs: int
    transfer_to: tuple[str, ...] = ()
    shifted_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seeds", "probe_epochs", "fine_tune_epochs", "supervised_epochs", "supervised_seeds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("epochs", "ablation_epochs"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least 0")
        if self.supervised_seeds > self.seeds:
            raise InputError(f"supervised_seeds is {self.supervised_seeds}, expected at most seeds, {self.seeds}")


# Linear layer and fine-tuning as in the paper. Digits have few samples: an epoch is five steps there, and a laptop
# does all of it.
_FULL = Plan("", "", 3, 0, 50, 30, 30, 3, 30)
_DIGITS = Plan("digits", "", 2, 0, 50, 30, 60, 2, 40)


def plan_for(recipe: str, data: str = "", **changes: Any) -> Plan:
    """The usual plan for a recipe, with some of its numbers changed; changes of -1 keep the usual.

    Example:
        >>> plan_for("cifar10", data="images.tar", seeds=1, supervised_seeds=1).fine_tune_epochs
        30
    """
    known = ("digits", "cifar10", "cifar100", "imagenet100")
    if recipe not in known:
        raise InputError(f"recipe is {recipe!r}, expected one of {', '.join(known)}")
    if recipe != "digits" and not data:
        raise InputError(f"data is missing, expected the path of the images of {recipe}")
    usual: dict[str, Any] = vars(_DIGITS if recipe == "digits" else _FULL)
    wanted = {name: value for name, value in changes.items() if value != -1}
    if "seeds" in wanted and "supervised_seeds" not in wanted:
        wanted["supervised_seeds"] = min(int(usual["supervised_seeds"]), wanted["seeds"])
    return Plan(**{**usual, "recipe": recipe, "data": data, **wanted})


def command(plan: Plan) -> str:
    """What to type for a plan; of data, the name alone.

    Example:
        >>> command(plan_for("cifar10", data="at/home/images.tar", supervised_epochs=15))
        'nonneg reproduce cifar10 --data images.tar --supervised-epochs 15'
        >>> command(plan_for("cifar10", data="my images.tar"))
        "nonneg reproduce cifar10 --data 'my images.tar'"
        >>> command(plan_for("digits"))
        'nonneg reproduce digits'
    """
    usual = vars(plan_for(plan.recipe, ".")) | {"data": ""}
    words = [f"nonneg reproduce {plan.recipe}"]
    for name, value in vars(plan).items():
        if value != usual[name]:
            values = value if isinstance(value, tuple) else (value,)
            shown = (shlex.quote(Path(each).name or each) if isinstance(each, str) else str(each) for each in values)
            words.append(f"--{name.replace('_', '-')} {' '.join(shown)}")
    return " ".join(words)
