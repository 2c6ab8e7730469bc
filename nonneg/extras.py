"""Packages that only an extra installs."""

import importlib
from typing import Any

from nonneg.errors import InputError
from nonneg.messages import one_line


def import_extra(package: str, needed_for: str, extra: str | None = None) -> Any:
    """Import a package that only an extra installs; one sentence says how to install it if it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise InputError(
            f"{needed_for!r} needs the package {package}, which cannot be imported ({one_line(error)}):"
            f" pip install 'nonneg[{extra or package}]'"
        ) from error
