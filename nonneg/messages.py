"""Text that is safe in error messages, tables and logs: valid, in one line, without control characters."""

import re
import unicodedata

LEAVE_OUT = "skip_broken (--skip-broken of train and embed) leaves such rows out"
_INVISIBLE = ("Cc", "Cs", "Zl", "Zp")  # Unicode categories: control, surrogate, line and paragraph separators


def valid_text(name: str) -> str:
    """Return a file name as valid text: bytes that are not UTF-8 become `\\xff`, other surrogates `\\ud800`."""
    without = re.sub(r"[\ud800-\udc7f\udd00-\udfff]", lambda found: ascii(found[0])[1:-1], name)
    return without.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def one_line(error: Exception) -> str:
    """Return the message of another library's error in one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number of things in words; the plural ends in s unless it is given.

    Example:
        >>> counted(1, "row"), counted(1200, "row"), counted(2, "class", "classes")
        ('1 row', '1,200 rows', '2 classes')
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def one_sentence(message: str) -> str:
    """Return a message that can be printed whatever file names it holds: invisible characters become escapes.

    Example:
        >>> one_sentence("a\\nb.png holds no image")
        'a\\\\nb.png holds no image'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in valid_text(message)
    )


def escaped(text: str) -> str:
    """Return the text in one line, with line breaks and control characters as Python escapes.

    Example:
        >>> print(escaped("two\\nlines, 🦊"))
        two\\nlines, 🦊
    """
    if text.isprintable():  # the common case
        return text
    kinds = ((character, unicodedata.category(character)) for character in text)
    return "".join(c.encode("unicode_escape").decode() if kind in _INVISIBLE else c for c, kind in kinds)
