"""A static copy works on any web server and states what it omits."""

import functools
import http.server
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from PIL import Image

from nonneg import Features, InputError
from nonneg.durable import folder_lock
from nonneg.explorer import export
from tests.explorer.conftest import HOSTILE, picture, settled


@pytest.fixture
def static():
    """Serve a folder with a plain file server and return its address."""
    servers = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    def start(folder) -> str:
        handler = functools.partial(Quiet, directory=str(folder))
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def made(tmp_path, samples=60, **parts):
    codes = np.random.default_rng(0).random((samples, 9), np.float32).clip(0.6) - 0.6
    pictures = [picture(row) for row in range(samples)]
    return Features(codes, labels=np.arange(samples) % 3, media=pictures, **parts).save(tmp_path / "a.features")


def test_only_one_process_writes_a_copy(tmp_path):
    features = Features(np.eye(4, dtype=np.float32))
    with folder_lock(tmp_path / "site"), pytest.raises(InputError, match="another process"):
        export(features, out=tmp_path / "site", progress=False)
    assert export(features, out=tmp_path / "site", progress=False) == tmp_path / "site"


def test_pages_of_a_copy_work_on_a_plain_file_server(digits, static, visit, tmp_path):
    site = export(digits / "cl", digits / "ncl", out=tmp_path / "site", samples=60, progress=False)
    address = static(site)
    page = visit(address)
    assert page.locator("article.side").count() == 2
    page.get_by_role("link", name="Features", exact=True).click()
    page.locator("table.features").wait_for()
    page.locator("tbody th a").first.click()
    page.locator("article.feature").wait_for()
    page.locator(".tiles a img.small").first.wait_for()
    page.locator(".tiles a").first.click()
    page.locator("article.sample").wait_for()
    assert page.locator(".found .tile").count() == 12 and page.locator(".part input").count() == 0
    page.go_back()
    page.locator("article.feature").wait_for()
    row = json.loads((site / "data/overview.json").read_text())["sets"][1]["sample_pages"][0]
    for path in ("/compare", "/feature/3?set=1", f"/sample/{row}?set=1"):
        shown = visit(f"{address}/#{path}", viewport={"width": 390, "height": 844})
        settled(shown)
        assert shown.locator("main .trouble").count() == 0
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_copy_works_in_a_subfolder(digits, static, visit, tmp_path):
    export(digits / "ncl.features", out=tmp_path / "somewhere" / "deep", samples=5, features=4, progress=False)
    page = visit(static(tmp_path) + "/somewhere/deep/")
    assert "5 of 397" in page.locator("#footer").inner_text()
    page.goto(page.url + "#/features")
    page.get_by_text("less active features are not in this copy").wait_for()
    assert page.locator("tbody tr").count() == 4
    page.goto(page.url + "?min_active=0")
    page.get_by_text("are not in this copy. Show all").wait_for()


def test_a_large_copy_says_how_to_serve_it_if_it_is_opened_as_a_file(static, visit, chromium, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 420, 420, 3), np.uint8)  # 21 MB that cannot be compressed
    site = export(Features(np.ones((40, 2), np.float32), pixels=pixels), out=tmp_path / "site", progress=False)
    page = chromium.new_page()
    page.goto((site / "index.html").as_uri())
    assert page.locator("main").inner_text().startswith("If nothing appears here")
    assert "python -m http.server" in page.locator("main code").inner_text()
    page.close()
    assert "http.server" not in visit(static(site)).locator("main").inner_text()


def test_hostile_strings_are_shown_as_text_in_a_copy(hostile, static, visit, tmp_path):
    site = export(hostile, out=tmp_path / "site", progress=False)
    assert (site / "index.html").read_text("utf-8").lower().count(
        "</script"
    ) == 2  # the data's own and the script's own
    page = visit(static(site) + "/#/feature/0")
    page.locator("h1", has_text=HOSTILE[0]).wait_for()
    for path in ("", *(f"feature/{i}" for i in range(7)), "sample/6", "features?all=1", "map?f=0"):
        page.goto(f"{page.url.partition('#')[0]}#/{path}")
        page.locator("main h1").wait_for()
        assert page.title() != "taken" and page.locator("main script, main img").count() == 0, path


def test_a_copy_is_limited_and_contains_every_image_it_shows(tmp_path):
    site = export(made(tmp_path), out=tmp_path / "site", features=3, samples=7, progress=False)
    overview = json.loads((site / "data/overview.json").read_text())
    assert overview["note"] == "7 of 60 images of a have a page here. "
    (each,) = overview["sets"]
    assert each["omitted_features"] == 6 and len(each["feature_pages"]) == 3 and len(each["sample_pages"]) == 7
    assert not each["can_name"] and each["example"]["sample"]["row"] in each["sample_pages"]
    assert len(list((site / "data/sets/0/feature").iterdir())) == 3
    assert {int(path.stem) for path in (site / "data/sets/0/sample").iterdir()} == set(each["sample_pages"])
    shown = set()
    for path in (site / "data/sets/0").rglob("*.json"):
        json.loads(path.read_text(), object_hook=lambda found: shown.add(found["row"]) if "has_picture" in found else 0)
    pictures = {int(path.stem): path.read_bytes() for path in (site / "media/0").iterdir()}
    assert shown <= set(pictures) and all(content == picture(row) for row, content in pictures.items())


def test_a_small_copy_contains_the_features_that_its_first_page_shows(tmp_path):
    rng = np.random.default_rng(0)
    codes = np.maximum(rng.random((200, 60), np.float32) - np.linspace(0.5, 0.95, 60, dtype=np.float32), 0)
    site = export(Features(codes), out=tmp_path / "site", features=12, progress=False)
    overview = json.loads((site / "data" / "overview.json").read_text())["sets"][0]
    shown = [part["caption"]["feature"] for part in overview["example"]["parts"][:3]]
    shown += [row["feature"] for row in overview["spread_features"]]
    assert set(shown) <= set(overview["feature_pages"]) and len(overview["feature_pages"]) == 12


def test_a_copy_of_pixels_contains_png_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 3, 1), np.uint8)
    site = export(Features(np.eye(4, dtype=np.float32), pixels=pixels), out=tmp_path / "site", progress=False)
    for row in range(4):
        np.testing.assert_array_equal(np.asarray(Image.open(site / f"media/0/{row}.png")), pixels[row, ..., 0])


def test_export_replaces_only_earlier_copies(tmp_path):
    features = made(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="holds other files"):
        export(features, out=tmp_path / "site", overwrite=True, progress=False)
    first = export(features, out=tmp_path / "other", progress=False)
    with pytest.raises(InputError, match="exists already"):
        export(features, out=first, progress=False)
    export(features, out=first, samples=3, overwrite=True, progress=False)
    assert len(list((first / "data/sets/0/sample").iterdir())) == 3


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_failed_or_interrupted_export_changes_nothing(tmp_path):
    features, others = made(tmp_path), Features(np.eye(9, dtype=np.float32), ids=list("abcdefghi"))
    site = export(features, out=tmp_path / "site", progress=False)
    before = content(site)
    with pytest.raises(InputError, match="expected the same ids in both"):
        export(features, others, out=site, overwrite=True, progress=False)
    with pytest.raises(InputError, match="expected the same ids in both"):
        export(features, others, out=tmp_path / "new" / "site", progress=False)

    class Stopped(Features):
        """Features whose images cannot be read because the user presses Ctrl-C."""

        def media(self, row):
            raise KeyboardInterrupt

    stopped = Stopped(np.eye(3, dtype=np.float32), media=[picture(row) for row in range(3)])
    for out, overwrite in ((site, True), (tmp_path / "new" / "site", False)):
        with pytest.raises(KeyboardInterrupt):
            export(stopped, out=out, overwrite=overwrite, progress=False)
    assert content(site) == before and not list(site.glob(".*"))
    assert not (tmp_path / "new").exists()


def test_an_incomplete_copy_is_written_again(tmp_path):
    features = made(tmp_path)
    site = export(features, out=tmp_path / "site", samples=3, progress=False)
    whole = set(content(site))
    (site / "index.html").unlink()
    (site / ".nonneg-tmp-0123").mkdir()  # left by a killed process
    assert set(content(export(features, out=site, samples=3, progress=False))) == whole
    assert not list(site.glob(".*"))


def test_an_unusable_file_is_named_in_the_error(tmp_path):
    np.save(tmp_path / "gaps.npy", np.full((5, 3), np.nan, np.float32))
    with pytest.raises(InputError, match=r"gaps\.npy.* NaN"):
        export(tmp_path / "gaps.npy", out=tmp_path / "site", progress=False)
    assert not (tmp_path / "site").exists()


def test_at_least_one_page_is_required(tmp_path):
    with pytest.raises(InputError, match="samples is 0, expected at least 1"):
        export(made(tmp_path), out=tmp_path / "site", samples=0)


def test_a_copy_restores_the_scroll_position_and_explains_missing_pages(ncl, static, tmp_path, visit):
    copy = export(ncl, out=tmp_path / "site", features=300, samples=40, progress=False)
    address = static(copy)
    page = visit(f"{address}/#/features")
    settled(page)
    page.locator("a.skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "main" and page.url.endswith("#/features")
    link = page.locator("tbody th a").nth(20)
    link.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    down = page.evaluate("scrollY")
    link.click()
    page.locator("article.feature").wait_for()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    page.locator("table.features").wait_for()
    settled(page)
    assert down > 0 and page.evaluate("scrollY") == down
    for place in ("compose", "reference"):
        page.goto(f"{address}/#/{place}")
        page.get_by_text("not part of a static copy").wait_for()


def test_an_export_removes_the_leftovers_of_a_killed_one(tmp_path):
    features, site = made(tmp_path, samples=500), tmp_path / "site"
    process = subprocess.Popen([sys.executable, "-m", "nonneg", "export", str(features), str(site)])
    while not list(site.glob(".nonneg-tmp-*/data/sets/0/*")):
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert list(site.glob(".*")) and not (site / "index.html").exists()
    export(features, out=site, samples=3, progress=False)
    assert not list(site.glob(".*")) and (site / "index.html").exists()


def test_leftovers_are_removed_even_if_the_export_is_refused(tmp_path):
    features = made(tmp_path)
    site = export(features, out=tmp_path / "site", samples=3, progress=False)
    (site / ".nonneg-tmp-folder" / "data").mkdir(parents=True)
    (site / ".nonneg-tmp-file").write_bytes(b"half of a marker")
    with pytest.raises(InputError, match="overwrite"):
        export(features, out=site, progress=False)
    assert not list(site.glob(".*"))


def test_temporary_files_of_other_folders_are_left_alone(tmp_path):
    features = made(tmp_path)
    (features / ".nonneg-tmp-file").write_bytes(b"being written by another process")
    with pytest.raises(InputError, match="holds other files"):
        export(features, out=features, progress=False)
    assert (features / ".nonneg-tmp-file").exists()
