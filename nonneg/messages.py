"""Text that is fit to stand in an error message: one line, printable, whatever file names it holds."""


def valid_text(name: str) -> str:
    """A file name as text that can be written anywhere: bytes that are not UTF-8 become `\\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def one_line(error: Exception) -> str:
    """What another library says of a damaged file, fit to stand in a sentence."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def one_sentence(message: str) -> str:
    """A message fit to print, whatever the file names in it: control characters and line breaks become `\\n`.

    Example:
        >>> one_sentence("a\\nb.png holds no image")
        'a\\\\nb.png holds no image'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in valid_text(message)
    )
