"""Names that are suggested for features from the words of their texts."""

import io
import time

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import roc_auc_score

from nonneg import Features, InputError
from nonneg.features import Suggestion
from nonneg.naming import Reader, area_under_roc, guessed_names, marked, save_suggestions, suggest_names
from nonneg.naming._words import Vocabulary, folded_words
from nonneg.search import Query, find

SPORT, FOOD = ["ball", "goal", "team"], ["bread", "soup", "salt"]


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    about = rng.integers(2, size=400)
    texts = [" ".join(rng.permutation([*(SPORT, FOOD)[a][:2], "and", "other", "things"])) for a in about]
    codes = np.zeros((400, 5), np.float32)
    codes[np.arange(400), about] = 1.0
    codes[:, 2] = rng.random(400) < 0.5  # chance
    codes[:3, 3] = 1.0  # rare
    codes[:, 4] = codes[:, 0] * (rng.random(400) < 0.9)  # almost the same as the first
    return Features(codes, texts=texts)


def words_of(name):
    return set(name.lower().replace(",", "").split())


def test_features_are_named_after_the_words_of_their_texts(features):
    names = suggest_names(features)
    assert words_of(names[0].name) & {"ball", "goal"} and not words_of(names[0].name) & {"bread", "soup"}
    assert words_of(names[1].name) & {"bread", "soup"} and not words_of(names[1].name) & {"ball", "goal"}
    assert names[0].score == 1.0 and names[0].active > 50 and not names[0].is_guess


def test_no_two_features_have_names_of_the_same_words_or_with_a_number(features):
    names = [words_of(found.name) for found in suggest_names(features).values()]
    assert len({frozenset(name) for name in names}) == len(names) >= 4
    assert all(len(name) <= 3 and all(word.isalpha() for word in name) for name in names)


def test_a_rare_feature_has_no_score_and_is_a_guess(features):
    rare = suggest_names(features).get(3)
    assert rare is None or (rare.score is None and rare.is_guess)


def test_words_that_do_not_generalise_score_like_chance():
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice([f"word{chr(97 + i)}" for i in range(20)], 6)) for _ in range(300)]
    names = suggest_names(Features((rng.random((300, 5)) < 0.4).astype(np.float32) + 0.0, texts=texts))
    assert all(abs(found.score - 0.5) < 0.2 for found in names.values())


def test_frequent_pairs_of_words_are_named_as_phrases_with_their_capitals():
    texts = [f"{who} {did} a friend" for who in ("the Prime Minister", "a cat") for did in ("met", "saw", "left") * 10]
    codes = np.zeros((60, 2), np.float32)
    codes[:30, 0] = codes[30:, 1] = 1
    names = suggest_names(Features(codes, texts=texts))
    assert names[0].name.split(",")[0] == "Prime Minister" and "cat" in names[1].name


def test_a_phrase_of_three_words_is_joined_and_parts_of_phrases_do_not_stand_alone():
    rng = np.random.default_rng(0)
    others = ["plan", "lead", "rest", "call", "walk", "hope", "stay", "turn"]

    def text(*words):
        return " a ".join([*rng.permutation(others)[:2], *words, rng.choice(others)])

    vocabulary = Vocabulary([text(name) for name in ("New Delhi", "New Delhi", "New Delhi Jets", "cloud") * 20])
    assert vocabulary.written(["jets", "cloud", "new delhi"]) == "cloud, New Delhi Jets"
    terms = ("new", "delhi", "new delhi", "delhi jets", "jets", "cloud")
    is_whole = [bool(vocabulary.is_whole[vocabulary.places[term]]) for term in terms]
    assert is_whole == [False, False, True, False, True, True]


def test_contractions_addresses_and_words_that_say_nothing_are_left_out():
    text = "Google's plan isn't new: see http://example.com/page?x=/1 and they're won over, said the ATMs' owner"
    words = [word for run in folded_words(text) for word in run]
    assert "google" in words and "won" in words and "atm" in words
    assert not {"isn", "isn't", "http", "example", "page", "they", "said"} & set(words)


def test_a_word_that_occurs_with_every_feature_alike_is_no_name():
    rng = np.random.default_rng(0)
    about = np.arange(400) % 4
    topics = ["goal", "bread", "cloud", "price"]
    # With the first feature, "quark" is a little more frequent.
    texts = [f"{topics[a]} and {'quark' if rng.random() < (0.5 if a else 0.6) else 'lepton'}" for a in about]
    names = suggest_names(Features(np.eye(4, dtype=np.float32)[about], texts=texts))
    assert [names[feature].name for feature in range(4)] == topics


def test_features_of_dense_codes_are_named_too():
    about = np.arange(400) % 4
    topics = ["goal", "bread", "cloud", "price"]
    codes = np.eye(4, dtype=np.float32)[about] + 0.7
    names = suggest_names(Features(codes, texts=[f"{topics[a]} and things" for a in about]))
    assert {words for found in names.values() for words in words_of(found.name)} >= {"goal", "bread"}


def test_texts_without_spaces_are_read_in_linear_time():
    start = time.perf_counter()
    assert len(folded_words("字" * 60_000)) == 1
    assert time.perf_counter() - start < 2


def test_guesses_are_marked_unless_a_person_has_given_the_name():
    codes = np.eye(3, dtype=np.float32)
    found = {0: Suggestion("oil", 0.9, 50), 1: Suggestion("week", 0.6, 50), 2: Suggestion("year", 0.6, 50)}
    features = Features(codes, names={2: "by a person"}).with_suggestions(found)
    assert guessed_names(features) == {1: "week"} and marked("week", True) == "week?" and marked("oil", False) == "oil"
    printed = find(features, Query(features=((1, 1.0),))).hits[0]
    assert printed.contributions[0].name == "week"  # data is not marked
    console = Console(file=io.StringIO(), width=200)
    console.print(find(features, Query(features=((1, 1.0), (0, 0.5), (2, 0.5)))))
    assert "week?:" in console.file.getvalue() and "oil:" in console.file.getvalue()
    assert "by a person:" in console.file.getvalue()


def test_singular_and_plural_are_one_word():
    texts = ["oil markets", "a market for oil"] * 20 + ["quiet night", "two quiet nights"] * 20
    codes = np.zeros((80, 2), np.float32)
    codes[:40, 0] = codes[40:, 1] = 1
    for found in suggest_names(Features(codes, texts=texts)).values():
        assert not {"market", "markets"} <= words_of(found.name) and not {"night", "nights"} <= words_of(found.name)


def test_a_namer_names_features_and_its_names_are_scored_too(features):
    seen = []

    def namer(task):
        seen.append(task)
        return "ball game" if "ball" in task.texts[0] else task.suggestion

    names = suggest_names(features, namer=namer)
    first = next(task for task in seen if task.feature == 0)
    assert names[0].name == "ball game" and names[0].score > 0.9
    assert all("ball" in text for text in first.texts) and "ball game" not in first.taken
    assert len({found.name for found in names.values()}) == len(names)  # a name that is taken is not used again
    with pytest.raises(InputError, match="namer"):
        suggest_names(features, namer=lambda task: 3)


def test_a_suggestion_replaces_a_taken_name_only_if_it_is_free_itself(features):
    plain = suggest_names(features)
    given = plain[list(plain)[-1]].name  # the suggestion for the weakest feature, given to every one
    names = [found.name for found in suggest_names(features, namer=lambda task: given).values()]
    assert given in names and len(set(names)) == len(names) > 2


def test_a_text_fits_a_name_by_words_that_occur_together_and_the_score_is_the_area_under_the_roc_curve():
    texts = ["crude oil", "oil barrel", "crude barrel", "goal team", "team match", "goal match"] * 5
    reader = Reader(texts)
    points = reader.texts(["a barrel", "the match"])
    fits = reader.fits("oil", points)
    assert fits[0] > fits[1]  # neither text contains the word
    assert reader.fits("nothing known", points) is None
    rng = np.random.default_rng(0)
    values, truth = rng.integers(5, size=200), rng.random(200) < 0.3
    assert area_under_roc(values[truth], values[~truth]) == pytest.approx(roc_auc_score(truth, values))


def test_features_without_usable_texts_are_errors(features):
    with pytest.raises(InputError, match="texts"):
        suggest_names(Features(np.eye(3, dtype=np.float32)))
    with pytest.raises(InputError, match="texts"):
        suggest_names(Features(np.eye(3, dtype=np.float32), texts=["1", "2", "3"]))
    with pytest.raises(InputError, match="words"):
        suggest_names(features, words=0)


def test_texts_of_a_single_word_have_finite_scores():
    texts = ["moon"] * 40 + ["night"] * 40
    codes = np.zeros((80, 2), np.float32)
    codes[:40, 0] = codes[40:, 1] = 1
    for given in (texts, ["moon"] * 80):
        found = suggest_names(Features(codes, texts=given))
        assert all(each.score is None or np.isfinite(each.score) for each in found.values())


def test_suggestions_are_saved_with_features_and_given_names_replace_them(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    found = save_suggestions(Features.load(folder), folder)
    again = Features.load(folder)
    assert again.suggestions == found and again.titles[0] == found[0].name
    named = again.with_names({0: "sport"})
    assert named.titles[0] == "sport" and named.suggestions[0] == found[0]
    assert again.with_columns([1, 0]).suggestions[0] == found[1]
    copied = again.save(tmp_path / "y.features")
    assert Features.load(copied).suggestions == found


def test_suggestions_of_other_codes_do_not_apply_and_damaged_ones_are_ignored(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    save_suggestions(features, folder)
    text = (folder / "suggestions.json").read_text()
    Features(features.codes * 2, texts=["a"] * 400).save(folder, overwrite=True)
    assert not Features.load(folder).suggestions
    features.save(folder, overwrite=True)
    (folder / "suggestions.json").write_text(text.replace("goal", "gaol"))
    with pytest.warns(UserWarning, match="suggestions"):
        assert not Features.load(folder).suggestions
