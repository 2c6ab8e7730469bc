"""An extension of griffe, which reads the docstrings: a section `Example:` holds doctests, as `Examples:` does."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the sections, so that their content is shown as code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
