"""Optional packages, which are installed by extras such as `nonneg[page]`."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from nonneg.errors import InputError
from nonneg.messages import one_line


@contextmanager
def needs_extra(extra: str, needed_for: str, package: str = "a package") -> Iterator[None]:
    """Import optional packages in this context.

    Args:
        extra: the extra that installs them.
        needed_for: what needs them, for the error message.
        package: the name of the package, for the error message, if there is only one.

    Raises:
        InputError: if one cannot be imported, with the command that installs it.

    Example:
        >>> with needs_extra("page", "nonneg explore"):
        ...     import not_there
        Traceback (most recent call last):
        nonneg.errors.InputError: nonneg explore needs the package not_there, which is not installed: pip install \
'nonneg[page]'
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # a package built for another torch, for example, raises RuntimeError
        raise InputError(f"{needed_for} needs {_missing(package, error)}: pip install 'nonneg[{extra}]'") from error


def import_extra(package: str, needed_for: str, extra: str | None = None) -> Any:
    """Import an optional package by name; `extra` is the extra that installs it, if it has another name."""
    with needs_extra(extra or package, repr(needed_for), f"the package {package}"):
        return importlib.import_module(package)


def require_installed(package: str, needed_for: str, extra: str) -> None:
    """Raise an error unless an optional package is installed; it is not imported."""
    with needs_extra(extra, needed_for):
        if not is_installed(package):
            raise ModuleNotFoundError(name=package)


def is_installed(package: str) -> bool:
    """Return whether an optional package is installed; it is not imported."""
    return find_spec(package) is not None


def _missing(package: str, error: Exception) -> str:
    """Say which package is not installed, or that one cannot be imported."""
    if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name:
        return f"the package {error.name}, which is not installed"
    return f"{package} that cannot be imported ({one_line(error)})"
