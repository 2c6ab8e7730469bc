"""Options that do not go together."""

from typing import Any

from nonneg.errors import InputError


def refuse_given(options: dict[str, Any], expected: str) -> None:
    """Refuse the first option that has a value, in one sentence that says when it is expected."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is given, expected only {expected}")
