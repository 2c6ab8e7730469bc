"""Every public name has an entry in the API reference."""

import importlib
import re
import zlib
from pathlib import Path

_DIRECTIVE = re.compile(r"^::: (\S+)", re.MULTILINE)


def missing_names(site: Path, reference: Path) -> list[str]:
    """Return the names that the documented modules make public and that the built site's inventory lacks."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}
    documented = {name for page in reference.glob("*.md") for name in _DIRECTIVE.findall(page.read_text("utf-8"))}
    names = {name for module in documented | {"nonneg"} for name in public_names(module)}
    return sorted(names - entries - documented)


def public_names(module: str) -> list[str]:
    """Return the full names in a module's `__all__`, or of what it defines without an underscore."""
    found = importlib.import_module(module)
    own = [name for name, value in vars(found).items() if getattr(value, "__module__", None) == module]
    names = getattr(found, "__all__", own)
    return [f"{module}.{name}" for name in names if not name.startswith("_")]
