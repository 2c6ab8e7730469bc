"""What every engine must do: rank by inner product. The reference is a plain loop."""

import math

import numpy as np
import scipy.sparse as sp


def reference_codes(codes, cosine):
    """The codes that a ranking sees, computed row by row: of length 1 for cosine, in float32."""
    codes = sp.csr_array(codes).astype(np.float64)
    for start, stop in zip(codes.indptr, codes.indptr[1:], strict=False) if cosine else ():
        squares = 0.0
        for value in codes.data[start:stop]:
            squares += value * value
        codes.data[start:stop] /= math.sqrt(squares) or 1
    return codes.astype(np.float32)


def brute_force(codes, query, k, allowed=None):
    """Rows and scores of the best, by a loop: float64 sums in ascending order of features, ties in order of rows."""
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
    """The exact engine must equal the loop; others must find 99% of its hits, with the loop's scores."""
    codes = reference_codes(codes, index.cosine)
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
