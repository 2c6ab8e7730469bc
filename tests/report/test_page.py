"""The report shows the strongest samples, metrics and notes of the features."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from nonneg import Features, metrics
from nonneg.errors import InputError
from nonneg.report import Search, Side, Table, picture_of, write_report

LOG = [{"epoch": 1, "loss": 2.0, "sparsity": 0.1}, {"epoch": 2, "loss": 1.0, "sparsity": 0.5}]


def picture(row: int) -> bytes:
    """A PNG image whose brightness is the sample's row."""
    buffer = io.BytesIO()
    Image.fromarray(np.full((2, 2), row, np.uint8)).save(buffer, "png")
    return buffer.getvalue()


def features(codes, **parts) -> Features:
    samples = len(codes)
    labels = np.arange(samples) % 3
    pictures = [picture(row) for row in range(samples)]
    return Features(codes, **{"labels": labels, "label_names": ("a", "b", "c"), "media": pictures, **parts})


def page(tmp_path, *sides: Side) -> str:
    table = Table(tuple(side.name for side in sides), (("sparsity", ("0.5",) * len(sides), "share of zeros"),))
    write_report(tmp_path / "r.html", "A title", "A lead.", list(sides), table, {"commit": "abc"})
    return (tmp_path / "r.html").read_text()


@pytest.fixture
def codes():
    z = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32).clip(0)
    z[:, 5] = 0
    return z


def test_strips_show_the_strongest_samples_of_the_most_active_features(codes, tmp_path):
    shown = features(codes)
    text = page(tmp_path, Side("one", "", shown, LOG, {}))
    strips = re.findall(r"<b>feature (\d+)</b>.*?<div class=\"strip\">(.*?)</div>", text, re.DOTALL)
    order = np.argsort(-(codes / np.linalg.norm(codes, axis=1, keepdims=True).clip(1e-9)).mean(0))
    assert [int(feature) for feature, _ in strips] == [j for j in order if j != 5]  # 5 is dead
    for feature, strip in strips:
        images = re.findall(r"base64,([^\"]+)", strip)
        rows = [int(np.asarray(Image.open(io.BytesIO(base64.b64decode(image))))[0, 0]) for image in images]
        assert rows == list(np.argsort(-codes[:, int(feature)], kind="stable")[:10])
        labels = re.findall(r'alt="(.)"', strip)
        assert labels == ["abc"[row % 3] for row in rows]
        most_common = max(sorted(set(labels)), key=labels.count)
        assert strip.count('class="other"') == sum(label != most_common for label in labels)


def test_the_chance_level_is_that_of_the_metric(codes, tmp_path):
    shown = features(codes)
    floor = metrics.class_consistency(codes, shown.labels).floor
    text = page(tmp_path, Side("one", "", shown, LOG, {}))
    assert f"one: 7 features, chance {floor:.0%}" in text


def test_the_report_contains_notes_and_facts(codes, tmp_path):
    text = page(tmp_path, Side("one", "what sets it apart", features(codes), LOG, {3: "follows red"}))
    for part in ("A title", "A lead.", "what sets it apart", "feature 3 follows red", "share of zeros", "abc"):
        assert part in text


def test_a_report_of_collapsed_features_can_be_written(tmp_path):
    dead = features(np.zeros((30, 4), np.float32))
    assert "one: 0 features" in page(tmp_path, Side("one", "", dead, LOG, {}))


def test_hostile_labels_are_shown_as_text(codes, tmp_path):
    names = ("<script>alert(1)</script>", 'a" onerror="alert(1)', "c")
    side = Side("one", "<b>bold</b>", features(codes, label_names=names), LOG, {0: "<i>note</i>"})
    text = page(tmp_path, side)
    for hostile in ("<script>alert", "<b>bold", "<i>note", '" onerror="alert(1)"'):
        assert hostile not in text


def test_features_without_labels_are_an_error(codes, tmp_path):
    with pytest.raises(InputError, match="features of one have no labels"):
        page(tmp_path, Side("one", "", features(codes, labels=None), LOG, {}))


def test_texts_are_shown_instead_of_images(codes, tmp_path):
    texts = [f"text <{row}>" for row in range(len(codes))]
    text = page(tmp_path, Side("one", "", features(codes, media=None, texts=texts), LOG, {}))
    shown = re.findall(r"<li title=\"(.)\"(.*?)dir=\"auto\">text &lt;(\d+)&gt;</li>", text)
    strongest = np.argsort(-codes, axis=0, kind="stable")[:10]
    first = int(re.search(r"<b>feature (\d+)</b>", text)[1])
    assert [int(row) for _, _, row in shown[:10]] == list(strongest[:, first])
    assert "<img" not in text


def test_searches_show_the_pictures_that_words_find(codes, tmp_path):
    shown = features(codes, texts=[f"name {row}, a word" for row in range(len(codes))])
    table = Table(("one",), (("sparsity", ("0.5",), "share of zeros"),))
    found = [Search("red animal", {"one": [picture_of(shown, row) for row in (7, 3)]})]
    write_report(tmp_path / "r.html", "T", "L", [Side("one", "", shown, LOG, {})], table, {}, found)
    text = (tmp_path / "r.html").read_text()
    row = re.search(r"red animal</th>(.*?)</tr>", text, re.DOTALL)[1]
    assert re.findall(r'title="(.*?)"', row) == ["name 7", "name 3"]
    encoded = re.findall(r"base64,(.*?)\"", row)
    assert [base64.b64decode(each) for each in encoded] == [picture(7), picture(3)]
    assert '<ul class="texts">' not in text  # features with pictures show these, although they have texts, too
