import numpy as np
import pytest
import scipy.sparse as sp


def _communities(nodes=90, groups=3, seed=0):
    """Return a graph of communities: edges and words mostly within, labels, and a public split."""
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % groups
    same = labels[:, None] == labels
    upper = np.triu(rng.random((nodes, nodes)) < np.where(same, 0.2, 0.01), 1)
    topics = rng.random((nodes, 40)) < np.where(np.arange(40) % groups == labels[:, None], 0.3, 0.03)
    split = np.full(nodes, -1)
    split[:15], split[15:30], split[30:60] = 0, 1, 2
    return sp.csr_array(upper | upper.T, dtype=np.float32), sp.csr_array(topics, dtype=np.float32), labels, split


def _parts(adjacency, attributes=None, **others):
    """Return the arrays of a plain .npz."""
    matrices = {"adj": adjacency} if attributes is None else {"adj": adjacency, "attr": attributes}
    arrays = {
        f"{name}_{part}": getattr(m, part) for name, m in matrices.items() for part in ("data", "indices", "indptr")
    }
    return {**arrays, **{f"{name}_shape": np.array(m.shape) for name, m in matrices.items()}, **others}


@pytest.fixture(scope="session")
def communities():
    """The adjacency, attributes, labels and split of a graph of communities."""
    return _communities()


@pytest.fixture
def graph_file(tmp_path, communities):
    """Return a function that writes a graph of communities, with arrays replaced or added, and returns its path."""

    def write(name="graph.npz", **changes):
        adjacency, attributes, labels, split = communities
        arrays = _parts(adjacency, attributes, labels=labels, split=split) | changes
        path = tmp_path / name
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    return write
