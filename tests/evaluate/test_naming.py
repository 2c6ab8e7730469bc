import numpy as np
import pytest

from nonneg import Features, InputError
from nonneg.evaluate import suggest_names
from nonneg.evaluate._naming import _above

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


def test_features_are_named_by_their_words(features):
    names = suggest_names(features, words=2)
    assert set(names[0].words) == {"ball", "goal"} and set(names[1].words) == {"bread", "soup"}
    assert names[0].score == 1.0 and names[0].active > 50
    assert 3 not in names
    if 2 in names:
        assert abs(names[2].score - 0.5) < 0.1


def test_words_must_carry_over_to_be_worth_something():
    # Words that mark single texts name nothing: on the other half they say nothing.
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice([f"word{chr(97 + i)}" for i in range(20)], 6)) for _ in range(300)]
    names = suggest_names(Features((rng.random((300, 5)) < 0.4).astype(np.float32) + 0.0, texts=texts))
    assert all(abs(found.score - 0.5) < 0.15 for found in names.values())


def test_the_score_is_the_area_under_the_curve():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    a, b = rng.integers(4, size=50), rng.integers(3, size=70)
    expected = roc_auc_score([1] * 50 + [0] * 70, np.concatenate((a, b)))
    assert _above(a, b) == pytest.approx(expected)


def test_features_without_texts_are_refused(features):
    with pytest.raises(InputError, match="have no texts"):
        suggest_names(Features(np.eye(3, dtype=np.float32)))
    with pytest.raises(InputError, match="share no words"):
        suggest_names(Features(np.eye(3, dtype=np.float32), texts=["1", "2", "3"]))


def test_texts_that_share_one_word_alone_are_no_trouble():
    texts = ["moon"] * 40 + ["sun"] * 40
    codes = np.zeros((80, 2), np.float32)
    codes[:40, 0] = codes[40:, 1] = 1
    for given in (texts, ["moon"] * 80):
        assert all(np.isfinite(found.score) for found in suggest_names(Features(codes, texts=given)).values())
