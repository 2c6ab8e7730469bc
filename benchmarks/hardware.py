"""What figures depend on besides the code: printed with them."""

import torch

from nonneg.environment import environment


def described() -> str:
    """Device, versions and commit, in one line."""
    made = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    packages = ", ".join(f"{name} {version}" for name, version in made["packages"].items())
    return f"{made['device']}, {made['cores']} cores; Python {made['python']}, {packages}; commit {made['commit']}"
