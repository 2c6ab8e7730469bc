"""Settings checked by name: types and bounds are read from a dataclass's annotations, by pydantic."""

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from nonneg.errors import InputError

_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more values",
}
_TYPES = {
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "tuple_type": "a list",
}


def check_type(name: str, value: Any, kind: Any, expected: str) -> None:
    """Raise an error unless an argument is an instance of a class, or of one of several."""
    if not isinstance(value, kind):
        found = "None" if value is None else f"a {type(value).__name__}"
        raise InputError(f"{name} is {found}, expected {expected}")


def check_fields(settings: Any, prefix: str = "") -> None:
    """Check every field of a dataclass against its annotation; call it from `__post_init__`.

    Whole numbers are accepted for floats and lists for tuples; nothing else is converted.

    Args:
        settings: an instance of a dataclass whose annotations may hold pydantic's bounds, such as
            `Annotated[int, Field(ge=1)]`.
        prefix: precedes the field's name in errors.

    Raises:
        InputError: names the field, its value and what was expected.
    """
    for name, adapter in _adapters(type(settings)).items():  # type: ignore[arg-type]
        value = getattr(settings, name)
        value = tuple(value) if isinstance(value, list) else value
        try:
            object.__setattr__(settings, name, adapter.validate_python(value, strict=True))
        except ValidationError as error:
            raise InputError(f"{prefix}{name} is {value!r}, expected {_expected(error)}") from None


def build(cls: type[Any], content: Mapping[str, Any], prefix: str = "") -> Any:
    """An instance of a dataclass from a table, such as TOML's; unknown keys are an error.

    A nested dataclass is built from a nested table, by its method `from_table` where it has one.
    """
    hints = typing.get_type_hints(cls)
    known = [field.name for field in dataclasses.fields(cls) if field.init]
    for key in content:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            raise InputError(f"{prefix}{key} is not a field" + (f"; did you mean {prefix}{close[0]}?" if close else ""))
    return cls(**{key: _nested(hints[key], value, f"{prefix}{key}") for key, value in content.items()})


def _nested(hint: Any, value: Any, name: str) -> Any:
    if not dataclasses.is_dataclass(hint) or isinstance(value, typing.cast(type[Any], hint)):
        return value
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is {value!r}, expected a table")
    return getattr(hint, "from_table", partial(build, typing.cast(type[Any], hint)))(value, f"{name}.")


@cache
def _adapters(cls: Any) -> dict[str, TypeAdapter[Any]]:
    """One per field that is not a dataclass itself: those have checked themselves."""
    hints = typing.get_type_hints(cls, include_extras=True)
    plain = [field.name for field in dataclasses.fields(cls) if not dataclasses.is_dataclass(hints[field.name])]
    return {name: TypeAdapter(hints[name], config=ConfigDict(allow_inf_nan=False)) for name in plain}


def _expected(error: ValidationError) -> str:
    found = error.errors()[0]
    kind, context = found["type"], found.get("ctx", {})
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**{name: str(bound).removesuffix(".0") for name, bound in context.items()})
    if kind == "literal_error":
        return f"one of {context['expected'].replace(' or ', ', ').replace(chr(39), '')}"
    return _TYPES.get(kind, found["msg"])
