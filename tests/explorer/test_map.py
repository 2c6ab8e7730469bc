"""The map of samples, families of features, samples by keyword, and inputs that are out of range."""

import base64
import io
import re
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image

from nonneg import Features, InputError
from nonneg.explorer import export, open_explorer
from nonneg.explorer._families import families
from nonneg.explorer._range import Range
from nonneg.explorer._requests import NewName
from nonneg.features import journal, read_map
from tests.explorer.conftest import settled


def encode_png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


@pytest.fixture(scope="module")
def topics():
    """Three topics of texts, with two features each: near-duplicates."""
    generator = np.random.default_rng(0)
    words = [["goal", "match", "team"], ["market", "price", "stock"], ["rain", "wind", "storm"]]
    topic = np.arange(180) % 3
    texts = [" ".join(generator.permutation(words[number])) for number in topic]
    codes = np.repeat(np.eye(3, dtype=np.float32)[topic], 2, axis=1) * generator.uniform(0.5, 1, (180, 6))
    return Features(codes.astype(np.float32), labels=topic, label_names=("sport", "money", "weather"), texts=texts)


def test_similar_samples_are_close_on_a_map_that_is_computed_once(topics, tmp_path):
    folder = topics.save(tmp_path / "x.features")
    found = open_explorer([folder]).map(0)
    positions = numbers(found.positions, "<u2").reshape(-1, 2) / 65535
    centres = np.stack([positions[topics.labels == label].mean(axis=0) for label in range(3)])
    nearest = np.linalg.norm(positions[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == topics.labels).mean() > 0.95
    assert found.label_names == topics.label_names and (numbers(found.labels, "<u2") == topics.labels).all()
    saved = read_map(folder, journal(folder).codes, 180)
    assert saved.method == found.method and np.abs(saved.positions - positions).max() < 1e-4
    changed = (folder / "map.json").stat().st_mtime_ns
    assert open_explorer([folder]).map(0) == found and (folder / "map.json").stat().st_mtime_ns == changed


@pytest.mark.parametrize("codes", [np.ones((30, 3)), np.ones((30, 1)), np.zeros((30, 4)), np.eye(30)[:, :2], np.eye(3)])
def test_any_codes_have_a_map(codes):
    positions = numbers(open_explorer([Features(codes.astype(np.float32))]).map(0).positions, "<u2")
    assert len(positions) == 2 * len(codes) and len(set(map(tuple, positions.reshape(-1, 2).tolist()))) == len(codes)


def test_a_map_is_coloured_by_the_strength_of_a_feature(topics):
    found = open_explorer([topics]).map_colours(0, 1)
    values = numbers(found.values, np.uint8)
    column = topics.codes[:, 1]
    assert found.largest == pytest.approx(float(column.max())) and values[column.argmax()] == 255
    assert ((values > 0) == (column > 0)).all()


def test_near_duplicates_form_families_with_a_name(topics):
    explorer = open_explorer([topics])
    explorer.prepare()
    table = explorer.table(0)
    assert sorted(family.features for family in table.families) == [(0, 1), (2, 3), (4, 5)]
    assert all(family.name for family in table.families)


def test_given_names_name_the_families_but_do_not_regroup_them(topics, tmp_path):
    topics.save(tmp_path / "x.features")
    explorer = open_explorer([tmp_path / "x.features"])
    explorer.prepare()
    before = explorer.table(0).families
    for feature in (0, 1, 2):
        explorer.rename(0, feature, NewName(name="whale"))
    after = explorer.table(0).families
    assert [family.features for family in after] == [family.features for family in before]
    assert {family.name for family in after if 0 in family.features} == {"whale"}


def test_grouping_takes_little_memory():
    count = 1_000
    products = np.eye(count, dtype=np.float32)
    tracemalloc.start()
    try:
        assert families(products, np.arange(count), {0: "red car", 1: "blue car"}) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * count**2  # bytes


def test_samples_are_found_by_their_words_and_label(topics):
    explorer = open_explorer([topics])
    assert explorer.find(0, "STORM wind").rows == tuple(np.flatnonzero(topics.labels == 2).tolist())
    assert explorer.find(0, "storm", label="money").total == 0
    assert explorer.find(0, "weather").total == 60 and explorer.find(0, "").total == 0
    with pytest.raises(InputError, match="label"):
        explorer.find(0, "storm", label="nothing")


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("art", (0, 3)),
        ("ART: house", (0,)),
        ("house_", (1,)),
        ("tech", (2,)),
        ("京", (4,)),
        ("ibm", (4,)),
        ("c++", (5,)),
        ("+", (5,)),
        ("one two three four five six seven eight nine ten house", ()),
        ("one two three four five six seven eight nine ten eleven", (5,)),
    ],
)
def test_all_words_match_at_the_beginnings_of_words(words, rows):
    texts = [
        "Art: a house",
        "It starts parties; house_7",
        "(x)",
        "L’artisan",
        "東京のIBM社",
        "C++ one two three four five",
    ]
    texts[5] += " six seven eight nine ten eleven"
    labels = {"labels": [0, 0, 1, 0, 0, 0], "label_names": ["World", "Sci/Tech"]}
    explorer = open_explorer([Features(np.eye(6, dtype=np.float32), texts=texts, **labels)])
    assert explorer.find(0, words).rows == rows


def select(page):
    """Draw a lasso around the whole map."""
    page.get_by_role("button", name="Lasso").click()
    page.locator(".legend").scroll_into_view_if_needed()
    box = page.locator("canvas.points").bounding_box()
    left, top, right, bottom = box["x"] + 2, box["y"] + 2, box["x"] + box["width"] - 2, box["y"] + box["height"] - 2
    page.mouse.move(left, (top + bottom) / 2)  # the corners are round
    page.mouse.down()
    for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)):
        page.mouse.move(x, y)
    page.mouse.up()


def test_the_map_is_painted_filtered_and_leads_to_samples(topics, serve, visit):
    page = visit(serve(topics) + "/map?label=money")
    page.locator("canvas[data-painted]").wait_for()
    page.get_by_text("60 texts match").wait_for()
    page.get_by_role("button", name="Skip the tour").click()
    select(page)
    page.locator("h2", has_text="60 selected").wait_for()
    page.locator(".chosen .tile").first.click()
    page.wait_for_url(re.compile("/sample/"))


def test_a_late_answer_does_not_undo_a_later_choice_on_the_map(topics, serve, visit):
    page = visit(serve(topics) + "/map")
    page.locator("canvas[data-painted]").wait_for()
    late = []
    page.route("**/map/0", lambda route: late.append(route))
    page.get_by_role("combobox", name="Colour by a feature").fill("0")
    page.get_by_role("option").first.click()
    page.get_by_role("button", name="stop colouring").click()
    page.locator(".legend").wait_for()
    with page.expect_response("**/map/0"):
        late[0].continue_()
    page.wait_for_timeout(200)
    assert page.locator(".legend").is_visible()


def test_the_list_under_the_map_follows_the_latest_choice(topics, serve, visit):
    page = visit(serve(topics) + "/map?q=storm")
    page.locator("h2", has_text="60 with “storm”").wait_for()
    page.get_by_role("button", name="Skip the tour").click()
    late, words = [], page.get_by_label("Find texts by a word")
    page.route("**/api/sets/0/samples", lambda route: late.append(route), times=1)
    for word in ("goal", "price"):
        words.fill(word)
        words.press("Enter")
        page.locator("h2", has_text=word).wait_for()
    page.locator(".chosen .tile", has_text="price").first.wait_for()
    with page.expect_response("**/samples"):
        late[0].continue_()
    select(page)
    page.locator("h2", has_text="60 selected").wait_for()
    page.get_by_label("Show only one label").select_option("sport")
    page.get_by_text("0 texts match").wait_for()
    words.fill("")
    words.press("Enter")
    page.get_by_text("60 texts match").wait_for()
    assert page.locator(".chosen h2").inner_text().startswith("60 selected")
    assert page.locator(".chosen .tile", has_text="goal").count() == 0
    page.get_by_role("button", name="Clear the selection").click()
    assert page.locator(".chosen").inner_text() == ""


def test_a_list_of_a_search_disappears_with_its_words(topics, serve, visit):
    page = visit(serve(topics) + "/map?q=storm")
    page.locator("h2", has_text="60 with “storm”").wait_for()
    page.get_by_label("Find texts by a word").fill("")
    page.get_by_label("Find texts by a word").press("Enter")
    page.locator(".chosen h2").wait_for(state="detached")


def test_controls_say_that_the_server_does_not_answer(topics, serve, visit):
    page = visit(serve(topics) + "/map")
    page.locator("canvas[data-painted]").wait_for()
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_role("button", name="Skip the tour").click()
    select(page)
    page.locator(".chosen .trouble", has_text="does not answer").wait_for()
    page.get_by_label("Find texts by a word").fill("storm")
    page.keyboard.press("Enter")
    page.locator(".trouble[role=status], [role=status] .trouble", has_text="does not answer").wait_for()
    page.locator("#find").fill("storm")
    page.locator(".choices .trouble", has_text="does not answer").wait_for()


def test_the_map_speaks_of_the_gestures_that_the_device_has(topics, serve, visit):
    address = serve(topics) + "/map"
    for device, gesture in (({"has_touch": True, "is_mobile": True}, "pinch to zoom"), ({}, "scroll to zoom")):
        visit(address, **device).get_by_text(gesture).wait_for()


def test_the_most_common_labels_have_colours(topics, serve, visit):
    labels = np.minimum(np.arange(180), 12)
    many = Features(topics.codes, labels=labels, label_names=[f"label {number}." for number in range(13)])
    page = visit(serve(many) + "/map")
    page.locator("canvas[data-painted]").wait_for()
    shown = page.locator(".legend").inner_text()
    assert "label 12." in shown and "label 8." in shown and "label 9." not in shown and "3 other labels" in shown


def test_a_picture_of_the_set_that_is_too_large_is_left_out_of_what_is_normal():
    generator = np.random.default_rng(0)
    pictures = [encode_png(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for _ in range(30)]
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    pictures[3] = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))
        for kind, part in ((b"IHDR", header), (b"IDAT", b""), (b"IEND", b""))
    )
    features = Features(generator.random((30, 4), np.float32), media=pictures)
    assert Range(features).problem(features.codes[0], pictures[0]) is None


def test_the_search_box_suggests_features_and_samples(topics, serve, visit):
    page = visit(serve(topics) + "/")
    page.locator("#find").fill("storm")
    page.get_by_role("option", name=re.compile("text .*storm")).first.wait_for()
    page.get_by_role("option", name="All 60 texts").click()
    page.locator("h1", has_text="Find texts").wait_for()
    page.get_by_role("link", name="Show on the map").wait_for()


def photograph(size=64):
    """A colour picture with smooth areas and texture, as photographs have."""
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:size, :size] / size
    waves = np.stack([np.sin(9 * x + 3 * y + c) + np.cos(4 * y - 7 * x * y + 2 * c) for c in range(3)], axis=-1)
    pixels = 128 + 50 * waves + generator.normal(0, 12, waves.shape)
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "png")
    return buffer.getvalue()


def test_a_photograph_is_out_of_range_for_digits_and_digits_are_not(digits):
    explorer = open_explorer([digits / "ncl"])
    features = explorer.sets[0].features
    assert explorer.encode(0, photograph()).warning
    warned = [explorer.encode(0, features.media(row)).warning for row in range(0, 200, 5)]
    assert sum(warning is not None for warning in warned) <= 2  # about 1%, by definition


def test_a_copy_of_images_opens_from_a_file_without_errors(visit, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), np.uint8)
    codes = np.eye(3, dtype=np.float32)[np.arange(30) % 3]
    site = export(Features(codes, labels=np.arange(30) % 3, pixels=pixels), out=tmp_path / "site", progress=False)
    alone = tmp_path / "alone.html"
    alone.write_bytes((site / "index.html").read_bytes())
    page = visit(alone.as_uri())
    told = []
    page.on("console", lambda message: told.append(message.text) if message.type in ("error", "warning") else None)
    for place in ("", "features", "feature/1", "sample/4", "map"):
        page.goto(f"{alone.as_uri()}#/{place}")
        page.reload()
        settled(page)
    page.locator("canvas[data-painted]").wait_for()
    page.goto(f"{alone.as_uri()}#/feature/1")
    page.locator(".tiles img").first.wait_for()
    assert page.locator(".tiles img").first.evaluate("image => image.naturalWidth") == 8
    assert not told


def test_a_small_copy_opens_from_a_file_without_a_server(topics, visit, tmp_path):
    site = export(topics.save(tmp_path / "x.features"), out=tmp_path / "site", progress=False)
    alone = tmp_path / "alone.html"
    alone.write_bytes((site / "index.html").read_bytes())
    page = visit(alone.as_uri())
    page.locator("h1", has_text="6 features of 180 texts").wait_for()
    page.get_by_role("link", name="Map").click()
    page.locator("canvas[data-painted]").wait_for()
    page.get_by_role("link", name="Features", exact=True).click()
    page.locator("table.features a.caption").first.click()
    page.locator("article.feature").wait_for()
