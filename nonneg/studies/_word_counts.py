"""TF-IDF: the words of a text, weighted by how rare they are. What learnt features of texts are compared with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

TF_IDF = "TF-IDF"


def tf_idf(train: Sequence[str], test: Sequence[str]) -> tuple[Any, Any]:
    """Return sparse codes of both, `(texts, words)` float32, with the words and weights of `train`.

    Example:
        >>> codes, others = tf_idf(["lost card", "lost pin"], ["card, card"])
        >>> codes.shape, others.toarray().round(2).tolist()
        ((2, 3), [[1.0, 0.0, 0.0]])
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(dtype=np.float32)
    return words.fit_transform(train), words.transform(test)
