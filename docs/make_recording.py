"""Record what happens when a feature is unticked: `python docs/make_recording.py RUN --sample ROW --out FILE.webp`.

Opens the page of `nonneg explore` in Chromium and saves an animated WebP. Needs Playwright and Pillow.
"""

import argparse
import io
import shutil
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Locator, Page, sync_playwright

from nonneg import explore

_SIZE = {"width": 1280, "height": 1060}  # the features and the prediction fit on one screen
_WIDTH = 960  # of the recording
_STEPS = 8  # frames of a movement
_POINTER = ((0, 0), (0, 19), (5, 15), (9, 22), (12, 21), (8, 14), (14, 14))


@dataclass
class Recording:
    """Frames with their durations in milliseconds, and where the pointer is."""

    page: Page
    frames: list[Image.Image]
    durations: list[int]
    pointer: tuple[float, float] = (700, 600)

    def hold(self, milliseconds: int) -> None:
        """Add a frame of the page as it is now."""
        frame = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        shape = [(x + self.pointer[0], y + self.pointer[1]) for x, y in _POINTER]
        ImageDraw.Draw(frame).polygon(shape, fill="white", outline="black")
        self.frames.append(frame)
        self.durations.append(milliseconds)

    def move_to(self, target: Locator) -> None:
        """Move the pointer to the middle of an element."""
        box = target.bounding_box()
        assert box is not None, "the element is not on the page"
        (x0, y0), x1, y1 = self.pointer, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for step in range(1, _STEPS + 1):
            share = step / _STEPS
            self.pointer = (x0 + (x1 - x0) * share, y0 + (y1 - y0) * share)
            self.hold(60)

    def scroll_to(self, target: Locator, margin: int) -> None:
        """Scroll until the element is `margin` pixels below the top."""
        box = target.bounding_box()
        assert box is not None, "the element is not on the page"
        for _ in range(_STEPS):
            self.page.mouse.wheel(0, (box["y"] - margin) / _STEPS)
            self.page.wait_for_timeout(50)
            self.hold(60)

    def save(self, path: Path) -> None:
        """Write an animated WebP that repeats."""
        height = _SIZE["height"] * _WIDTH // _SIZE["width"]
        first, *others = (frame.resize((_WIDTH, height), Image.Resampling.LANCZOS) for frame in self.frames)
        first.save(path, save_all=True, append_images=others, duration=self.durations, loop=0, quality=70, method=4)


def record(run: str, sample: int, out: Path) -> None:
    """Record the page of a sample: untick its strongest feature, look at the neighbours, tick it again."""
    shown = explore(run, block=False, browser=False, port=0)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page(viewport=_SIZE, color_scheme="light")
        page.add_init_script("localStorage.setItem('explorer-tour', 'seen')")
        page.goto(f"{shown.url}sample/{sample}")
        box = page.locator("input[type=checkbox]").first
        box.wait_for()
        _settle(page, 15_000)  # words for features are found in the background
        page.reload()
        box.wait_for()
        _settle(page)
        page.mouse.move(*Recording.pointer)
        recording = Recording(page, [], [])
        recording.hold(2500)
        recording.move_to(box)
        box.click()
        _settle(page)
        recording.hold(3000)
        recording.scroll_to(page.get_by_role("heading", name="Neighbours"), 330)
        recording.hold(3000)
        browser.close()
    shown.close()
    recording.save(out)


def _settle(page: Page, milliseconds: int = 1_500) -> None:
    """Wait until nothing is loaded or moves any more."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(milliseconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a run of nonneg convert with texts and --classify")
    parser.add_argument("--sample", type=int, required=True, help="the row of the sample to show")
    parser.add_argument("--out", type=Path, default=Path("docs/images/recording.webp"))
    given = parser.parse_args()
    record(given.run, given.sample, given.out)
    print(f"Recorded: {given.out}, {given.out.stat().st_size / 1e6:.1f} MB")
