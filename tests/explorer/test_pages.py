"""What people see in a real browser with the real server."""

import re
from urllib.parse import urlsplit

import numpy as np
import pytest

from nonneg import Features, NonNegativeEmbedding
from nonneg.convert import convert_file
from nonneg.explorer import Explorer, Page
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._glass import GlassBox
from nonneg.features import Suggestion, journal, write_suggestions
from tests.explorer.conftest import HOSTILE, most_active, settled

PHONE = {"viewport": {"width": 390, "height": 844}}
PAGES = ("/", "/features", "/feature/{feature}", "/sample/5", "/compose?f={feature}:1", "/compare", "/reference")


TOPICS = (
    ("goal", "match", "team", "coach"),
    ("market", "price", "stock", "bank"),
    ("rain", "wind", "storm", "cloud"),
)


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """A conversion of vectors of texts about three topics, with numbered labels and a glass-box classifier."""
    folder = tmp_path_factory.mktemp("topics")
    generator = np.random.default_rng(0)
    topic = np.arange(150) % 3
    vectors = generator.normal(size=(3, 12))[topic] + 0.3 * generator.normal(size=(150, 12))
    np.savez(folder / "v.npz", x=vectors.astype(np.float32), topic=topic)
    (folder / "t.txt").write_text("\n".join(" ".join(generator.permutation(TOPICS[number])) for number in topic))
    embedding = NonNegativeEmbedding(12, 4, max_iter=60, batch_size=64, random_state=0)
    options = {"labels": f"{folder}/v.npz:topic", "texts": f"{folder}/t.txt", "classify": True, "progress": False}
    return convert_file(f"{folder}/v.npz:x", folder / "run", embedding=embedding, **options).run


def numbers(page, column: int) -> list[float]:
    cells = page.locator(f"table.features tbody tr td:nth-of-type({column})").all_inner_texts()
    return [float(re.sub(r"[^\d.]", "", cell.split()[-1] if "under" in cell else cell)) for cell in cells]


def test_every_page_has_a_heading_and_fits_desktop_and_phone(own_digits, serve, visit):
    address, feature = serve(own_digits / "cl", own_digits / "ncl"), most_active(own_digits / "ncl.features")
    page = visit(address)
    for path in PAGES:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(address + path.format(feature=feature) + ("&" if "?" in path else "?") + "set=1")
        settled(page)
        assert page.locator("main .trouble").count() == 0, path
        for size in ({"width": 1280, "height": 900}, PHONE["viewport"]):
            page.set_viewport_size(size)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_every_page_says_what_is_open(own_digits, topics, serve, visit):
    address = serve(own_digits / "cl", own_digits / "ncl")
    page = visit(address)
    for path in PAGES:
        page.goto(address + path.format(feature=3) + ("&" if "?" in path else "?") + "set=1")
        settled(page)
        title = page.locator("#header .project").inner_text()
        assert title.startswith("cl and ncl") and "data digits/test" in title, path
    assert visit(serve(topics)).locator("#header .project").inner_text() == "run · data v.npz:x"


def test_the_prediction_is_beside_the_features_and_visible_at_once(topics, serve, visit):
    page = visit(serve(topics) + "/sample/4", viewport={"width": 1400, "height": 900})
    settled(page)
    prediction, features = page.locator(".prediction"), page.locator(".parts")
    box, other = prediction.bounding_box(), features.bounding_box()
    assert box["x"] + box["width"] <= other["x"] and box["y"] + box["height"] <= 900
    assert "Label 1" in prediction.inner_text()
    assert "the prediction and the neighbours" in page.locator("main").inner_text()
    page.set_viewport_size(PHONE["viewport"])
    box, other = prediction.bounding_box(), features.bounding_box()
    assert box["y"] + box["height"] <= other["y"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_numbered_labels_are_called_labels(topics, serve, visit):
    address = serve(topics)
    page = visit(address + "/sample/4")
    assert page.locator("h1").inner_text() == "Label 1"
    page.goto(address + "/feature/0")
    settled(page)
    assert re.search(r"have the label\s\d", page.locator("main").inner_text())
    page.goto(address + "/map")
    page.locator(".legend", has_text="Label 2").wait_for()
    bare = Features(np.eye(2, dtype=np.float32)[np.arange(20) % 2], labels=np.arange(20) % 2)
    page = visit(serve(bare) + "/feature/1")
    assert page.locator("h1").inner_text() == "Mostly label 1"


def test_suggested_names_have_a_score_in_the_table_and_guesses_are_marked_in_lists(serve, visit, tmp_path):
    codes = np.eye(2, dtype=np.float32)[np.arange(40) % 2]
    folder = Features(codes, texts=[f"text {row}" for row in range(40)], names={0: "by a person"}).save(tmp_path / "x")
    found = {feature: Suggestion("some words", 0.65, 10) for feature in range(2)}
    write_suggestions(folder, journal(folder).codes, found)
    address = serve(folder)
    page = visit(address + "/features")
    column = page.locator("thead th").all_inner_texts().index("Name score")
    row = {name: page.locator("tbody tr", has_text=name) for name in ("by a person", "some words")}
    cell = f"td:nth-of-type({column})"
    assert [row[name].locator(cell).inner_text() for name in row] == ["–", "0.65"]
    page.locator("#find").fill("some")
    page.get_by_role("option", name=re.compile("some words feature 1, guess")).wait_for()
    page.goto(address + "/compose")
    page.locator(".examples a", has_text="some words guess").wait_for()
    assert page.locator(".examples a", has_text="by a person").inner_text() == "by a person"


def test_a_page_that_cannot_be_shown_keeps_the_way_to_the_others(ncl, serve, visit):
    address = serve(ncl)
    for place in ("/feature/99999", "/?set=7"):
        page = visit(address + place)
        page.locator("main .trouble").wait_for()
        assert page.get_by_text("Step 1 of 4").count() == 0
        page.get_by_role("link", name="Features", exact=True).click()
        page.get_by_role("heading", name="Features", exact=True).wait_for()


def test_the_reference_shows_names_as_code(ncl, serve, visit):
    page = visit(serve(ncl) + "/reference")
    settled(page)
    assert "`" not in page.locator("main").inner_text()


def test_overview_shows_both_sets_and_statistics(own_digits, serve, visit):
    page = visit(serve(own_digits / "cl", own_digits / "ncl"))
    assert page.locator("article.side").count() == 2
    page.get_by_text("of a feature's active samples have the same label").nth(1).wait_for()
    assert page.get_by_text("chance").count() >= 2
    blocks = [page.locator("article.side").nth(side).locator(".apart .bar i").count() for side in (0, 1)]
    assert blocks[0] > blocks[1] > 0
    assert "few features of ncl are active on it" in page.locator(".lead").inner_text()


def test_overview_says_whether_two_sets_have_the_same_samples(serve, visit):
    codes = np.random.default_rng(0).random((30, 4), np.float32)
    first, second, third = (
        Features(codes, ids=[f"{name}{row}" for row in range(30)], texts=[f"text {row}" for row in range(30)])
        for name in "aab"
    )
    page = visit(serve(first, second))
    settled(page)
    assert "Two models have encoded the same texts." in page.locator(".lead").inner_text()
    assert "Each row shows three texts" in page.locator("article.side").first.inner_text()
    assert page.locator(".rows .strip").first.locator("a").count() == 3
    assert "have different samples" in visit(serve(first, third)).locator(".lead").inner_text()


def test_two_sets_are_linked_where_they_have_something_in_common(serve, visit):
    codes = np.random.default_rng(0).random((30, 3), np.float32)
    first, second, other = (Features(codes[:, order], ids=[f"{name}{row}" for row in range(30)])
        for name, order in (("a", [0, 1, 2]), ("a", [2, 0, 1]), ("b", [0, 1, 2])))  # fmt: skip
    address = serve(first, other)
    page = visit(address + "/feature/1")
    links = "links => links.map((link) => link.getAttribute('href'))"
    assert page.locator(".choice a").evaluate_all(links) == ["/feature/1", "/features?set=1"]
    assert page.get_by_role("link", name="Compare").count() == 0
    page.goto(address + "/sample/5")
    settled(page)
    assert page.locator(".choice").count() == 0
    page.goto(serve(first, second) + "/sample/5")
    settled(page)
    assert page.locator(".choice a").evaluate_all(links) == ["/sample/5", "/sample/5?set=1"]
    page.get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="Matched").wait_for()
    page.locator(".pair .caption").nth(1).click()
    page.locator("article.feature").wait_for()
    feature = int(page.url.split("/feature/")[1].split("?")[0])
    assert page.locator(".choice a").first.get_attribute("href") == f"/feature/{[2, 0, 1][feature]}"


def test_small_images_are_enlarged_without_smoothing(ncl, serve, visit):
    page = visit(serve(ncl) + "/sample/3")
    page.locator(".whole img.small").wait_for()
    rendered = page.locator(".whole img").evaluate("image => getComputedStyle(image).imageRendering")
    assert rendered == "pixelated"


def test_features_are_sorted_according_to_the_address(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.get_by_role("link", name="Active on").click()
    page.locator("th[aria-sort=descending] >> text=Active on").wait_for()
    falling = numbers(page, 2)
    assert falling == sorted(falling, reverse=True) and "sort=frequency" in page.url
    page.get_by_role("link", name="Active on").click()
    page.locator("th[aria-sort=ascending] >> text=Active on").wait_for()
    assert numbers(page, 2) == sorted(numbers(page, 2))
    page.go_back()
    page.locator("th[aria-sort=descending] >> text=Active on").wait_for()
    assert numbers(page, 2) == falling


def test_the_slash_key_searches_features(ncl, serve, visit):
    page = visit(serve(ncl))
    feature = most_active(ncl)
    page.keyboard.press("/")
    page.keyboard.type(str(feature))
    page.keyboard.press("Enter")
    page.locator("table.features").wait_for()
    assert page.evaluate("getComputedStyle(document.getElementById('main')).outlineStyle") == "none"
    assert page.evaluate("document.activeElement.id") == "main" and f"q={feature}" in page.url
    assert all(str(feature) in text for text in page.locator("tbody th").all_inner_texts())


def test_keys_move_through_features_and_open_one(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.locator("table.features").wait_for()
    for key in "jjk":
        page.keyboard.press(key)
    first = page.locator("tbody th a").nth(0)
    page.keyboard.press("k")
    assert first.evaluate("link => link === document.activeElement")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator("article.feature").wait_for()
    assert "/feature/" in page.url
    page.go_back()
    page.locator("table.features").wait_for()
    page.keyboard.press("j")
    assert page.locator("tbody th a").nth(2).evaluate("link => link === document.activeElement")


def test_switching_a_feature_off_changes_the_neighbours_and_can_be_undone(ncl, serve, visit):
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
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_going_back_to_a_page_with_another_checkbox_keeps_the_position(ncl, serve, visit):
    page = visit(serve(ncl) + "/sample/5", viewport={"width": 1280, "height": 400})
    settled(page)
    page.locator(".part input").nth(2).scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, 200)")
    page.wait_for_timeout(100)  # scrolling is reported later
    for place in (0, 1):
        page.locator(".part input").nth(place).evaluate("box => box.click()")
        page.locator(".part.off").nth(place).wait_for()
    page.go_back()
    page.locator(".part.off").nth(1).wait_for(state="detached")
    assert page.evaluate("scrollY") == 200


def test_the_feature_that_decides_a_prediction_can_be_switched_off(visit):
    codes = np.linspace(12, 1, 12, dtype=np.float32) * np.random.default_rng(0).uniform(0.9, 1, (20, 12))

    class LastFeature(GlassBox):
        """A classifier for which only the weakest feature counts."""

        def __init__(self):
            self.coef, self.intercept = np.outer([1, -1], np.eye(12)[11]), np.zeros(2)
            self.classes, self.missing = ["yes", "no"], 0

    explorer = Explorer([FeatureSet(Features(codes.astype(np.float32)), "x", glass_box=LastFeature())])
    with Page(explorer, port=0) as served:
        page = visit(served.url + "sample/3")
        boxes, decisive = page.locator(".part input"), page.get_by_role("checkbox", name="use feature 11")
        assert boxes.count() == 9
        decisive.uncheck()
        page.locator(".change", has_text="probability 50%").wait_for()
        page.get_by_role("button", name="Show all 12").click()
        page.get_by_role("checkbox", name="use feature 9").uncheck()
        page.wait_for_url("**/sample/3?off=9,11&all=1")
        page.locator(".part.off").nth(1).wait_for()
        assert boxes.count() == 12 and not decisive.is_checked()
        page.reload()
        page.locator(".part.off").nth(1).wait_for()
        assert boxes.count() == 12


def test_signed_codes_are_shown_with_their_signs(serve, visit):
    codes = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    codes[0] = (4, -3, 0, 0, 0)
    address = serve(Features(codes), Features(np.abs(codes)))
    page = visit(address + "/sample/0")
    assert page.locator(".share").all_inner_texts() == ["64%", "−36%, negative"]
    assert page.locator(".apart .bar i").evaluate_all("all => all.map((i) => i.matches('.against'))") == [False, True]
    page.goto(address)
    settled(page)
    texts = [page.locator("article.side").nth(side).inner_text() for side in (0, 1)]
    assert "from most positive to most negative" in texts[0] and "from strong to weak" in texts[1]
    page.goto(address + "/feature/1")
    settled(page)
    bands = page.locator(".band p span:first-child").all_inner_texts()
    assert (bands[0], bands[-1]) == ("most positive", "most negative")
    assert "strong to weak" not in page.locator("main").inner_text()


def test_the_skip_link_moves_the_focus_to_the_content(ncl, serve, visit):
    page = visit(serve(ncl) + "/features?sort=frequency")
    address = page.url
    page.locator("a.skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "main" and page.url == address


def test_the_focus_stays_on_the_control_that_was_used(own_digits, serve, visit):
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
        assert page.evaluate(focus) == f"weight of the same name for all, feature {feature}"
    page.get_by_role("button", name=re.compile(rf"^remove .* feature {order[1]}$")).press("Enter")
    page.get_by_role("slider", name=re.compile(rf"feature {order[1]}\b")).wait_for(state="detached")
    assert page.evaluate(focus) == "With"


def test_invalid_parameters_in_the_address_are_ignored(own_digits, serve, visit):
    address = serve(own_digits / "cl.features", own_digits / "ncl.features")
    page = visit(address + "/compare?show=constructor&similarity=abc")
    assert page.locator("output").inner_text() == "0.50"
    for path in ("/features?page=999", "/sample/5?off=abc", "/features?min_active=abc"):
        page.goto(address + path)
        settled(page)
        assert page.locator("main .trouble, .change").count() == 0
        assert "sample" in path or page.locator("tbody tr").count() > 0


def test_only_the_first_question_mark_of_an_address_begins_its_parameters(ncl, serve, visit):
    visit(serve(ncl) + "/features?q=is it?oil").locator("main p", has_text="“is it?oil”").wait_for()


def test_a_search_keeps_the_order_and_the_limits_of_the_page(ncl, serve, visit):
    page = visit(serve(ncl) + "/features?sort=frequency&min_active=1&page=2")
    page.locator("#find").fill("1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/features?sort=frequency&min_active=1&q=1")


def test_what_is_typed_while_a_page_loads_stays(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.locator("table.features").wait_for()
    late = []
    page.route("**/api/sets/0/feature/*", lambda route: late.append(route))
    with page.expect_request("**/api/sets/0/feature/*"):
        page.locator("tbody th a").first.click()
    page.locator("#find").press_sequentially("ab")
    while not late:
        page.wait_for_timeout(20)
    late[0].continue_()
    page.locator("article.feature").wait_for()
    page.keyboard.type("c")
    assert page.locator("#find").input_value() == "abc"


def test_features_are_filtered_by_their_frequency(ncl, serve, visit):
    page = visit(serve(ncl) + "/features")
    page.get_by_label("Active on at least, in percent").fill("20")
    page.keyboard.press("Tab")
    page.wait_for_url(re.compile("min_active=20"))
    page.get_by_text("Show all").wait_for()
    frequency = (np.asarray(Features.load(ncl).codes.todense()) > 0).mean(axis=0)
    assert page.locator("main p").first.inner_text().startswith(f"{(frequency >= 0.2).sum()} feature")


def test_two_sets_are_compared_at_the_chosen_similarity(own_digits, serve, visit):
    page = visit(serve(own_digits / "ncl.features", own_digits / "cl.features") + "/compare")
    count = lambda name: int(page.get_by_role("link", name=re.compile(f"^{name}")).inner_text().split()[-1])  # noqa: E731
    matched, unmatched = count("Matched"), count("Only in ncl")
    page.get_by_role("slider").fill("0.1")
    page.wait_for_url(re.compile("similarity=0.1"))
    assert count("Matched") >= matched and count("Matched") + count("Only in ncl") == matched + unmatched
    page.get_by_role("link", name=re.compile("^Only in cl")).click()
    page.wait_for_url(re.compile("show=second"))


def test_texts_are_shown_with_distinctive_words_and_similar_texts(serve, visit):
    generator = np.random.default_rng(0)
    topic = np.arange(300) % 3
    texts = [", ".join(generator.permutation(TOPICS[number])) for number in topic]  # with commas they are no phrases
    codes = np.eye(3, dtype=np.float32)[topic] * generator.uniform(0.5, 1.5, (300, 1)).astype(np.float32)
    page = visit(serve(Features(codes, labels=topic, texts=texts)))
    page.locator("h1", has_text="3 features of 300 texts").wait_for()
    titled = page.locator(".row .caption", has_text=", ").first  # words appear after a delay
    words = titled.locator(".hint").inner_text().replace(",", "").split()
    titled.click()
    page.locator("article.feature").wait_for()
    assert all(word in page.locator(".tiles").first.inner_text() for word in words)
    page.locator(".tiles a").first.click()
    page.locator("article.sample .text").wait_for()
    similar = page.locator(".found .tile.written")
    assert similar.first.get_attribute("aria-label") is None  # its text is its name
    assert similar.count() == 12 and all(words[0] in text.lower() for text in similar.all_inner_texts())


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
        "/samples?q=taken",
        "/features?q=%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D'taken'%3E",
        "/map?f=0",
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


def test_missing_pages_are_explained(ncl, serve, visit):
    address = serve(ncl)
    for path, message in (
        ("/feature/99999", "expected 0 to"),
        ("/sample/99999", "expected 0 to"),
        ("/features?set=7", "There is no set number 7"),
    ):
        assert message in visit(address + path).locator("main").inner_text()
    assert "does not exist" in visit(address + "/foo").locator("main").inner_text()


def test_a_cookie_replaces_the_token_in_the_address(ncl, visit):
    from nonneg.explorer import Page, open_explorer

    with Page(open_explorer([ncl]), host="0.0.0.0", port=0) as served:
        address = urlsplit(served.url)
        page = visit(f"http://127.0.0.1:{address.port}/?{address.query}")
        assert "token" not in page.url
        page.reload()
        page.locator("main h1", has_text="features of").wait_for()


def test_the_colour_scheme_is_respected(ncl, serve, visit):
    address = serve(ncl)
    paper = [
        visit(address, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert paper == ["rgb(255, 255, 255)", "rgb(22, 24, 27)"]


def test_images_bars_and_controls_have_labels_for_screen_readers(own_digits, serve, visit):
    page = visit(serve(own_digits / "cl", own_digits / "ncl") + "/sample/5?set=1")
    settled(page)
    unnamed = """() => [...document.querySelectorAll('img, [role=img], a, button, input')].filter((each) =>
        !(each.getAttribute('aria-label') || each.alt || each.textContent.trim() || each.labels?.length)).length"""
    assert page.evaluate(unnamed) == 0
    assert page.locator("main").get_attribute("tabindex") == "-1"
    assert page.locator("a.skip").count() == 1


def test_ticks_and_borders_of_controls_stand_out(ncl, serve, visit):
    """A contrast of at least 3, as WCAG 2.1 asks of controls, in both colour schemes."""
    address = serve(ncl)
    script = """() => {
        const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
            .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
            .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0.05);
        const contrast = (a, b) => Math.max(light(a) / light(b), light(b) / light(a));
        const style = (each, part) => getComputedStyle(each, part);
        const ticks = [...document.querySelectorAll('.part input:checked')]
            .map((each) => contrast(style(each, '::after').borderBottomColor, style(each).backgroundColor));
        const fields = [...document.querySelectorAll('input[type=search], input[type=number]')]
            .map((each) => contrast(style(each).borderBottomColor, style(each).backgroundColor));
        return [...ticks, ...fields];
    }"""
    for scheme in ("light", "dark"):
        for path in ("/sample/5", "/features"):
            found = visit(address + path, color_scheme=scheme).evaluate(script)
            assert found and min(found) >= 3, (scheme, path, found)
