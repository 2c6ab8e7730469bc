"""Parsing of arguments by tyro, whose rejections become one sentence each."""

import difflib
import functools
import io
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout, suppress
from typing import Any

import tyro

from nonneg.cli._help import laid_out, tidied, tidied_fields, usage_of, value_type
from nonneg.errors import InputError

_EXPECTED = {int: "a whole number", float: "a number"}


def parse(
    function: Callable[..., Any],
    prog: str,
    arguments: Sequence[str],
    both_flags: bool = False,
    notes: Mapping[str, Any] | None = None,
) -> Any:
    """Parse the arguments of a function and call it, without the noise of tyro's defaults.

    Args:
        function: what to call; its annotations and docstring describe the options.
        prog: the words before the arguments.
        arguments: the words.
        both_flags: accept `--no-x` beside `--x` whatever the default is.
        notes: further annotations of fields of nested dataclasses, by name.

    Raises:
        InputError: for an unknown option, with the one that was probably meant; for a missing argument; and for a value
            of another type, or one that a nested config rejects.
    """
    if {"-h", "--help"} & set(arguments):
        arguments = ["--help"]  # the help leaves out arguments that precede it
    config = () if both_flags else (tyro.conf.FlagCreatePairsOff,)
    registry = tidied_fields(both_flags, notes or {})
    parser = functools.partial(tyro.cli, tidied(function), prog=prog, config=config, registry=registry)
    shown, messages, rejections = _Captured(), io.StringIO(), list[Any]()
    try:
        with _on_rejection(rejections.append), redirect_stdout(shown), redirect_stderr(messages):
            return parser(args=arguments)
    except SystemExit as stopped:
        if not stopped.code:
            print(laid_out(shown.getvalue()), end="")
            raise
        text = _help_text(parser)
        _check_options(text, prog, arguments)
        for rejection in rejections:
            if sentence := _sentence(rejection, usage_of(text), arguments):
                raise InputError(sentence) from None
        sys.stderr.write(messages.getvalue())
        raise


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the word that is most like a mistyped one, or nothing."""
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


class _Captured(io.StringIO):
    """Captures help with the boxes and colours that it would have on standard output."""

    def __init__(self) -> None:
        super().__init__()
        self._shown_on = sys.stdout

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._shown_on.encoding

    def isatty(self) -> bool:
        return self._shown_on.isatty()


def _on_rejection(hook: Callable[[Any], None]) -> AbstractContextManager[None]:
    """Call `hook` with what tyro rejects. Its hook is private and may change: without it, tyro's own messages show."""
    try:
        from tyro._errors import on_parse_error
    except ImportError:
        return nullcontext()
    return on_parse_error(hook)


def _help_text(parser: Callable[..., Any]) -> str:
    text = io.StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        parser(args=["--help"])
    return text.getvalue()


def _check_options(text: str, prog: str, arguments: Iterable[str]) -> None:
    """Raise an error for the first option that the help text does not list."""
    known = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*\w|(?<![\w-])--[a-z](?![\w-])", text))
    for argument in arguments:
        option = argument.split("=")[0].replace("_", "-")
        if re.match("--?[A-Za-z]", option) and option not in known:
            raise InputError(f"{option} is not an option of {prog}{suggestion(option, known)}")


def _sentence(rejection: Any, usage: str, arguments: Sequence[str]) -> str | None:
    """Say in one sentence what tyro rejects, or nothing if that is unknown here."""
    match rejection:
        case object(missing_arguments=[*missing]):
            names = [_name(each.arg) for each in missing]
            return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing: {usage}"
        case object(tokens=[first, *_]):
            return f"{first!r} is given, expected no more than {usage} [OPTIONS]"
        case object(choices=choices, value=value, argument=argument):
            expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
            return f"{_name(argument)} is {value!r}, expected {expected}{suggestion(value, choices)}"
        case object(reason="too_few_values", argument=argument):
            return f"{_name(argument)} is given without a value, expected {_expected(argument)}"
        case object(message=str(message), argument=None):
            return message
        case object(message=str(), argument=argument):
            return f"{_name(argument)} is {_words(_name(argument), arguments)!r}, expected {_expected(argument)}"
    return None


def _name(argument: Any) -> str:
    return str(argument.lowered.metavar if argument.is_positional() else argument.lowered.name_or_flags[-1])


def _expected(argument: Any) -> str:
    """Say of which type an option's values are."""
    kind = argument.field.type_stripped
    word = _EXPECTED.get(value_type(kind))
    if word is None:
        return str(argument.lowered.metavar)
    if argument.lowered.nargs == "*":
        return f"{word.removeprefix('a ')}s"
    takes_none = isinstance(kind, types.UnionType) and tyro.conf.DisallowNone not in argument.field.markers
    return f"{word} or None" if takes_none else word


def _words(option: str, arguments: Sequence[str]) -> str:
    """Return the words that were given for an option."""
    words: list[str] = []
    is_own = False
    for argument in arguments:
        word = argument
        if argument.startswith("--"):
            name, _, word = argument.partition("=")
            is_own = name.replace("_", "-") == option
        words += [word] if is_own and word else []
    return " ".join(words)
