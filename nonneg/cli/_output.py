"""How commands print their results."""

import sys
from typing import Any


def print_result(result: Any, json: bool = False) -> None:
    """Print a result as JSON, as a table on a terminal, or as Markdown, which is not wrapped, to a file."""
    if json:
        from json import dumps

        print(dumps(result.to_dict(), indent=1))
    elif sys.stdout.isatty() or not hasattr(result, "markdown"):
        from rich.console import Console

        Console().print(result)
    else:
        print(result.markdown(), end="")
