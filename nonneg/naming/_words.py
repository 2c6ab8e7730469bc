"""The words and phrases of texts: singular and plural count as one word, and frequent pairs of words are phrases."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise

LEAST_TEXTS = 3  # a word in fewer texts is not used
_LEAST_PAIRS = 5  # texts that contain a phrase
_COHESION = 0.25  # the least share of the rarer word's texts in which it is part of the phrase
_WORD = re.compile(r"[^\W\d_]{3,}(?:_\d+\b)?")  # at least three letters; digits only in numbered names: attribute_17
_SENTENCE_END = ".!?:;(\"'"
# Entities of HTML and fragments of addresses, which survive in many collections of texts; days, months and words of
# reporting, which say when and by whom a text was written rather than what it is about.
_OFTEN = """quot amp nbsp http https www com org html aspx href said say says saying told according new like just year
years monday tuesday wednesday thursday friday saturday sunday today yesterday january february march april may june
july august september october november december"""


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # on first use: it takes half a second to import

    return frozenset(ENGLISH_STOP_WORDS).union(_OFTEN.split())


@lru_cache(2**16)
def fold(word: str) -> str:
    """Return a lower-case word without the ending of a plural.

    Example:
        >>> [fold(word) for word in ("Prices", "companies", "gas", "process", "Iraq")]
        ['price', 'company', 'gas', 'process', 'iraq']
    """
    word = word.lower()
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
    stop_words, end = _stop_words(), 0
    for match in _WORD.finditer(text):
        between, end = text[end : match.start()], match.end()
        if between.strip() and between.strip() != "-":
            runs.append([])
        if match[0].lower() in stop_words:
            runs.append([])
        else:
            runs[-1].append(fold(match[0]))
    return [run for run in runs if run]


class Vocabulary:
    """The words and phrases that occur in several of some texts, and how people write them."""

    def __init__(self, texts: Iterable[str]) -> None:
        words: Counter[str] = Counter()
        pairs: Counter[str] = Counter()
        written: dict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            runs = folded_words(text)
            words.update({word for run in runs for word in run})
            pairs.update({f"{a} {b}" for run in runs for a, b in pairwise(run)})
            previous = ""
            for match in _WORD.finditer(text):
                before = text[max(0, match.start() - 2) : match.start()].strip()
                # The first word of a sentence is capitalised whatever it is.
                weight = 1 if not match.start() or (before and before[-1] in _SENTENCE_END) else 100
                # Headlines and datelines are in capitals; what is an abbreviation is so everywhere.
                weight = max(1, weight // 3) if match[0].isupper() else weight
                written[fold(match[0])][match[0]] += weight
                written[f"{fold(previous)} {fold(match[0])}"][f"{previous} {match[0]}"] += weight
                previous = match[0]
        known = {word for word, count in words.items() if count >= LEAST_TEXTS}
        phrases = {
            pair
            for pair, count in pairs.items()
            if count >= _LEAST_PAIRS and count >= _COHESION * min(words[word] for word in pair.split())
        }
        self._written = {term: written[term] for term in known | phrases}
        self.terms: tuple[str, ...] = (*sorted(known), *sorted(phrases))
        self.places = {term: place for place, term in enumerate(self.terms)}

    def __len__(self) -> int:
        return len(self.terms)

    def found_in(self, text: str) -> list[int]:
        """Return the places of all known words and phrases of a text, each once."""
        terms = [term for run in folded_words(text) for term in (*run, *(f"{a} {b}" for a, b in pairwise(run)))]
        return [self.places[term] for term in dict.fromkeys(terms) if term in self.places]

    def written(self, terms: Sequence[str]) -> str:
        """Return a name: terms as they are most often written, pairs that form a phrase joined, separated by commas."""
        shown = list(terms)
        for first in terms:
            for second in terms:
                if f"{first} {second}" in self.places and first in shown and second in shown and first != second:
                    shown[shown.index(first)] = f"{first} {second}"
                    shown.remove(second)
        return ", ".join(self._surface(term) for term in shown)

    def _surface(self, term: str) -> str:
        found = self._written[term]
        return min(found, key=lambda each: (-found[each], each))
