"""What people see and do, in a real browser against the real server."""

import csv
import functools
import http.server
import re
import threading
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from nonneg import Features, NonNegativeEmbedding
from nonneg.explorer import export
from nonneg.features import journal
from nonneg.search import Query, search_folder
from tests.explorer.conftest import HOSTILE, settled

NEWS = Path(__file__).parents[3] / "shared" / "data"
PHONE = {"viewport": {"width": 390, "height": 844}}
PAGES = ("/", "/features", "/feature/{feature}", "/sample/5", "/compose?f={feature}:1", "/compare", "/reference")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Any static web server."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ncl(own_digits):
    return own_digits / "ncl.features"


def liveliest(folder) -> int:
    return int(Features.load(folder).expected_activation.argmax())


def numbers(page, column: int) -> list[float]:
    cells = page.locator(f"table.features tbody tr td:nth-of-type({column})").all_inner_texts()
    return [float(re.sub(r"[^\d.]", "", cell.split()[-1] if "under" in cell else cell)) for cell in cells]


def test_every_page_has_a_heading_and_fits_desktop_and_phone(own_digits, serve, visit):
    address, feature = serve(own_digits / "cl", own_digits / "ncl"), liveliest(own_digits / "ncl.features")
    page = visit(address)
    for path in PAGES:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(address + path.format(feature=feature) + ("&" if "?" in path else "?") + "of=1")
        settled(page)
        assert page.locator("main .trouble").count() == 0, path
        for size in ({"width": 1280, "height": 900}, PHONE["viewport"]):
            page.set_viewport_size(size)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_overview_shows_both_sets_and_figures(own_digits, serve, visit):
    page = visit(serve(own_digits / "cl", own_digits / "ncl"))
    assert page.locator("article.side").count() == 2
    page.get_by_text("of what a feature lights up on has the same label").nth(1).wait_for()
    assert page.get_by_text("chance").count() >= 2
    blocks = [page.locator("article.side").nth(side).locator(".apart .bar i").count() for side in (0, 1)]
    assert blocks[0] > blocks[1] > 0


def test_overview_says_whether_two_sets_are_of_the_same_samples(serve, visit):
    codes = np.random.default_rng(0).random((30, 4), np.float32)
    first, second, third = (
        Features(codes, ids=[f"{name}{row}" for row in range(30)], texts=[f"text {row}" for row in range(30)])
        for name in "aab"
    )
    page = visit(serve(first, second))
    settled(page)
    assert "Two models looked at the same texts." in page.locator(".lead").inner_text()
    assert "Each by three texts it is on for" in page.locator("article.side").first.inner_text()
    assert page.locator(".rows .strip").first.locator("a").count() == 3
    assert "of different samples" in visit(serve(first, third)).locator(".lead").inner_text()


def test_small_images_are_scaled_without_blur(ncl, serve, visit):
    page = visit(serve(ncl) + "/sample/3")
    page.locator(".whole img.small").wait_for()
    rendered = page.locator(".whole img").evaluate("image => getComputedStyle(image).imageRendering")
    assert rendered == "pixelated"


def test_features_are_sorted_and_the_address_says_so(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.get_by_role("link", name="On for").click()
    page.locator("th[aria-sort=descending] >> text=On for").wait_for()
    falling = numbers(page, 2)
    assert falling == sorted(falling, reverse=True) and "sort=frequency" in page.url
    page.get_by_role("link", name="On for").click()
    page.locator("th[aria-sort=ascending] >> text=On for").wait_for()
    assert numbers(page, 2) == sorted(numbers(page, 2))
    page.go_back()
    page.locator("th[aria-sort=descending] >> text=On for").wait_for()
    assert numbers(page, 2) == falling


def test_features_are_found_by_the_slash_key(ncl, serve, visit):
    page = visit(serve(ncl))
    feature = liveliest(ncl)
    page.keyboard.press("/")
    page.keyboard.type(str(feature))
    page.keyboard.press("Enter")
    page.locator("table.features").wait_for()
    assert f"q={feature}" in page.url
    assert all(str(feature) in text for text in page.locator("tbody th").all_inner_texts())


def test_keys_step_through_features_and_open_one(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.locator("table.features").wait_for()
    for key in "jjk":
        page.keyboard.press(key)
    first = page.locator("tbody th a").nth(0)
    page.keyboard.press("k")
    assert first.evaluate("link => link === document.activeElement")
    page.keyboard.press("Enter")
    page.locator("article.feature").wait_for()
    assert "/feature/" in page.url


def test_a_name_is_given_seen_after_reload_and_kept_in_its_history(ncl, serve, visit):
    feature = liveliest(ncl)
    page = visit(f"{serve(ncl)}/feature/{feature}")
    for name in ("round ones", "<b>loops</b>"):
        page.get_by_role("button", name=re.compile("name", re.I)).click()
        page.get_by_label("What do these have in common?").fill(name)
        page.get_by_label("Your name").fill("Ada")
        page.get_by_role("button", name="Save").click()
        page.locator("h1", has_text=name).wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Rename"
    page.reload()
    page.locator("h1", has_text="<b>loops</b>").wait_for()
    assert "Named by Ada" in page.locator(".naming").inner_text()
    page.get_by_text("2 namings").click()
    assert page.locator(".history li").count() == 2
    assert Features.load(ncl).names == {feature: "<b>loops</b>"}


def test_a_name_is_shown_with_how_well_it_tells_and_as_it_was_written(serve, visit):
    labels = np.arange(80) % 2
    codes = np.stack([labels, 1 - labels], axis=1).astype(np.float32)
    pets = Features(codes, labels=labels, label_names=("dog", "cat"), names={0: "e.g. cats"})
    page = visit(serve(pets) + "/feature/0")
    assert page.locator("h1").inner_text() == "e.g. cats"
    assert page.locator("[data-score]").get_attribute("data-score") == "1"


def test_two_browsers_that_name_at_once_lose_nothing(ncl, serve, visit):
    feature = liveliest(ncl)
    address = f"{serve(ncl)}/feature/{feature}"
    first, second = visit(address), visit(address)
    for page, name in ((first, "first"), (second, "second")):
        page.get_by_role("button", name="Give it a name").click()
        page.get_by_label("What do these have in common?").fill(name)
    first.get_by_role("button", name="Save").click()
    first.locator("h1", has_text=re.compile("first", re.I)).wait_for()
    second.get_by_role("button", name="Save").click()
    second.get_by_text("Meanwhile somebody called it “first”").wait_for()
    second.get_by_role("button", name="Save").click()
    second.locator("h1", has_text=re.compile("second", re.I)).wait_for()
    assert [entry.name for entry in journal(ncl).history()] == ["first", "second"]


def test_a_name_given_in_another_browser_is_seen_on_the_way_back(ncl, serve, visit):
    feature = liveliest(ncl)
    address = serve(ncl)
    page, other = visit(f"{address}/features?q={feature}"), visit(f"{address}/feature/{feature}")
    page.get_by_role("link", name="Compose").click()
    page.locator("h1", has_text="Compose").wait_for()
    other.get_by_role("button", name="Give it a name").click()
    other.get_by_label("What do these have in common?").fill("given elsewhere")
    other.get_by_role("button", name="Save").click()
    other.locator("h1", has_text="given elsewhere").wait_for()
    page.go_back()
    page.locator("tbody th", has_text="given elsewhere").wait_for()


def test_read_only_offers_no_name(ncl, serve, visit):
    page = visit(f"{serve(ncl, read_only=True)}/feature/{liveliest(ncl)}")
    assert page.get_by_role("button", name="Give it a name").count() == 0


def test_a_feature_switched_off_changes_the_neighbours_and_comes_back(ncl, serve, visit):
    page = visit(serve(ncl) + "/sample/5")
    before = page.locator(".found a").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    page.locator(".part input").first.uncheck()
    page.locator(".change").wait_for()
    assert "off=" in page.url
    after = page.locator(".found a").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    assert page.locator(".found .new").count() == len(set(after) - set(before)) > 0
    page.go_back()
    page.locator(".change").wait_for(state="detached")
    assert page.locator(".part input").first.is_checked()


def test_a_query_is_composed_shared_and_downloaded(ncl, serve, visit):
    features = Features.load(ncl)
    order = [int(feature) for feature in features.expected_activation.argsort()[::-1]]
    page = visit(serve(ncl) + "/compose")
    page.get_by_role("combobox", name="Add a feature").fill(str(order[0]))
    page.get_by_role("option", name=re.compile(rf"feature {order[0]}\b")).click()
    page.locator(".found a").first.wait_for()
    slider = page.get_by_role("slider")
    slider.fill("1.5")
    page.wait_for_url(re.compile(rf"f={order[0]}:1\.5"))
    page.get_by_role("combobox", name="Leave out a feature").fill(str(order[1]))
    page.get_by_role("option", name=re.compile(rf"feature {order[1]}\b")).click()
    page.locator(".results", has_text="that are left").wait_for()
    shared = visit(page.url)
    shared.locator(".results", has_text="that are left").wait_for()
    links = "links => links.map((link) => link.getAttribute('href'))"
    assert shared.locator(".found a").evaluate_all(links) == page.locator(".found a").evaluate_all(links)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON").click()
    query = Query.load(download.value.path())
    assert query == Query(features=((order[0], 1.5),), without=(order[1],), k=24)
    assert len(search_folder(ncl, query)) == 24


def test_results_become_examples_and_examples_are_taken_back(ncl, serve, visit):
    page = visit(serve(ncl) + "/compose?like=5")
    for number in (2, 3):
        page.get_by_role("button", name=re.compile("^more like")).first.click()
        page.wait_for_url(re.compile(r"like=5" + r",\d+" * (number - 1) + "$"))
        page.locator(".example").nth(number - 1).wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON").click()
    rows = [int(row) for row in page.url.split("like=")[1].split(",")]
    assert Query.load(download.value.path()).like == tuple(Features.load(ncl).id(row) for row in rows)
    page.get_by_role("button", name="remove example 5").click()
    page.wait_for_url(re.compile(f"like={rows[1]},{rows[2]}$"))


def test_a_slider_moved_before_leaving_leaves_the_next_address_alone(ncl, serve, visit):
    page = visit(f"{serve(ncl)}/compose?f={liveliest(ncl)}:1")
    page.get_by_role("slider").fill("1.7")
    page.get_by_role("link", name="Overview").click()
    page.locator("h1", has_text="features of").wait_for()
    page.wait_for_timeout(300)
    assert page.url.endswith("/")


def test_a_query_that_leaves_everything_out_says_so(serve, visit):
    page = visit(serve(Features(np.ones((4, 2), np.float32))) + "/compose?f=0:1&without=1")
    page.locator("main").get_by_text("Every sample has a feature that is left out.").wait_for()


def test_signed_codes_are_shown_with_their_signs(serve, visit):
    codes = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    codes[0] = (4, -3, 0, 0, 0)
    address = serve(Features(codes), Features(np.abs(codes)))
    page = visit(address + "/sample/0")
    assert page.locator(".share").all_inner_texts() == ["64%", "−36%, on the negative side"]
    assert page.locator(".apart .bar i").evaluate_all("all => all.map((i) => i.matches('.against'))") == [False, True]
    page.goto(address)
    settled(page)
    told = [page.locator("article.side").nth(side).inner_text() for side in (0, 1)]
    assert "from most positive to most negative" in told[0] and "from strong to faint" in told[1]
    page.goto(address + "/feature/1")
    settled(page)
    bands = page.locator(".band p span:first-child").all_inner_texts()
    assert (bands[0], bands[-1]) == ("most positive", "most negative")
    assert "strong to faint" not in page.locator("main").inner_text()


def test_the_link_that_skips_leads_into_the_page(ncl, serve, visit):
    page = visit(serve(ncl) + "/features?sort=frequency")
    address = page.url
    page.locator("a.skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "main" and page.url == address


def test_the_focus_stays_with_what_was_used(own_digits, serve, visit):
    features = Features.load(own_digits / "ncl.features")
    order = [int(feature) for feature in features.expected_activation.argsort()[::-1]]
    names = dict.fromkeys(order, "the same name for all")
    address = serve(Features(features.codes, names=names))
    focus = "document.activeElement.getAttribute('aria-label')"
    page = visit(address + "/sample/5")
    boxes = page.locator(".part input")
    labels = [boxes.nth(place).get_attribute("aria-label") for place in range(boxes.count())]
    assert len(set(labels)) == len(labels) > 1
    boxes.nth(1).press("Space")
    page.locator(".change").wait_for()
    assert page.evaluate(focus) == labels[1]
    page.goto(address + "/compose")
    for feature in order[:2]:
        page.get_by_role("combobox", name="Add a feature").fill(str(feature))
        page.keyboard.press("Enter")
        page.get_by_role("slider", name=re.compile(rf"feature {feature}\b")).wait_for()
        assert page.evaluate(focus) == f"how much the same name for all, feature {feature} counts"
    page.get_by_role("button", name=re.compile(rf"^remove .* feature {order[1]}$")).press("Enter")
    page.get_by_role("slider", name=re.compile(rf"feature {order[1]}\b")).wait_for(state="detached")
    assert page.evaluate(focus) == "With"


def test_addresses_that_were_mistyped_are_read_as_well_as_can_be(own_digits, serve, visit):
    address = serve(own_digits / "cl.features", own_digits / "ncl.features")
    page = visit(address + "/compare?show=constructor&least=abc")
    assert page.locator("output").inner_text() == "0.50"
    for path in ("/features?page=999", "/sample/5?off=abc", "/features?min_on=abc"):
        page.goto(address + path)
        settled(page)
        assert page.locator("main .trouble, .change").count() == 0
        assert "sample" in path or page.locator("tbody tr").count() > 0


def test_features_are_filtered_by_how_often_they_are_on(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.get_by_label("On for at least, in percent").fill("20")
    page.keyboard.press("Tab")
    page.wait_for_url(re.compile("min_on=20"))
    page.get_by_text("Show all").wait_for()
    frequency = (np.asarray(Features.load(ncl).codes.todense()) > 0).mean(axis=0)
    assert page.locator("main p").first.inner_text().startswith(f"{(frequency >= 0.2).sum()} feature")


def test_a_copy_comes_back_to_where_the_reader_was_and_knows_what_it_has_not(ncl, tmp_path, visit):
    copy = export(ncl, out=tmp_path / "site", features=300, samples=40, progress=False)
    handler = functools.partial(Quiet, directory=copy)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(f"http://127.0.0.1:{server.server_port}/#/features")
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
            page.goto(f"http://127.0.0.1:{server.server_port}/#/{place}")
            page.get_by_text("A copy has no such page").wait_for()
        server.shutdown()


def test_search_with_a_feature_and_with_a_sample(ncl, serve, visit):
    address = serve(ncl)
    page = visit(f"{address}/feature/{liveliest(ncl)}")
    page.get_by_role("link", name="Search with this").click()
    page.locator(".compose .found a").first.wait_for()
    page = visit(f"{address}/sample/5")
    page.get_by_role("link", name="Search with this image").click()
    page.locator(".example img").wait_for()
    assert "like=5" in page.url and page.locator(".found a").count() == 24


def test_two_sets_are_compared_at_the_level_that_is_chosen(own_digits, serve, visit):
    page = visit(serve(own_digits / "ncl.features", own_digits / "cl.features") + "/compare")
    count = lambda name: int(page.get_by_role("link", name=re.compile(f"^{name}")).inner_text().split()[1])  # noqa: E731
    stayed, lost = count("Stayed"), count("Lost")
    page.get_by_role("slider").fill("0.1")
    page.wait_for_url(re.compile("least=0.1"))
    assert count("Stayed") >= stayed and count("Stayed") + count("Lost") == stayed + lost
    page.get_by_role("link", name=re.compile("^Gained")).click()
    page.wait_for_url(re.compile("show=gained"))


def test_an_image_of_ones_own_is_taken_apart(own_digits, serve, visit, tmp_path):
    features = Features.load(own_digits / "ncl.features")
    (tmp_path / "mine.png").write_bytes(features.media(8) or b"")
    (tmp_path / "broken.png").write_bytes(b"no image")
    page = visit(serve(own_digits / "ncl") + "/try")
    page.locator("#file").set_input_files(tmp_path / "broken.png")
    page.get_by_text("expected a PNG or a JPEG").wait_for()
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    page.get_by_text("Most like it").wait_for()
    assert page.locator(".found a").first.get_attribute("href") == "/sample/8"


@pytest.mark.skipif(not NEWS.is_dir(), reason="needs agnews-minilm.npz and agnews.csv in ../shared/data")
def test_news_are_shown_by_their_words_and_lead_to_news_like_them(serve, visit):
    rows = 1500
    vectors = np.load(NEWS / "agnews-minilm.npz")["description"][:rows].astype(np.float32)
    with (NEWS / "agnews.csv").open(newline="", encoding="utf-8") as file:
        news = list(csv.reader(file))[:rows]
    codes = NonNegativeEmbedding(128, 16, max_iter=60, random_state=0).fit_transform(vectors)
    page = visit(serve(Features(codes, labels=[int(row[0]) for row in news], texts=[row[2] for row in news])))
    page.locator("h1", has_text="128 features of 1,500 texts").wait_for()
    named = page.locator(".row .caption", has_text=", ").first  # words come a moment after the page
    words = named.locator(".hint").inner_text().split(", ")
    named.click()
    page.locator("article.feature").wait_for()
    assert any(word in page.locator(".tiles").first.inner_text().lower() for word in words)
    page.locator(".tiles a").first.click()
    page.locator("article.sample .text").wait_for()
    assert page.locator(".found .tile.written").count() == 12


def test_hostile_strings_are_shown_as_text(hostile, serve, visit):
    address = serve(hostile)
    page = visit(address, **PHONE)
    for path in (
        "/",
        "/features?all=1",
        *(f"/feature/{i}" for i in range(7)),
        "/sample/1",
        "/sample/3",
        "/compose?f=0:1",
    ):
        page.goto(address + path)
        settled(page)
        assert page.title() != "taken"
        assert page.locator("main script, main img").count() == 0, path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.goto(f"{address}/feature/0")
    page.locator("h1", has_text=HOSTILE[0]).wait_for()
    page.goto(f"{address}/sample/4")
    page.locator("h1", has_text="right to left").wait_for()


def test_what_is_not_there_is_said_plainly(ncl, serve, visit):
    address = serve(ncl)
    for path, sentence in (
        ("/feature/99999", "expected 0 to"),
        ("/sample/99999", "expected 0 to"),
        ("/features?of=7", "There is no set 7"),
    ):
        assert sentence in visit(address + path).locator("main").inner_text()


def test_the_token_leaves_the_address_and_a_cookie_stays(ncl, visit):
    from nonneg.explorer import Page, open_explorer

    with Page(open_explorer([ncl]), host="0.0.0.0", port=0) as served:
        address = urlsplit(served.url)
        page = visit(f"http://127.0.0.1:{address.port}/?{address.query}")
        assert "token" not in page.url
        page.reload()
        page.locator("main h1", has_text="features of").wait_for()


def test_dark_and_light_differ(ncl, serve, visit):
    address = serve(ncl)
    paper = [
        visit(address, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert paper == ["rgb(255, 255, 255)", "rgb(22, 24, 27)"]


def test_images_and_bars_are_labelled_for_those_who_hear_the_page(own_digits, serve, visit):
    page = visit(serve(own_digits / "cl", own_digits / "ncl") + "/sample/5?of=1")
    settled(page)
    unnamed = """() => [...document.querySelectorAll('img, [role=img], a, button, input')].filter((each) =>
        !(each.getAttribute('aria-label') || each.alt || each.textContent.trim() || each.labels?.length)).length"""
    assert page.evaluate(unnamed) == 0
    assert page.locator("main").get_attribute("tabindex") == "-1"
    assert page.locator("a.skip").count() == 1
