"""Notebooks as pages: executed, with what they print and draw."""

import base64
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient


def executed_page(notebook: Path, page: Path) -> str:
    """Run a notebook from its first cell to its last and return it as Markdown; pictures go beside the page.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    nodes = nbformat.read(notebook, as_version=4)
    client = NotebookClient(nodes, timeout=600, kernel_name="python3", coalesce_streams=True)
    with TemporaryDirectory() as folder:
        client.resources = {"metadata": {"path": folder}}
        client.execute(env={"OMP_NUM_THREADS": "1", **os.environ})  # the arrays are small: more threads only wait
    parts = []
    for number, cell in enumerate(nodes.cells):
        if cell.cell_type == "code":
            parts.append(f"```python\n{cell.source}\n```\n")
            parts += [_shown(output, page.with_name(f"{page.stem}-{number}.png")) for output in cell.outputs]
        else:
            parts.append(f"{cell.source}\n")
    return "\n".join(parts)


def _shown(output: Any, picture: Path) -> str:
    if output.output_type == "stream":
        return "" if output.name == "stderr" else f"```text\n{output.text.rstrip()}\n```\n"
    data = output.data
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![Output of the cell above]({picture.name})\n"
    if "text/html" in data:
        return f"<div>{data['text/html']}</div>\n"
    return f"```text\n{data['text/plain']}\n```\n"
