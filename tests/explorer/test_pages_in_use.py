"""Naming, composing, searching and trying in a real browser with the real server."""

import re
import threading

import numpy as np

from nonneg import Features
from nonneg.explorer import Explorer, Page, open_explorer
from nonneg.features import Suggestion, journal, write_suggestions
from nonneg.search import Query, search_folder
from tests.explorer.conftest import most_active, settled


def test_a_name_survives_a_reload_and_stays_in_the_history(ncl, serve, visit):
    feature = most_active(ncl)
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
    page.get_by_text("2 names in its history").click()
    assert page.locator(".history li").count() == 2
    assert Features.load(ncl).names == {feature: "<b>loops</b>"}


def test_a_name_is_shown_unchanged_with_its_score(serve, visit):
    labels = np.arange(80) % 2
    codes = np.stack([labels, 1 - labels], axis=1).astype(np.float32)
    pets = Features(codes, labels=labels, label_names=("dog", "cat"), names={0: "e.g. cats"})
    page = visit(serve(pets) + "/feature/0")
    assert page.locator("h1").inner_text() == "e.g. cats"
    assert page.locator("[data-score]").get_attribute("data-score") == "1"


def test_two_browsers_naming_the_same_feature_lose_no_name(ncl, serve, visit):
    feature = most_active(ncl)
    address = f"{serve(ncl)}/feature/{feature}"
    first, second = visit(address), visit(address)
    for page, name in ((first, "first"), (second, "second")):
        page.get_by_role("button", name="Name this feature").click()
        page.get_by_label("What do these have in common?").fill(name)
    first.get_by_role("button", name="Save").click()
    first.locator("h1", has_text=re.compile("first", re.I)).wait_for()
    second.get_by_role("button", name="Save").click()
    second.get_by_text("has renamed it “first”").wait_for()
    second.get_by_role("button", name="Save").click()
    second.locator("h1", has_text=re.compile("second", re.I)).wait_for()
    assert [entry.name for entry in journal(ncl).history()] == ["first", "second"]


def test_only_a_name_of_somebody_else_is_a_conflict(ncl, serve, visit):
    feature, names = most_active(ncl), journal(ncl)
    page = visit(f"{serve(ncl)}/feature/{feature}")
    save = page.get_by_role("button", name="Save")
    page.get_by_role("button", name="Name this feature").click()
    page.get_by_label("What do these have in common?").fill("loops")
    page.get_by_label("Your name").fill("Ada")
    save.dblclick()
    page.locator("h1", has_text="loops").wait_for()
    assert page.title().startswith("loops")
    page.wait_for_timeout(200)  # for a second answer
    assert page.get_by_text("in the meantime").count() == 0 and len(names.history()) == 1
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("What do these have in common?").fill("rings ")
    names.record({feature: "rings"}, "Ada")
    save.click()
    page.locator("h1", has_text="rings").wait_for()
    page.get_by_role("button", name="Rename").click()
    names.record({feature: ""}, "Bob")
    save.click()
    page.get_by_text("Bob has removed its name in the meantime.").wait_for()
    save.click()
    page.get_by_text("Named by Ada").wait_for()
    assert [entry.name for entry in names.history()] == ["loops", "rings", "", "rings"]


def test_a_name_from_another_browser_appears_after_going_back(ncl, serve, visit):
    feature = most_active(ncl)
    address = serve(ncl)
    page, other = visit(f"{address}/features?q={feature}"), visit(f"{address}/feature/{feature}")
    page.get_by_role("link", name="Compose").click()
    page.locator("h1", has_text="Compose").wait_for()
    other.get_by_role("button", name="Name this feature").click()
    other.get_by_label("What do these have in common?").fill("given elsewhere")
    other.get_by_role("button", name="Save").click()
    other.locator("h1", has_text="given elsewhere").wait_for()
    page.go_back()
    page.locator("tbody th", has_text="given elsewhere").wait_for()


def test_names_suggested_while_somebody_types_are_shown_afterwards(visit, tmp_path):
    topics = [["goal", "match", "team", "coach"], ["market", "price", "stock", "bank"]]
    topic, ready = np.arange(200) % 2, threading.Event()
    texts = [", ".join(np.random.default_rng(row).permutation(topics[number])) for row, number in enumerate(topic)]
    folder = Features(np.eye(2, dtype=np.float32)[topic], texts=texts).save(tmp_path / "x.features")

    class Waiting(Explorer):
        def prepare(self, encodes=False):
            ready.wait(60)
            super().prepare(encodes)

    with Page(Waiting(open_explorer([folder]).sets), port=0) as served:
        page = visit(served.url + "feature/0")
        page.get_by_role("button", name="Name this feature").click()
        page.get_by_label("What do these have in common?").fill("half a")
        page.get_by_role("heading", name="Feature 0").wait_for()
        with page.expect_response(lambda answer: "/overview" in answer.url and answer.json()["sets"][0]["is_settled"]):
            ready.set()
        page.wait_for_timeout(200)
        assert page.get_by_label("What do these have in common?").input_value() == "half a"
        page.locator("h1").click()
        page.wait_for_timeout(1600)
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name=re.compile("goal|match|team|coach", re.I)).first.wait_for()


def test_a_read_only_page_offers_no_naming(ncl, serve, visit):
    page = visit(f"{serve(ncl, read_only=True)}/feature/{most_active(ncl)}")
    assert page.get_by_role("button", name="Name this feature").count() == 0


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
    page.get_by_role("combobox", name="Exclude a feature").fill(str(order[1]))
    page.get_by_role("option", name=re.compile(rf"feature {order[1]}\b")).click()
    page.locator(".results", has_text="that pass the filters").wait_for()
    shared = visit(page.url)
    shared.locator(".results", has_text="that pass the filters").wait_for()
    links = "links => links.map((link) => link.getAttribute('href'))"
    assert shared.locator(".found a").evaluate_all(links) == page.locator(".found a").evaluate_all(links)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON").click()
    query = Query.load(download.value.path())
    assert query == Query(features=((order[0], 1.5),), without=(order[1],), k=24)
    shown = [int(link.rsplit("/", 1)[1]) for link in page.locator(".found a").evaluate_all(links)]
    assert [hit.row for hit in search_folder(ncl, query)] == shown
    page.get_by_role("checkbox", name=re.compile("^must have")).check()
    page.wait_for_url(re.compile(rf"require={order[0]}"))
    page.locator(".results", has_text="that pass the filters").wait_for()


def test_results_become_examples_and_examples_can_be_removed(ncl, serve, visit):
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


def test_a_slider_moved_before_leaving_does_not_change_the_next_address(ncl, serve, visit):
    page = visit(f"{serve(ncl)}/compose?f={most_active(ncl)}:1")
    page.get_by_role("slider").fill("1.7")
    page.get_by_role("link", name="Overview").click()
    page.locator("h1", has_text="features of").wait_for()
    page.wait_for_timeout(300)
    assert page.url.endswith("/")


def test_a_query_that_excludes_every_sample_says_so(serve, visit):
    page = visit(serve(Features(np.ones((4, 2), np.float32))) + "/compose?f=0:1&without=1")
    page.locator("main").get_by_text("No sample passes the filters.").wait_for()


def test_an_example_keeps_the_filters_and_a_query_of_zero_weights_is_not_downloaded(ncl, serve, visit):
    address = serve(ncl)
    page = visit(address + "/compose?without=1")
    link = page.locator(".examples a").first.get_attribute("href")
    assert re.fullmatch(r"/compose\?f=\d+:1&without=1", link)
    page.goto(f"{address}/compose?f={most_active(ncl)}:0")
    page.locator("main").get_by_text("All weights are 0.").wait_for()
    download = page.get_by_role("link", name="Download as JSON")
    assert not download.is_visible()
    page.get_by_role("slider").fill("0.5")
    page.locator(".found a").first.wait_for()
    assert download.is_visible()


def test_search_with_a_feature_and_with_a_sample(ncl, serve, visit):
    address = serve(ncl)
    page = visit(f"{address}/feature/{most_active(ncl)}")
    page.get_by_role("link", name="Search with this feature").click()
    page.locator(".compose .found a").first.wait_for()
    page = visit(f"{address}/sample/5")
    page.get_by_role("link", name="Search with this image").click()
    page.locator(".example img").wait_for()
    assert "like=5" in page.url and page.locator(".found a").count() == 24


def test_an_example_image_can_be_tried(own_digits, serve, visit):
    page = visit(serve(own_digits / "ncl") + "/try")
    example = page.get_by_role("button", name=re.compile("^Try image")).first
    row = example.locator("img").get_attribute("src").split("/")[-1].split("?")[0]
    example.click()
    page.get_by_text("Most similar").wait_for()
    assert page.locator(".found a").first.get_attribute("href") == f"/sample/{row}"


def test_a_new_image_is_encoded(own_digits, serve, visit, tmp_path):
    features = Features.load(own_digits / "ncl.features")
    (tmp_path / "mine.png").write_bytes(features.media(8) or b"")
    (tmp_path / "broken.png").write_bytes(b"no image")
    page = visit(serve(own_digits / "ncl") + "/try")
    page.locator("#file").set_input_files(tmp_path / "broken.png")
    page.get_by_text("expected a PNG or JPEG").wait_for()
    page.locator("#file").set_input_files(tmp_path / "mine.png")
    page.get_by_text("Most similar").wait_for()
    assert page.locator(".found a").first.get_attribute("href") == "/sample/8"


NO_STORAGE = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('', 'SecurityError'); }})"


def test_a_feature_is_named_where_the_browser_stores_nothing(ncl, serve, visit):
    address = serve(ncl)
    page = visit(address)
    page.add_init_script(NO_STORAGE)
    page.goto(f"{address}/feature/{most_active(ncl)}")
    page.get_by_role("button", name="Name this feature").click()
    page.get_by_label("What do these have in common?").fill("round")
    page.get_by_role("button", name="Save").click()
    page.locator("h1", has_text="round").wait_for()


def test_suggested_names_are_sorted_and_a_guess_without_a_score_is_called_one(serve, visit, tmp_path):
    codes = np.eye(2, dtype=np.float32)[np.arange(40) % 2]
    folder = Features(codes, texts=[f"text {row}" for row in range(40)]).save(tmp_path / "x")
    found = {0: Suggestion("zebra", None, 2), 1: Suggestion("apple", 0.9, 20)}
    write_suggestions(folder, journal(folder).codes, found)
    address = serve(folder)
    page = visit(f"{address}/features?sort=name")
    assert [text.split()[0] for text in page.locator("tbody th").all_inner_texts()] == ["apple", "zebra"]
    page.goto(f"{address}/feature/0")
    page.locator("h1", has_text="Zebra").wait_for()
    assert "guess" in page.locator(".naming").inner_text()


def test_a_sample_whose_label_is_empty_is_called_by_its_id(serve, visit):
    page = visit(serve(Features(np.eye(2, dtype=np.float32), labels=[0, 1], label_names=["", "x"])) + "/sample/0")
    assert page.locator("h1").inner_text() == "0"


def test_samples_may_have_a_name_without_a_plural(serve, visit):
    page = visit(serve(Features(np.eye(2, dtype=np.float32), provenance={"kind": "emoji"})) + "/sample/0")
    assert page.locator(".over").inner_text() == "Emoji 0"


def test_a_search_box_says_whether_its_list_is_open(ncl, serve, visit):
    page = visit(serve(ncl) + "/compose")
    settled(page)
    for name, leave in (("Find features and samples", "h1"), ("Add a feature", None)):
        box = page.get_by_role("combobox", name=name)
        box.fill("1")
        page.get_by_role("option").first.wait_for()
        assert box.get_attribute("aria-expanded") == "true"
        if leave:
            page.locator(leave).click()
        else:
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Escape")
        page.get_by_role("option").first.wait_for(state="hidden")
        assert box.get_attribute("aria-expanded") == "false"
    page.keyboard.press("Enter")  # nothing is offered
    assert "f=" not in page.url
    page.keyboard.press("ArrowDown")
    page.get_by_role("option").first.wait_for()
    assert page.get_by_role("listbox").get_attribute("id") == box.get_attribute("aria-controls")
    page.keyboard.press("Tab")
    page.get_by_role("option").first.wait_for(state="hidden")
