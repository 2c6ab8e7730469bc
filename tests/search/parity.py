"""What every engine must do: find by inner product. Compared with a plain loop."""

import numpy as np


def brute_force(codes, query, k, allowed=None):
    """Rows and scores of the best, by a loop: float64 sums in ascending order of features, ties by row."""
    scores = []
    for row in range(codes.shape[0]):
        score = 0.0
        for entry in range(codes.indptr[row], codes.indptr[row + 1]):
            score += float(query[codes.indices[entry]]) * float(codes.data[entry])
        scores.append(score)
    rows = [row for row, score in enumerate(scores) if score > 0 and (allowed is None or allowed[row])]
    best = sorted(rows, key=lambda row: (-scores[row], row))[:k]
    return best, [scores[row] for row in best]


def check(index, codes, queries, k=10, where=None, allowed=None):
    """The exact engine must equal the loop; others must find 99% of it, with the loop's scores; returns the recall."""
    found = index.query(queries, k, where)
    wanted = kept = 0
    for place, query in enumerate(queries):
        rows, scores = brute_force(codes, query, k, allowed)
        hits = found.rows[place][found.rows[place] >= 0].tolist()
        if index.engine == "exact":
            assert hits == rows
            assert found.scores[place][: len(rows)].tolist() == scores
        dense = codes[hits].toarray().astype(np.float64) if hits else np.zeros((0, codes.shape[1]))
        np.testing.assert_allclose(found.scores[place][: len(hits)], dense @ query, rtol=1e-6)
        assert (np.diff(found.scores[place][: len(hits)]) <= 0).all()
        assert allowed is None or all(allowed[row] for row in hits)
        wanted, kept = wanted + len(rows), kept + len(set(rows) & set(hits))
    assert kept / wanted >= 0.99, f"{index.engine} finds {kept} of {wanted}"
    return kept / wanted
