"""Help for people: lists of commands and recipes, options without noise, and the layout of both."""

import dataclasses
import functools
import inspect
import re
import shutil
import textwrap
import types
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

File = Annotated[str | None, tyro.conf.arg(metavar="FILE")]
_METAVARS = {str: "TEXT", int: "INT", float: "NUMBER", Path: "PATH"}
_LONG = 8  # characters of a number, above which the help rounds it
_UNCHANGED = object()  # marks a dataclass whose fields tyro is to describe itself


def overview(usage: str, description: str, groups: Mapping[str, Mapping[str, str]], ending: str) -> str:
    """Return a help text that lists commands or recipes in groups, each with a sentence."""
    names = max(len(name) for entries in groups.values() for name in entries)
    lines = [f"usage: {usage}", "", *_wrapped(description)]
    for title, entries in groups.items():
        lines += ["", title]
        for name, sentence in entries.items():
            indent = " " * (names + 4)
            lines += textwrap.wrap(sentence, _width(), initial_indent=f"  {name:{names}}  ", subsequent_indent=indent)
    return "\n".join([*lines, "", *_wrapped(ending)])


def usage_of(text: str) -> str:
    """Return the command of tyro's help text with the arguments that it needs: nonneg export FEATURES_OR_RUN SITE."""
    first = re.sub(r"\x1b\[[\d;]*m", "", text.partition("\n")[0])  # without colours
    return re.sub(r" \[[^]]*\]", "", first.removeprefix("usage: "))


def laid_out(text: str) -> str:
    """Return tyro's help text with a short usage and a wrapped description, which tyro prints in one line."""
    if "usage:" not in text.partition("\n")[0]:
        return text  # a script that completes commands
    return "\n".join([f"usage: {usage_of(text)} [OPTIONS]", *_wrapped(text.partition("\n")[2]), ""])


def _wrapped(text: str) -> list[str]:
    """Return the lines of a text, its sentences wrapped; examples, lists and boxes stay as they are."""
    lines = (
        [line] if not line[:1].isalpha() else textwrap.wrap(line, _width(), break_on_hyphens=False)
        for line in text.splitlines()
    )
    return [line for part in lines for line in part]


def _width() -> int:
    return max(60, min(shutil.get_terminal_size().columns, 120))


# Options


def tidied(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the same options, described for people: `--labels TEXT`, without `None` for no value."""

    hints = get_type_hints(function, include_extras=True)
    given = signature(function)
    parameters = [
        each.replace(annotation=tidied_hint(hints[each.name], each.default)) for each in given.parameters.values()
    ]

    def same(*values: Any, **named: Any) -> Any:
        return function(*values, **named)

    # The second and later lines about an argument are indented by 8.
    same.__doc__ = re.sub(r"\n {8,}", " ", inspect.cleandoc(function.__doc__ or ""))
    same.__annotations__ = {each.name: each.annotation for each in parameters}
    same.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
    return same


def tidied_fields(both_flags: bool, notes: Mapping[str, Any]) -> ConstructorRegistry:
    """Return tyro's rules with one more, by which the fields of dataclasses are described as options of functions are.

    Args:
        both_flags: whether `--no-x` is accepted beside `--x`.
        notes: further annotations of fields, by name.
    """
    registry = ConstructorRegistry()

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        if not dataclasses.is_dataclass(info.type) or _UNCHANGED in info.markers:
            return None
        plain = ConstructorRegistry.get_struct_spec(dataclasses.replace(info, markers=(*info.markers, _UNCHANGED)))
        if not isinstance(plain, StructConstructorSpec):
            return None
        return dataclasses.replace(plain, fields=tuple(map(tidied_field, plain.fields)))

    def tidied_field(field: StructFieldSpec) -> StructFieldSpec:
        hint: Any = tidied_hint(field.type, field.default, both_flags)
        if field.name in notes:
            hint = Annotated[hint, notes[field.name]]
        return dataclasses.replace(field, type=hint, helptext=functools.partial(_in_one_line, field.helptext))

    return registry


def _in_one_line(text: str | Callable[[], str | None] | None) -> str | None:
    text = text() if callable(text) else text
    return text and " ".join(text.split())


def tidied_hint(hint: Any, default: Any, both_flags: bool = False) -> Any:
    """Return the annotation of an option, with a plain metavar, and with its default where that says something."""
    kind, *own = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if dataclasses.is_dataclass(kind):
        return hint
    if default in (Parameter.empty, tyro.MISSING_NONPROP):
        several = tyro.conf.arg(help_behavior_hint="(one or more)")
        return Annotated[kind, several, *own] if get_origin(kind) is tuple else hint
    said = tyro.conf.arg(metavar=_metavar(kind, default), help_behavior_hint=_default(default, both_flags))
    return Annotated[kind, said, *((tyro.conf.DisallowNone,) if default is None else ()), *own]


def value_type(kind: Any) -> Any:
    """Return the type of one value: int for `int | None`, float for `tuple[Annotated[float, …], ...]`."""
    while isinstance(kind, types.UnionType) or get_origin(kind) in (Annotated, tuple):
        kind = get_args(kind)[0]
    return kind


def _metavar(kind: Any, default: Any) -> str | None:
    """Return what stands for an option's value: INT, or NUMBER ... for several; None for a flag or given choices."""
    name = _METAVARS.get(value_type(kind))
    if name is None or get_origin(kind) is tuple:
        return name and f"{name} ..."
    return f"{name}|None" if isinstance(kind, types.UnionType) and default is not None else name


def _default(default: Any, both_flags: bool) -> str:
    """Return the default for the help; nothing where the help says what happens without a value."""
    if isinstance(default, bool):  # of a flag that is on, the help of `--no-x` says what it does
        return "(default: on)" if default and both_flags else ""
    if default is None or default in ((), ""):
        return ""
    values = default if isinstance(default, tuple) else (default,)
    return f"(default: {' '.join(map(_short, values))})"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) and len(str(value)) > _LONG else str(value)
