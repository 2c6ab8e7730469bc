"""Generated graphs to try things on: random trees, each with one of four motifs attached to it."""

import numpy as np

from nonneg.modalities.graphs._raw import RawGraph, RawGraphs
from nonneg.modalities.graphs.sources._many import joined

_GRAPHS = 400
_MOTIFS: dict[str, tuple[tuple[int, int], ...]] = {
    "ring": tuple((node, (node + 1) % 6) for node in range(6)),
    "clique": tuple((first, second) for first in range(5) for second in range(first)),
    "star": tuple((0, node) for node in range(1, 7)),
    "ladder": tuple((node, node + 2) for node in range(4)) + tuple((node, node + 1) for node in range(0, 6, 2)),
}


def motifs() -> RawGraphs:
    """Return 400 graphs, always the same: a tree of 8 to 15 nodes with a ring, clique, star or ladder, the label.

    Example:
        >>> graphs = motifs()
        >>> len(graphs.sizes), graphs.label_names
        (400, ('ring', 'clique', 'star', 'ladder'))
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, len(_MOTIFS), _GRAPHS)
    graphs = []
    for label in labels:
        nodes = int(rng.integers(8, 16))
        ends = [(node, int(rng.integers(0, node))) for node in range(1, nodes)]
        motif = list(_MOTIFS.values())[label]
        ends += [(nodes + first, nodes + second) for first, second in motif]
        ends.append((int(rng.integers(0, nodes)), nodes + int(rng.integers(0, 5))))
        total = nodes + 1 + max(max(pair) for pair in motif)
        graphs.append(RawGraph("motifs", "motifs", total, np.array(ends, np.int64).T))
    return joined("motifs", graphs, (labels, tuple(_MOTIFS)))
