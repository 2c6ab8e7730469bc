"""A static copy in one file: scripts, styles, data and images within the page, so that it opens without a server."""

import base64
import hashlib
import json
import re
from importlib.resources.abc import Traversable
from typing import Any

from nonneg.features import data_uri

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./(\w+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.M)


def single_page(page: str, static: Traversable, data: dict[str, Any], media: dict[str, bytes]) -> str:
    """Return a page that holds everything it needs.

    Args:
        page: the page that loads its scripts and styles from files.
        static: the folder of those files.
        data: answers by their names.
        media: encoded images by set and row, as in `0/17`.
    """
    script = _script(static, "app")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Only this one script may run, and nothing may be loaded from anywhere.
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    pictures = {name: data_uri(each) for name, each in media.items()}
    content = json.dumps({"data": data, "media": pictures}, ensure_ascii=False, separators=(",", ":"))
    styles = (static / "style.css").read_text("utf-8")
    icon = base64.b64encode((static / "icon.svg").read_bytes()).decode()
    replaced = {
        '<base href="/">': f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        'href="static/icon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        '<link rel="stylesheet" href="static/style.css">': f"<style>\n{styles}</style>",
        '<script type="module" src="static/app.js"></script>\n': "",
        # A "<" could end the element.
        "</body>": f'<script id="copy" type="application/json">{content.replace("<", chr(92) + "u003c")}</script>\n'
        f"<script>{script}</script>\n</body>",
        "<html ": '<html data-mode="static" ',
    }
    for old, new in replaced.items():
        if page.count(old) != 1:
            raise AssertionError(f"the page has {page.count(old)} of {old}, expected one")
        page = page.replace(old, new)
    return page


def _script(static: Traversable, entry: str) -> str:
    """Join modules into one script: each becomes a function that returns its exports, after those that it imports."""
    parts: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise AssertionError(f"{name}.js imports itself through {', '.join(above)}, expected no cycle")
        if name in parts:
            return
        text = (static / f"{name}.js").read_text("utf-8")
        for _, other in _IMPORT.findall(text):
            add(other, (*above, name))
        exports = ", ".join(_EXPORT.findall(text))
        text = _IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = from_{found[2]};\n", text)
        parts[name] = f"const from_{name} = (() => {{\n{_EXPORT.sub('', text)}\nreturn {{ {exports} }};\n}})();\n"

    add(entry, ())
    return '"use strict";\n' + "".join(parts.values()).replace("</script", "<\\/script")
