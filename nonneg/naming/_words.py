"""The words and phrases of texts: singular and plural count as one word, and frequent pairs of words are phrases."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise, permutations

import numpy as np

LEAST_TEXTS = 3  # a word in fewer texts is not used
_LEAST_PAIRS = 5  # texts that contain a phrase
_COHESION = 0.25  # the least share of the rarer word's texts in which it is part of the phrase
_FRAGMENT = 0.8  # a word is only a part of a phrase that this share of its texts contains: York of New York
# At least three letters, with an apostrophe between them or not; digits only in numbered names: attribute_17.
_WORD = re.compile(r"[^\W\d_]{3,}(?:['’][^\W\d_]+)*(?:_\d+\b)?")
_ADDRESS = re.compile(r"(?<!\S)\S*(?:://|www\.|=/)\S*")  # tried once per run: texts without spaces can be long
_ENDING = re.compile(r"['’](?:s|re|ve|ll|d|m)$", re.IGNORECASE)  # Google's, they're
# "isn't", and "isnt" or "isn" where the apostrophe is lost; "won" and "haven" are words of their own.
_NEGATED = re.compile(
    r"(?:(?:ai|are|could|did|does|had|has|is|must|need|should|was|were|would)n|(?:ca|do|have|wo)n(?=['’]?t))['’]?t?",
    re.IGNORECASE,
)
_SENTENCE_END = ".!?:;(\"'"
# Entities of HTML and fragments of addresses, which survive in many collections of texts; days, months and words of
# reporting, which say when and by whom a text was written rather than what it is about.
_OFTEN = """quot amp nbsp http https www com org html aspx href said say says saying told according just like year
years monday tuesday wednesday thursday friday saturday sunday today yesterday january february march april may june
july august september october november december"""
_TOPICS = "bill fire interest mill mine system"  # stop words of scikit-learn that texts may be about


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # on first use: it takes half a second to import

    return frozenset(ENGLISH_STOP_WORDS).union(_OFTEN.split()).difference(_TOPICS.split())


@lru_cache(2**16)
def _is_stop_word(word: str) -> bool:
    return word.lower() in _stop_words() or _NEGATED.fullmatch(word) is not None


@lru_cache(2**16)
def _bare(word: str) -> str:
    """Return a word without a contracted ending: "Google" for "Google's"."""
    return _ENDING.sub("", word)


@lru_cache(2**16)
def fold(word: str) -> str:
    """Return a lower-case word without the ending of a plural.

    Example:
        >>> [fold(word) for word in ("Prices", "companies", "gas", "process", "Iraq", "ATMs")]
        ['price', 'company', 'gas', 'process', 'iraq', 'atm']
    """
    is_abbreviation = len(word) > 3 and word[:-1].isupper() and word.endswith("s")
    word = word.lower()
    if is_abbreviation:
        return word[:-1]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 4 and word.endswith("s") and word[-2] not in "aisu" else word


def folded_words(text: str) -> list[list[str]]:
    """Return the folded words of a text, as runs that no stop word or punctuation interrupts.

    Example:
        >>> folded_words("Oil prices rose. The prime minister")
        [['oil', 'price', 'rose'], ['prime', 'minister']]
    """
    runs: list[list[str]] = [[]]
    end = 0
    text = _ADDRESS.sub("|", text)
    for match in _WORD.finditer(text):
        between, end = text[end : match.start()], match.end()
        if between.strip() and between.strip() != "-":
            runs.append([])
        word = _bare(match[0])
        if _is_stop_word(word):
            runs.append([])
        else:
            runs[-1].append(fold(word))
    return [run for run in runs if run]


class Vocabulary:
    """The words and phrases that occur in several of some texts, and how people write them."""

    def __init__(self, texts: Sequence[str]) -> None:
        words: Counter[str] = Counter()
        pairs: Counter[str] = Counter()
        for text in texts:
            runs = folded_words(text)
            words.update({word for run in runs for word in run})
            pairs.update({f"{a} {b}" for run in runs for a, b in pairwise(run)})
        known = {word for word, count in words.items() if count >= LEAST_TEXTS}
        phrases = {
            pair
            for pair, count in pairs.items()
            if count >= _LEAST_PAIRS and count >= _COHESION * min(words[word] for word in pair.split())
        }
        parts = _parts(phrases, words, pairs)
        self._written = _written(texts, known | phrases)
        self.terms: tuple[str, ...] = (*sorted(known), *sorted(phrases))
        self.places = {term: place for place, term in enumerate(self.terms)}
        self.is_whole = np.array([_is_whole(term, parts) for term in self.terms], bool)

    def __len__(self) -> int:
        return len(self.terms)

    def found_in(self, text: str) -> list[int]:
        """Return the places of all known words and phrases of a text, each once."""
        terms = [term for run in folded_words(text) for term in (*run, *(f"{a} {b}" for a, b in pairwise(run)))]
        return [self.places[term] for term in dict.fromkeys(terms) if term in self.places]

    def written(self, terms: Sequence[str]) -> str:
        """Return a name: terms as they are most often written, pairs that form a phrase joined, separated by commas."""
        chains = {term: [term] for term in terms}  # by their first terms
        for first, second in permutations(terms, 2):
            before = next((chain for chain in chains.values() if chain[-1] == first), None)
            is_phrase = f"{first.split()[-1]} {second.split()[0]}" in self.places
            if is_phrase and before is not None and second in chains and chains[second] is not before:
                before += chains.pop(second)
        return ", ".join(map(self._surface, chains.values()))

    def _surface(self, chain: Sequence[str]) -> str:
        found = self._written.get(" ".join(chain))
        if found is None:
            return " ".join(self._surface([term]) for term in chain)
        return min(found, key=lambda each: (-found[each], each))


def _written(texts: Iterable[str], terms: Container[str]) -> dict[str, Counter[str]]:
    """Return how each of the terms is written in texts, and how often, words within sentences counting most."""
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        previous, text = "", _ADDRESS.sub("|", text)
        for match in _WORD.finditer(text):
            before = text[max(0, match.start() - 2) : match.start()].strip()
            # The first word of a sentence is capitalised whatever it is.
            weight = 1 if not match.start() or (before and before[-1] in _SENTENCE_END) else 100
            # Headlines and datelines are in capitals; what is an abbreviation is so everywhere.
            word = _bare(match[0])
            weight = max(1, weight // 3) if word.isupper() else weight
            for term, form in ((fold(word), word), (f"{fold(previous)} {fold(word)}", f"{previous} {word}")):
                if term in terms:  # most pairs are no phrases
                    written[term][form] += weight
            previous = word
    return dict(written)


def _parts(phrases: Iterable[str], words: Counter[str], pairs: Counter[str]) -> dict[str, str]:
    """Return the phrase of each word that hardly occurs outside of it; frequent phrases come first."""
    parts: dict[str, str] = {}
    for phrase in sorted(phrases, key=lambda each: (-pairs[each], each)):
        if _is_whole(phrase, parts):
            parts.update({word: phrase for word in phrase.split() if pairs[phrase] >= _FRAGMENT * words[word]})
    return parts


def _is_whole(term: str, parts: Mapping[str, str]) -> bool:
    """Whether a term can stand alone: neither "York" nor "York Jets" can if York hardly occurs outside of New York."""
    return all(parts.get(word, term) == term for word in term.split())
