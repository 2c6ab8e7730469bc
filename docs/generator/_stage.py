"""The pages that the site is built from: those in docs/, and those made from notebooks, help texts and sources."""

import re
import shutil
from functools import partial
from os.path import relpath
from pathlib import Path

from docs.generator._commands import command_reference
from docs.generator._exports import exported_questions
from docs.generator._notebooks import executed_page

_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
_COMMANDS, _EXPORT = "<!-- commands -->", "<!-- export -->"


def stage(root: Path, out: Path) -> None:
    """Write all pages to a new folder. Links to files outside docs/ lead to copies of these files."""
    shutil.rmtree(out, ignore_errors=True)
    docs = root / "docs"
    shutil.copytree(docs, out, ignore=shutil.ignore_patterns("*.py", "*.ipynb", "__pycache__", "generator"))
    for notebook in sorted(docs.rglob("*.ipynb")):
        page = out / notebook.relative_to(docs).with_suffix(".md")
        page.write_text(executed_page(notebook, page), encoding="utf-8")
    for page in sorted(out.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _COMMANDS in text:
            text = text.replace(_COMMANDS, command_reference())
        if _EXPORT in text:
            exported_questions(docs / "quickstart.md", page.with_name("questions.html"))
            text = text.replace(_EXPORT, "[Open this page](questions.html)")
        retarget = partial(_with_target, source=docs / page.relative_to(out), page=page, root=root, out=out)
        page.write_text(_LINK.sub(retarget, text), encoding="utf-8")


def _with_target(link: re.Match[str], source: Path, page: Path, root: Path, out: Path) -> str:
    """Return a link as the site needs it: a notebook is a page, and a file outside docs/ becomes one."""
    target = (source.parent / link[1]).resolve()
    if target.suffix == ".ipynb":
        return link[0].replace(".ipynb", ".md")
    if target.is_relative_to(root / "docs") or not target.is_file():
        return link[0]
    copy = out / "files" / target.relative_to(root)
    copy = copy if copy.suffix == ".md" else copy.with_name(f"{copy.name}.md")
    copy.parent.mkdir(parents=True, exist_ok=True)
    text = target.read_text(encoding="utf-8")
    copy.write_text(text if target.suffix == ".md" else f"# {target.name}\n\n```python\n{text}```\n", encoding="utf-8")
    return f"]({relpath(copy, page.parent)}"
