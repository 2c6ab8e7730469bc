"""The demo on texts: CL, NCL and TF-IDF side by side."""

import json
import sys
import time

import numpy as np
import pytest

import nonneg
from nonneg.errors import InputError
from nonneg.studies import demo


@pytest.mark.slow
def test_intents_are_compared_with_word_counts_in_little_time(tmp_path, capsys):
    pytest.importorskip("tokenizers")
    start = time.process_time()
    cl, ncl, words = demo("intents", tmp_path / "demo")
    assert time.process_time() - start < 240  # about 80 on an idle machine
    assert (cl.name, ncl.name, words.name) == ("CL", "NCL", "TF-IDF")
    assert ncl.figures["sparsity"] > 0.9 and cl.figures["sparsity"] < 0.01
    excess = ncl.figures["class_consistency_supported"] - ncl.figures["class_consistency_floor"]
    assert excess > 0.1 and ncl.figures["live"] == ncl.figures["features"]
    assert ncl.figures["probe_encoder"] > cl.figures["probe_encoder"] - 0.02
    assert words.figures["precision_at_10"] == pytest.approx(0.49, abs=0.005)
    printed, report = capsys.readouterr().out, (tmp_path / "demo" / "report.html").read_text()
    assert "TF-IDF" in printed and "TF-IDF" in report and "<img" not in report
    assert set(json.loads((tmp_path / "demo" / "results.json").read_text())) >= {"CL", "NCL", "TF-IDF"}
    features = [nonneg.Features.load(tmp_path / "demo" / f"{side}.features") for side in ("cl", "ncl")]
    assert features[1].text(0) and len(features[1].suggestions) > 400 and not features[0].suggestions


def test_a_missing_package_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"nonneg\[text\]"):
        demo("intents", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


def test_word_counts_are_those_of_the_training_texts():
    from sklearn.feature_extraction.text import TfidfVectorizer

    from nonneg.studies import tf_idf

    train, test = ["lost card", "card stolen twice", "exchange rate"], ["card rate unknown"]
    codes, others = tf_idf(train, test)
    expected = TfidfVectorizer().fit(train)
    np.testing.assert_allclose(codes.toarray(), expected.transform(train).toarray(), atol=1e-6)
    np.testing.assert_allclose(others.toarray(), expected.transform(test).toarray(), atol=1e-6)
