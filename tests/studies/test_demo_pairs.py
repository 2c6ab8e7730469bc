"""The demo on pairs: words that find pictures, and features that both share."""

import json

import numpy as np
import pytest

import nonneg
from nonneg.search import Query, find
from nonneg.studies import both_sides, demo
from nonneg.training import load_recipe

pytest.importorskip("tokenizers")


def test_plain_contrastive_learning_of_pairs_has_the_temperature_before_the_rectifier():
    config = load_recipe("emoji").replace(temperature=0.2, dense_temperature=0.1)
    sides = both_sides(config)
    assert sides["NCL"] == config and sides["CL"].rectify == "none"
    assert sides["CL"].temperature == 0.1


@pytest.mark.slow
def test_words_find_held_out_emoji(tmp_path, capsys):
    cl, ncl = demo("emoji", tmp_path / "demo")
    for side in (cl, ncl):
        assert side.figures["words_at_10"] > 0.2 and side.figures["zero_shot_at_5"] > 0.2  # chance: 0.03, 0.05
    assert ncl.figures["sparsity"] > 0.85 and ncl.figures["live"] == ncl.figures["features"]
    assert ncl.figures["partner_auc"] > max(0.58, cl.figures["partner_auc"])
    excess = [s.figures["class_consistency_supported"] - s.figures["class_consistency_floor"] for s in (cl, ncl)]
    assert excess[1] > excess[0]
    report = (tmp_path / "demo" / "report.html").read_text()
    assert "red animal" in report and "words find" in capsys.readouterr().out
    features = nonneg.Features.load(tmp_path / "demo" / "ncl.features")
    hits = find(features, Query(text="sad face", k=10), run=tmp_path / "demo" / "ncl")
    assert sum("face" in hit.text for hit in hits) >= 8


@pytest.mark.slow
def test_the_page_shows_all_emoji_with_words_and_agreement(tmp_path, capsys):
    demo("emoji", tmp_path / "demo", epochs=1)
    features = nonneg.Features.load(tmp_path / "demo" / "ncl.features")
    assert len(features) == 2 * 1906 and features.has_media and "," in features.text(0)
    assert np.isfinite(features.agreement).sum() > 10
    assert features.provenance["agreement"]["pairs"] == 2 * 364
    assert len(features.suggestions) > 1000 and any("red" in each.name for each in features.suggestions.values())
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    feature, words = next(iter(results["NCL"]["follows"].items()))
    assert words["words"] == features.suggestions[int(feature)].name and not results["CL"]["follows"]
