"""A description of the machine and software, printed with every result."""

from nonneg.devices import choose_device
from nonneg.environment import environment


def described() -> str:
    """Return device, versions and commit in one line."""
    made = environment(choose_device())
    packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
    return f"{made['device']}, {made['cores']} cores; Python {made['python']}, {packages}; commit {made['commit']}"
