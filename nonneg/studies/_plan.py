"""The plan of a reproduction: how many seeds and epochs of each part."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from nonneg.errors import InputError
from nonneg.training import load_recipe
from nonneg.validation import check_fields

Activation = Literal["relu", "rep_relu", "softplus", "sigmoid", "exp", "gelu", "leaky_relu"]
Count = Annotated[int, Field(ge=1)]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


@dataclass(frozen=True)
class Plan:
    """Everything that determines a reproduction.

    Attributes:
        recipe: digits, cifar10, cifar100 or imagenet100.
        data: path of the images; the recipe's own data if empty.
        seeds: number of seeds of CL and NCL, from 0 on.
        epochs: epochs of CL and NCL.
        probe_epochs: epochs of the linear layer trained on views.
        fine_tune_epochs: epochs of fine-tuning.
        supervised_epochs: epochs of cross entropy from scratch; fine-tuned runs take `fine_tune_epochs`.
        supervised_seeds: number of seeds of the supervised runs.
        ablation_epochs: epochs of each activation; 0 skips them.
        transfer_to: other data sets on whose features a probe is fitted and evaluated.
        shifted_to: other images of the same classes on which the probe is evaluated.
    """

    recipe: str
    data: str
    seeds: Count
    epochs: Count
    probe_epochs: Count
    fine_tune_epochs: Count
    supervised_epochs: Count
    supervised_seeds: Count
    ablation_epochs: Annotated[int, Field(ge=0)]
    transfer_to: tuple[str, ...] = ()
    shifted_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if self.supervised_seeds > self.seeds:
            raise InputError(f"supervised_seeds is {self.supervised_seeds}, expected at most seeds, {self.seeds}")


# The linear layer and fine-tuning take as many epochs as in the paper. Digits have few samples: an epoch has five
# steps, and a laptop suffices.
_DEFAULTS = {"seeds": 3, "probe_epochs": 50, "fine_tune_epochs": 30, "supervised_epochs": 30, "ablation_epochs": 30}
_DIGITS = {"seeds": 2, "supervised_epochs": 60, "ablation_epochs": 40}


def plan_for(recipe: str, data: str = "", **changes: Any) -> Plan:
    """Return the default plan for a recipe, with some of its numbers changed; None keeps the default.

    Example:
        >>> plan_for("cifar10", data="images.tar", seeds=1).supervised_seeds
        1
    """
    known = ("digits", "cifar10", "cifar100", "imagenet100")
    if recipe not in known:
        raise InputError(f"recipe is {recipe!r}, expected one of {', '.join(known)}")
    if recipe != "digits" and not data:
        raise InputError(f"data is missing, expected the path of the images of {recipe}")
    settings: dict[str, Any] = _DEFAULTS | (_DIGITS if recipe == "digits" else {})
    settings["epochs"], settings["supervised_seeds"] = load_recipe(recipe).epochs, settings["seeds"]
    wanted = {name: value for name, value in changes.items() if value is not None}
    if "seeds" in wanted:
        settings["supervised_seeds"] = min(settings["supervised_seeds"], wanted["seeds"])
    return Plan(recipe, data, **settings | wanted)


def command(plan: Plan) -> str:
    """Return the command line of a plan, with the data's name instead of its path.

    Example:
        >>> command(plan_for("cifar10", data="at/home/images.tar", supervised_epochs=15))
        'nonneg reproduce cifar10 --data images.tar --supervised-epochs 15'
        >>> command(plan_for("cifar10", data="my images.tar"))
        "nonneg reproduce cifar10 --data 'my images.tar'"
        >>> command(plan_for("digits"))
        'nonneg reproduce digits'
    """
    defaults = vars(plan_for(plan.recipe, ".")) | {"data": ""}
    words = [f"nonneg reproduce {plan.recipe}"]
    for name, value in vars(plan).items():
        if value != defaults[name]:
            values = value if isinstance(value, tuple) else (value,)
            shown = (shlex.quote(Path(each).name or each) if isinstance(each, str) else str(each) for each in values)
            words.append(f"--{name.replace('_', '-')} {' '.join(shown)}")
    return " ".join(words)
