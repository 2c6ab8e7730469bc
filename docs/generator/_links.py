"""Every link of the built site leads to a file and an anchor that exist, and nothing is loaded from elsewhere."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


def broken_links(site: Path) -> list[str]:
    """Return a sentence for each broken link of the pages in a folder."""
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    return [problem for page in pages for problem in _broken_on(page)]


def _broken_on(page: Path) -> list[str]:
    found = []
    for link, is_loaded in _read(page).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if is_loaded and parts.scheme != "data":
                found.append(f"{page}: loads {link} from another server")
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
        target = target / "index.html" if target.is_dir() else target
        anchor = unquote(parts.fragment)
        if not target.is_file():
            found.append(f"{page}: {link} does not exist")
        elif anchor and target.suffix == ".html" and anchor not in _read(target).ids | {"__skip"}:
            found.append(f"{page}: {link} has no such anchor")
    return found


class _Page(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, bool]] = []  # and whether a browser loads it by itself
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.ids.add(value or "")
            elif value and (name == "src" or (name == "href" and tag in ("a", "link"))):
                self.links.append((value, tag != "a"))


@cache
def _read(page: Path) -> _Page:
    parser = _Page()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser
