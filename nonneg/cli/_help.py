"""Help for people: commands in groups, options without noise, and suggestions for mistyped words."""

import difflib
import functools
import io
import re
import shutil
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

from nonneg.errors import InputError

File = Annotated[str | None, tyro.conf.arg(metavar="FILE")]
_TYPES = {str: "TEXT", int: "INT", float: "FLOAT"}


def overview(description: str, groups: Mapping[str, Mapping[str, Callable[..., Any]]]) -> str:
    """Return the help of the whole program: commands in groups, each with the first sentence of its help."""
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    names = max(len(name) for commands in groups.values() for name in commands)
    lines = ["usage: nonneg COMMAND [OPTIONS]", "", description]
    for title, commands in groups.items():
        lines += ["", title]
        for name, command in commands.items():
            first = (command.__doc__ or "").splitlines()[0]
            indent = " " * (names + 4)
            lines += textwrap.wrap(first, width, initial_indent=f"  {name:{names}}  ", subsequent_indent=indent)
    return "\n".join(
        [*lines, "", "nonneg COMMAND --help shows its options and an example; nonneg --version the version."]
    )


def parse(function: Callable[..., Any], prog: str, arguments: list[str], both_flags: bool = False) -> Any:
    """Parse the arguments of a function and call it, without the noise of tyro's defaults.

    Args:
        function: what to call; its annotations and docstring describe the options.
        prog: the words before the arguments.
        arguments: the words.
        both_flags: accept `--no-x` beside `--x` whatever the default is.

    Raises:
        InputError: for an unknown option, with the one that was probably meant, and where a nested config rejects a
            value.
    """
    config = () if both_flags else (tyro.conf.FlagCreatePairsOff,)
    parser = functools.partial(tyro.cli, _tidied(function), prog=prog, config=config)
    messages = io.StringIO()
    try:
        with redirect_stderr(messages):
            return parser(args=arguments)
    except SystemExit as stopped:
        rejected = stopped.__context__ and stopped.__context__.__context__  # tyro shows it in a box and exits
        if isinstance(rejected, InputError):
            raise rejected from None
        if stopped.code:
            _check_options(parser, prog, arguments)
        sys.stderr.write(messages.getvalue())
        raise


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the word that is most like a mistyped one, or nothing."""
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _check_options(parser: Callable[..., Any], prog: str, arguments: list[str]) -> None:
    """Raise an error for the first option that the help does not list."""
    text = io.StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        parser(args=["--help"])
    known = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w|(?<![\w-])--[a-z](?![\w-])", text.getvalue()))
    for argument in arguments:
        option = argument.split("=")[0].replace("_", "-")
        if re.match("--[a-z]", option) and option not in known:
            raise InputError(f"{option} is not an option of {prog}{suggestion(option, known)}")


def _tidied(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the same options, described for people: `--labels TEXT`, without `None` for no value."""

    hints = get_type_hints(function, include_extras=True)
    given = signature(function)
    parameters = [
        each.replace(annotation=tidied_hint(hints[each.name], each.default)) for each in given.parameters.values()
    ]

    def tidied(*values: Any, **named: Any) -> Any:
        return function(*values, **named)

    tidied.__doc__ = function.__doc__
    tidied.__annotations__ = {each.name: each.annotation for each in parameters}
    tidied.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
    return tidied


def tidied_hint(hint: Any, default: Any) -> Any:
    """Return the annotation of an option, with a plain metavar and without a default of None, True or False."""
    if default is Parameter.empty:
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        return Annotated[hint, tyro.conf.arg(help_behavior_hint="(one or more)")] if get_origin(kind) is tuple else hint
    if default is None or default in ((), ""):  # the help says what happens without a value
        return Annotated[_named(hint), tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")]
    if isinstance(default, bool):  # of a flag that is on, the help describes what `--no-x` does
        return Annotated[hint, tyro.conf.arg(help_behavior_hint="")]
    return _named(hint, "|None")


def _named(hint: Any, ending: str = "") -> Any:
    """Return an optional type with the plain name of its values as metavar, unless it has one already."""
    if get_origin(hint) is not types.UnionType:
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    name = _TYPES.get(kinds[0]) if len(kinds) == 1 else None
    return hint if name is None else Annotated[hint, tyro.conf.arg(metavar=f"{name}{ending}")]
