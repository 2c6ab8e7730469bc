"""Names that are suggested for features from the words of their texts."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from nonneg import Features, InputError
from nonneg.evaluate import suggest_names

SPORT, FOOD = ["ball", "goal", "team"], ["bread", "soup", "salt"]


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    about = rng.integers(2, size=400)
    texts = [" ".join(rng.permutation([*(SPORT, FOOD)[a][:2], "and", "other", "things"])) for a in about]
    codes = np.zeros((400, 4), np.float32)
    codes[np.arange(400), about] = 1.0
    codes[:, 2] = rng.random(400) < 0.5  # chance
    codes[:3, 3] = 1.0  # too rare
    return Features(codes, texts=texts)


def test_features_are_named_after_the_words_of_their_texts(features):
    names = suggest_names(features, words=2)
    assert set(names[0].words) == {"ball", "goal"} and set(names[1].words) == {"bread", "soup"}
    assert names[0].score == 1.0 and names[0].active > 50
    assert 3 not in names
    if 2 in names:
        assert abs(names[2].score - 0.5) < 0.1


def test_words_that_do_not_generalise_score_like_chance():
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice([f"word{chr(97 + i)}" for i in range(20)], 6)) for _ in range(300)]
    names = suggest_names(Features((rng.random((300, 5)) < 0.4).astype(np.float32) + 0.0, texts=texts))
    assert all(abs(found.score - 0.5) < 0.15 for found in names.values())


def test_the_score_is_the_area_under_the_roc_curve_on_the_other_half_of_the_texts():
    rng = np.random.default_rng(0)
    is_active = rng.random(200) < 0.5
    has_word = np.where(rng.random(200) < 0.2, ~is_active, is_active)
    texts = ["moon night" if has else "night" for has in has_word]
    found = suggest_names(Features(is_active[:, None].astype(np.float32), texts=texts), words=1)[0]
    held_out = np.random.default_rng(0).permutation(200)[100:]
    assert found.words == ("moon",) and found.active == is_active[held_out].sum()
    assert found.score == pytest.approx(roc_auc_score(is_active[held_out], has_word[held_out]))


def test_features_without_usable_texts_are_errors(features):
    with pytest.raises(InputError, match="texts"):
        suggest_names(Features(np.eye(3, dtype=np.float32)))
    with pytest.raises(InputError, match="texts"):
        suggest_names(Features(np.eye(3, dtype=np.float32), texts=["1", "2", "3"]))


def test_texts_of_a_single_word_have_finite_scores():
    texts = ["moon"] * 40 + ["sun"] * 40
    codes = np.zeros((80, 2), np.float32)
    codes[:40, 0] = codes[40:, 1] = 1
    for given in (texts, ["moon"] * 80):
        assert all(np.isfinite(found.score) for found in suggest_names(Features(codes, texts=given)).values())
