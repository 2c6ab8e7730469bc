"""The demo on graphs: a generated one, and one from a path."""

import json
import time

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.studies import demo


@pytest.mark.slow
def test_citations_within_ninety_seconds(tmp_path):
    start = time.process_time()
    cl, ncl, words = demo("citations", tmp_path / "demo")
    assert time.process_time() - start < 90
    assert ncl.figures["sparsity"] > 0.9 and cl.figures["sparsity"] < 0.01
    assert ncl.figures["probe_encoder"] > 0.9 and words.name == "TF-IDF"
    topics = sum("topic" in meaning for meaning in ncl.meanings.values())
    assert topics > 5 * ncl.chance_followers["topic"] + 5
    assert "chromosome" in (tmp_path / "demo" / "report.html").read_text()


@pytest.mark.slow
def test_cora_is_bundled(tmp_path):
    cl, ncl, _ = demo("cora", tmp_path / "demo", epochs=2)
    assert len(ncl.projector) == 542 and cl.figures["probe_encoder"] > 0.5
    assert "attribute_" in (tmp_path / "demo" / "report.html").read_text()


def test_a_graph_from_a_path(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 2
    links = sp.csr_array(rng.random((600, 600)) < np.where(labels[:, None] == labels, 0.02, 0.001), dtype=np.float32)
    words = (rng.random((600, 20)) < 0.2).astype(np.float32)
    arrays = {f"adj_{part}": getattr(links, part) for part in ("data", "indices", "indptr")}
    np.savez(tmp_path / "own.npz", **arrays, adj_shape=links.shape, attr_matrix=words, labels=labels)
    cl, ncl, _ = demo(str(tmp_path / "own.npz"), tmp_path / "demo", epochs=1)
    assert len(ncl.projector) == 120 and cl.figures["sparsity"] < 0.1
    assert json.loads((tmp_path / "demo" / "results.json").read_text())["finished"]


def test_unknown_data_is_an_error_that_names_the_choices(tmp_path):
    with pytest.raises(InputError, match="citations"):
        demo("karate", tmp_path / "demo")
    assert not (tmp_path / "demo").exists()
