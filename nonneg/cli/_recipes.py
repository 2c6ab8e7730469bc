"""What the help says of recipes: their leading comments, read without the imports that training needs."""

from importlib import resources
from pathlib import Path
from typing import NamedTuple

from nonneg.cli._parse import suggestion
from nonneg.errors import InputError

RECIPES = {
    "Your own data": ("images", "text", "pairs", "graph", "graphs"),
    "Bundled data": ("digits", "shapes", "emoji"),
    "The paper's tables": ("cifar10", "cifar100", "imagenet100"),
    "The paper's tables, with labels": ("cifar10-supervised", "cifar100-supervised", "imagenet100-supervised"),
}
UNBUNDLED = ("images", "cifar10", "cifar100", "imagenet100")
"""Data of recipes that only names what --data must give."""

_EXAMPLE = "For example: "


class About(NamedTuple):
    """A recipe's title, which is the first sentence of its leading comment, all of that comment, and an example."""

    title: str
    text: str
    example: str


def about(recipe: str) -> About:
    """Return what a recipe, or a TOML file, says about itself."""
    bundled = Path(str(resources.files("nonneg") / "recipes" / f"{recipe}.toml"))
    lines = (bundled if recipe in _names() else Path(recipe)).read_text(encoding="utf-8").splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    comment = [line.removeprefix("#").strip() for line in lines[:end]]
    examples = [line.removeprefix(_EXAMPLE) for line in comment if line.startswith(_EXAMPLE)]
    text = " ".join(line for line in comment if not line.startswith(_EXAMPLE)) or f"The recipe {recipe}."
    title = text.split(". ")[0].removesuffix(".") + "."
    return About(title, text, examples[0] if examples else f"nonneg train {recipe} --seed 1")


def titles() -> dict[str, dict[str, str]]:
    """Return the titles of the package's recipes, in groups."""
    return {group: {name: about(name).title for name in names} for group, names in RECIPES.items()}


def require_recipe(recipe: str) -> None:
    """Raise an error for a recipe that is neither one of the package's nor a file, with the one probably meant."""
    if recipe not in _names() and not Path(recipe).exists():
        found = f"recipe {recipe!r} is neither a file nor one that nonneg train --help lists"
        raise InputError(f"{found}{suggestion(recipe, _names())}")


def _names() -> list[str]:
    return [name for names in RECIPES.values() for name in names]
