"""Retake the pictures of the page on CIFAR-10: `python docs/make_pictures.py CL.features NCL.features`.

The features are those of the test images, with the images, by the recipe `cifar10` with `--epochs 40`, CL with
`--rectify none`. What is shown is chosen by rule. Needs Playwright, Chromium and Pillow.
"""

import argparse
import io
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from nonneg import Features, explore
from nonneg.explorer import Explorer, open_explorer

_LEAST_ACTIVE = 0.03  # share of the images on which a feature that is shown alone is active
_CANDIDATES = 200  # images from which the one with a feature switched off is chosen
_MOST_BYTES = 400_000
_WIDTH, _PHONE = 1280, {"width": 390, "height": 844}


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


def take(page: Page, address: str, path: Path, height: int) -> None:
    """Open an address and save its upper part, when everything has been drawn."""
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(path, optimize=True)
    if path.stat().st_size > _MOST_BYTES:  # 256 colours look nearly the same, in a third of the bytes
        picture.quantize(256).save(path, optimize=True)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs=2, help="folders with the features of CL and of NCL")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images")
    given = parser.parse_args()
    explorer = open_explorer(given.features)
    ship, plane, bird, horse = (purest(explorer, label)[0] for label in ("ship", "airplane", "bird", "horse"))
    row, off = most_changed(explorer, "airplane")
    query = f"f={ship}:1,{plane}:1.2&without={bird}"
    with explore(*given.features, block=False, port=0) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def new_page(scheme: str = "light", width: int = _WIDTH) -> Page:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            context.add_init_script('localStorage.setItem("explorer-tour", "seen")')
            page = context.new_page()
            page.set_default_timeout(300_000)
            return page

        page = new_page()
        for name, address, height in (
            ("overview", "", 1640),
            ("feature", f"feature/{ship}?set=1", 1300),
            ("features", "features?set=1&sort=consistency", 900),
            ("compose", f"compose?set=1&{query}", 900),
            ("compare", "compare?similarity=0.5&show=second", 800),
        ):
            take(page, server.url + address, given.out / f"explore-{name}.png", height)
        take(new_page("dark"), server.url + f"sample/{row}?set=1&off={off}", given.out / "explore-sample.png", 1180)
        phone = new_page(width=_PHONE["width"])
        take(phone, server.url + f"feature/{horse}?set=1", given.out / "explore-phone.png", _PHONE["height"])


if __name__ == "__main__":
    main()
