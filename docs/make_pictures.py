"""Retake the pictures of the page on CIFAR-10: `python docs/make_pictures.py CL.features NCL.features`.

The features are those of the test images, with the images, by the recipe `cifar10` with `--epochs 40`, CL with
`--rectify none`. What is shown is chosen by rule. Needs Playwright, Chromium and Pillow.

To look at the whole page before a release, `python docs/make_pictures.py FEATURES_OR_RUN … --every-page FOLDER` takes
every page of any one or two sets, on a desktop and on a phone, light and dark.
"""

import argparse
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from nonneg import Features
from nonneg.explorer import Explorer, open_explorer
from nonneg.explorer import Page as ServedPage

_LEAST_ACTIVE = 0.03  # share of the images on which a feature that is shown alone is active
_CANDIDATES = 200  # images from which the one with a feature switched off is chosen
_MOST_BYTES = 400_000
_WIDTH, _PHONE = 1280, {"width": 390, "height": 844}
_DESKTOP = {"width": 1400, "height": 900}


def purest(explorer: Explorer, label: str) -> list[int]:
    """Return the features whose most common label is this one, the most consistent first."""
    rows = [row for row in explorer.table(1).rows if row.label == label and row.frequency >= _LEAST_ACTIVE]
    return [row.feature for row in sorted(rows, key=lambda row: -(row.consistency or 0))]


def most_changed(explorer: Explorer, label: str) -> tuple[int, int]:
    """Return an image with this label and one of its three strongest features that decides most of its neighbours."""
    features: Features = explorer.sets[1].features
    rows = np.flatnonzero(features.labels == features.label_names.index(label))
    found = []
    for row in map(int, rows[:: max(1, len(rows) // _CANDIDATES)]):
        whole = explorer.sample(1, row)
        before = {hit.sample.row for hit in whole.neighbours}
        for part in whole.parts[:3]:
            after = {hit.sample.row for hit in explorer.sample(1, row, [part.caption.feature]).neighbours}
            found.append((len(after - before), -row, part.caption.feature))
    _, row, feature = max(found)
    return -row, feature


def settle(page: Page, address: str) -> None:
    """Open an address and wait until everything has been drawn."""
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)


def take(page: Page, address: str, path: Path, height: int) -> None:
    """Open an address and save its upper part, when everything has been drawn."""
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    settle(page, address)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(path, optimize=True)
    if path.stat().st_size > _MOST_BYTES:  # 256 colours look nearly the same, in a third of the bytes
        picture.quantize(256).save(path, optimize=True)


def new_page(browser: Browser, scheme: str = "light", **options: object) -> Page:
    """Open a tab in which the tour has been seen."""
    context = browser.new_context(color_scheme=scheme, **options)
    context.add_init_script('localStorage.setItem("explorer-tour", "seen")')
    page = context.new_page()
    page.set_default_timeout(300_000)
    return page


def for_docs(browser: Browser, address: str, explorer: Explorer, out: Path) -> None:
    """Take the pictures of the documentation."""
    ship, plane, bird, horse = (purest(explorer, label)[0] for label in ("ship", "airplane", "bird", "horse"))
    row, off = most_changed(explorer, "airplane")
    query = f"f={ship}:1,{plane}:1.2&without={bird}"
    size = {"width": _WIDTH, "height": 900}
    page = new_page(browser, viewport=size)
    for name, path, height in (
        ("overview", "", 1640),
        ("feature", f"feature/{ship}?set=1", 1300),
        ("features", "features?set=1&sort=consistency", 900),
        ("compose", f"compose?set=1&{query}", 900),
        ("compare", "compare?similarity=0.5&show=second", 800),
    ):
        take(page, address + path, out / f"explore-{name}.png", height)
    dark = new_page(browser, "dark", viewport=size)
    take(dark, f"{address}sample/{row}?set=1&off={off}", out / "explore-sample.png", 1180)
    phone = new_page(browser, viewport=_PHONE)
    take(phone, f"{address}feature/{horse}?set=1", out / "explore-phone.png", _PHONE["height"])


def every_page(browser: Browser, address: str, explorer: Explorer, out: Path) -> None:
    """Take every page at full length, and what appears on some of them after a click."""
    number = len(explorer.sets) - 1
    shown = explorer.sets[number]
    first, second = shown.features.ranked()[:2]
    row = explorer.overview().sets[number].example.sample.row
    off = explorer.sample(number, row).parts[0].caption.feature
    some = f"set={number}&" if number else ""
    pages: dict[str, tuple[str, Callable[[Page], None] | None]] = {
        "overview": ("", None),
        "tour": ("", lambda page: page.get_by_role("button", name="Tour").click()),
        "suggestions": (f"?{some}", lambda page: page.locator("#find").press_sequentially(str(first)[0])),
        "features": (f"features?{some}", None),
        "families": (f"features?{some}families=1", None),
        "feature": (f"feature/{first}?{some}", None),
        "naming": (f"feature/{first}?{some}", lambda page: page.get_by_role("button", name="name").first.click()),
        "sample": (f"sample/{row}?{some}", None),
        "off": (f"sample/{row}?{some}off={off}", None),
        "samples": (f"samples?{some}", None),
        "found": (f"samples?{some}q=1", None),
        "map": (f"map?{some}", None),
        "map-feature": (f"map?{some}feature={first}", None),
        "compose": (f"compose?{some}", None),
        "composed": (f"compose?{some}f={first}:1&like={row}&without={second}", None),
        "reference": ("reference", None),
        "trouble": (f"feature/{len(shown.active)}?{some}", None),
    }
    if number:
        pages["compare"] = ("compare", None)
    if shown.input_kind is not None:
        pages["try"] = (f"try?{some}", None)
        pages["tried"] = (f"try?{some}", lambda page: page.locator("main .link, main .examples button").first.click())
    for size, options in (
        (_DESKTOP, {}),
        (_PHONE, {"has_touch": True, "is_mobile": True}),
    ):
        for scheme in ("light", "dark"):
            page = new_page(browser, scheme, viewport=size, **options)
            for name, (path, then) in pages.items():
                settle(page, address + path)
                if then is not None:
                    then(page)
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(1000)
                page.evaluate("for (const image of document.images) image.loading = 'eager'")
                page.wait_for_load_state("networkidle")
                whole = name != "tour"  # which is at the bottom of the window
                page.screenshot(path=out / f"{name}-{size['width']}-{scheme}.png", full_page=whole)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+", help="folders with the features of CL and of NCL; or any set or two")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images")
    parser.add_argument("--every-page", type=Path, metavar="FOLDER", help="take every page instead, into this folder")
    given = parser.parse_args()
    if given.every_page is None and len(given.features) != 2:
        parser.error("expected the features of CL and of NCL")
    explorer = open_explorer(given.features)
    explorer.prepare()
    with ServedPage(explorer, port=0) as server, sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        if given.every_page is None:
            for_docs(browser, server.url, explorer, given.out)
        else:
            given.every_page.mkdir(parents=True, exist_ok=True)
            every_page(browser, server.url, explorer, given.every_page)


if __name__ == "__main__":
    main()
