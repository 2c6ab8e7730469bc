"""Words that switch a feature on, on texts whose answer is known."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg.search import word_marks

WORDS = ("card", "lost", "rate")


class CountsWords:
    """An encoder whose feature i is how often word i occurs, at most twice."""

    def text_codes(self, texts):
        counts = np.array([[text.lower().split().count(word) for word in WORDS] for text in texts], np.float32)
        assert all(text.strip() for text in texts)
        return sp.csr_array(np.minimum(counts, 2))


def test_the_words_of_a_feature_are_marked_and_no_others():
    text = "I lost 🦊 my\n card, card"
    value, marks = word_marks(CountsWords(), text, 1)
    assert value == 1
    assert [text[mark.start : mark.stop] for mark in marks] == text.split()
    assert [mark.effect for mark in marks] == [0, 1, 0, 0, 0, 0]


def test_a_word_that_is_not_needed_has_no_effect():
    value, marks = word_marks(CountsWords(), "card card card rate", 0)
    assert value == 2 and [mark.effect for mark in marks] == [0, 0, 0, 0]
    value, marks = word_marks(CountsWords(), "card card rate", 0)
    assert [mark.effect for mark in marks] == [1, 1, 0]


def test_a_single_word_has_the_whole_effect():
    assert word_marks(CountsWords(), "  rate ", 2) == (1.0, ((2, 6, 1.0),))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("石油価格が上昇した。", [*"石油価格が上昇した。"]),
        ("iPhoneのニュース🦊 new", ["iPhone", "の", "ニュース", "🦊", "new"]),
        ("กิน ข้าว", ["กิ", "น", "ข้", "า", "ว"]),
        ("naïve слово", ["naïve", "слово"]),
    ],
)
def test_scripts_without_spaces_are_marked_by_letters(text, words):
    _, marks = word_marks(CountsWords(), text, 0)
    assert [text[mark.start : mark.stop] for mark in marks] == words


@pytest.mark.parametrize("words", [300, 1000])
def test_a_long_text_is_marked_at_its_start(words):
    _, marks = word_marks(CountsWords(), "card " * words, 0)
    assert len(marks) == 256
