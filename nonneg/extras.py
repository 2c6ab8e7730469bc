"""Optional packages, which are installed by extras such as `nonneg[timm]`."""

import importlib
from typing import Any

from nonneg.errors import InputError
from nonneg.messages import one_line


def import_extra(package: str, needed_for: str, extra: str | None = None) -> Any:
    """Import an optional package.

    Args:
        package: the module to import.
        needed_for: what needs it, for the error message.
        extra: the extra that installs it, if it has another name.

    Raises:
        InputError: if it cannot be imported, with the command that installs it.
    """
    try:
        return importlib.import_module(package)
    except Exception as error:  # a package built for another torch, for example, raises RuntimeError
        raise InputError(
            f"{needed_for!r} needs the package {package}, which cannot be imported ({one_line(error)}):"
            f" pip install 'nonneg[{extra or package}]'"
        ) from error
