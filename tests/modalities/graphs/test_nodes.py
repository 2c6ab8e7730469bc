"""The modality of nodes through the whole package: train, resume, embed, measure, search, explore."""

import io
import json
import os
import re
import signal
import time
import urllib.request

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from PIL import Image

import nonneg
from nonneg.codes import dense
from nonneg.errors import InputError, StoppedError
from nonneg.explorer import open_explorer
from nonneg.features import Features
from nonneg.modalities import Modality
from nonneg.modalities.graphs import NodeEncoder, Nodes, RawGraph, ViewConfig
from nonneg.training import TrainConfig, load_recipe

SMALL = {"batch_size": 0, "epochs": 12, "warmup_epochs": 1, "width": 16, "projector_width": 16, "features": 16}


class Stop:
    """A logger that interrupts training, as a scheduler does."""

    def log_metrics(self, metrics, step=None):
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    def finalize(self, status):
        pass


def config(path, **changes):
    return load_recipe("graph").replace(data=str(path), **{**SMALL, "lr": 0.01, **changes})


@pytest.fixture
def run(graph_file, tmp_path):
    return nonneg.train(config(graph_file()), tmp_path / "run", progress=False)


def test_its_table_gives_it_back():
    modality = Nodes(width=8, views=ViewConfig((0.1,), (0.2, 0.3), "degree"))
    assert Modality.from_table(json.loads(json.dumps(modality.to_table()))) == modality


def test_training_lowers_the_loss_and_writes_the_size_of_the_batch(run):
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert log[-1]["loss"] < log[0]["loss"]
    assert load_recipe(str(run / "config.toml")).batch_size == 90


@pytest.mark.parametrize("batch_size", [0, 32])
def test_chunks_of_the_loss_and_smaller_batches_train(graph_file, tmp_path, batch_size):
    dense = {"rectify": "none", "share": 0.0, "first_share": 0.0, "dense_weight": 0.0}
    changes = {"batch_size": batch_size, "epochs": 1, "lr": 1e-4, **dense}
    runs = [
        nonneg.train(config(graph_file(), chunk_rows=rows, **changes), tmp_path / str(rows), progress=False)
        for rows in (0, 7)
    ]
    losses = [json.loads((each / "log.jsonl").read_text().splitlines()[-1])["loss"] for each in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_parts_of_a_batch_share_the_graph(graph_file, tmp_path):
    run = nonneg.train(config(graph_file(), accumulate=2, epochs=2), tmp_path / "run", progress=False)
    assert nonneg.load(run).embed(str(graph_file())).shape == (90, 16)


@pytest.mark.parametrize("neighbours", [0, 3])
def test_a_resumed_run_ends_with_the_same_weights(graph_file, tmp_path, neighbours):
    settings = config(graph_file(), batch_size=40, checkpoint_steps=3, neighbours=neighbours)
    whole = nonneg.train(settings, tmp_path / "whole", progress=False)
    with pytest.raises(StoppedError):
        nonneg.train(settings, tmp_path / "parts", progress=False, loggers=[Stop()])
    parts = nonneg.train(settings, tmp_path / "parts", progress=False)
    first, second = (nonneg.load(each).state_dict() for each in (whole, parts))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_another_graph_in_the_same_file_is_noticed_when_a_run_is_resumed(graph_file, tmp_path, communities):
    path = graph_file()
    with pytest.raises(StoppedError):
        nonneg.train(config(path), tmp_path / "run", progress=False, loggers=[Stop()])
    weights = np.array(communities[0].data)
    weights[0] = 2.0
    graph_file(adj_data=weights)
    with pytest.raises(InputError, match="other data"):
        nonneg.train(config(path), tmp_path / "run", progress=False)


def test_nodes_are_embedded_in_their_graph_whatever_the_batch(run, graph_file):
    model = nonneg.load(run)
    source = model.open(str(graph_file()))
    whole, batches = model.embed(source), model.embed(source, batch_size=7)
    some = model.embed(source.take([5, 80, 3]))
    np.testing.assert_allclose(dense(whole.codes), dense(batches.codes), atol=1e-6)
    np.testing.assert_allclose(dense(whole.codes)[[5, 80, 3]], dense(some.codes), atol=1e-6)
    assert some.id(0) == "5" and whole.labels is not None


def test_a_graph_that_was_embedded_can_be_trained_on(run, graph_file, tmp_path):
    settings = config(graph_file(), epochs=1)
    source = nonneg.load(run).open(settings.data)
    nonneg.load(run).embed(source)
    trained = [
        nonneg.train(settings, tmp_path / name, progress=False, source=given)
        for name, given in (("embedded", source), ("new", None))
    ]
    first, second = (nonneg.load(each).state_dict() for each in trained)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_graph_with_other_attributes_is_an_error(run, graph_file):
    with pytest.raises(InputError, match="5 attributes, expected 40"):
        nonneg.load(run).embed(str(graph_file("other.npz", attr_matrix=np.ones((90, 5)))))


def test_a_model_of_structural_attributes_takes_no_others(graph_file, tmp_path):
    bare = str(graph_file(**{f"attr_{part}": None for part in ("data", "indices", "indptr", "shape")}))
    model = nonneg.load(nonneg.train(config(bare, epochs=1), tmp_path / "run", progress=False))
    assert model.embed(bare).shape == (90, 16)
    with pytest.raises(InputError, match=r"other\.npz has 66 attributes, expected none"):
        model.embed(str(graph_file("other.npz", attr_matrix=np.ones((90, 66)))))


def memory_of_a_step(shown):
    figure, unit = re.search(r"and ([\d.,]+) (.B) for a step", shown).groups()
    return float(figure.replace(",", "")) * {"MB": 1e6, "GB": 1e9}[unit]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("encoder", ["gcn", "gin"])
def test_the_memory_of_a_step_grows_with_the_graph_unless_neighbours_are_limited(encoder, tmp_path, capsys):
    if encoder != "gcn":
        pytest.importorskip("torch_geometric")
    needed = {}
    for nodes, neighbours in ((300, 0), (3000, 0), (300, 2), (3000, 2)):
        rng = np.random.default_rng(0)
        raw = RawGraph(
            "random", "random", nodes, rng.integers(0, nodes, (2, 20 * nodes)), attributes=np.ones((nodes, 4))
        )
        settings = config("random", encoder=encoder, epochs=1, warmup_epochs=0, batch_size=20, neighbours=neighbours)
        nonneg.train(settings, tmp_path / "run", source=raw, overwrite=True)
        needed[nodes, neighbours] = memory_of_a_step(capsys.readouterr().err)
    assert needed[3000, 0] > 5 * needed[300, 0] and needed[3000, 2] < needed[3000, 0] / 5
    assert 10e6 < needed[3000, 0] < 200e6


def test_a_graph_that_takes_too_much_memory_is_an_error_that_names_what_graphs_have(tmp_path):
    class Small(torch.nn.Module):  # while the settings describe a network of 16 wide layers
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 4)

        def forward(self, x, edge_index):
            return self.linear(x)

    ring = np.stack((np.arange(20_000), np.roll(np.arange(20_000), 1)))
    raw = RawGraph("ring", "ring", 20_000, ring, attributes=np.ones((20_000, 2)))
    settings = config("ring", width=2**16, layers=16, epochs=1, batch_size=100)
    with pytest.raises(InputError, match=r"[\d,.]{5,} GB for a step.*neighbours.*batch_size"):
        nonneg.train(settings, tmp_path / "run", source=raw, encoder=Small(), progress=False)
    assert not (tmp_path / "run").exists()


def test_a_graph_that_is_smaller_than_a_batch_is_an_error_that_names_the_way_out(graph_file, tmp_path):
    with pytest.raises(InputError, match=r"batch_size is 512, expected at most the 90 samples .* or 0 for all"):
        nonneg.train(config(graph_file(), batch_size=512), tmp_path / "run", progress=False)


def test_attributes_in_another_order_are_an_error(graph_file, tmp_path):
    names = np.array([f"word{i}" for i in range(40)])
    run = nonneg.train(config(graph_file(attr_names=names), epochs=1), tmp_path / "run", progress=False)
    model = nonneg.load(run)
    assert model.embed(str(graph_file("same.npz", attr_names=names))).shape == (90, 16)
    with pytest.raises(InputError, match=r"other\.npz .*attributes of other names"):
        model.embed(str(graph_file("other.npz", attr_names=names[::-1])))


def test_a_node_is_shown_by_its_neighbourhood_and_its_words(graph_file, communities):
    names = np.array([f"word{i}" for i in range(40)])
    source = Nodes().open(str(graph_file(attr_names=names)))
    shown = Nodes().preview(source, range(3, 6))
    with Image.open(io.BytesIO(shown["media"][0])) as image:
        assert image.size == (160, 160)
    assert shown["texts"][0].split(", ") == [f"word{i}" for i in np.flatnonzero(communities[1].toarray()[3])]
    assert Nodes().preview(source.take([9, 3]), range(1, 2))["texts"] == shown["texts"][:1]


def test_attributes_without_names_are_shown_by_their_numbers(graph_file, communities):
    shown = Nodes().preview(Nodes().open(str(graph_file())), range(3, 4))
    assert shown["texts"][0].split(", ") == [f"attribute_{i}" for i in np.flatnonzero(communities[1].toarray()[3])]
    bare = {f"attr_{part}": None for part in ("data", "indices", "indptr", "shape")}
    words = Nodes().preview(Nodes().open(str(graph_file(**bare))), range(3, 4))["texts"][0].split(", ")
    assert {"sources", "core"} <= {word.partition("_")[0] for word in words}


def test_an_encoder_of_ones_own_trains(graph_file, tmp_path):
    class Smooth(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(40, 12)

        def forward(self, x, edge_index):
            h = self.linear(x)
            return h + torch.zeros_like(h).index_add_(0, edge_index[1], h[edge_index[0]])

    settings = config(graph_file(), epochs=2)
    wrapped = nonneg.train(settings, tmp_path / "wrapped", encoder=NodeEncoder(Smooth()), progress=False)
    bare = nonneg.train(settings, tmp_path / "bare", encoder=Smooth(), progress=False)
    for run, module in ((wrapped, NodeEncoder(Smooth())), (bare, NodeEncoder(Smooth())), (bare, Smooth())):
        assert nonneg.load(run, encoder=module).embed(str(graph_file()), "encoder").shape == (90, 12)


def test_modules_around_an_encoder_of_views_are_taken_as_they_are(graph_file, tmp_path):
    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(40, 12)

        def forward(self, x, edge_index):
            return self.linear(x)

    encoder = torch.nn.Sequential(NodeEncoder(First()), torch.nn.Linear(12, 5))
    run = nonneg.train(config(graph_file(), epochs=1), tmp_path / "run", encoder=encoder, progress=False)
    assert nonneg.load(run, encoder=encoder).embed(str(graph_file()), "encoder").shape == (90, 5)


def test_a_module_that_cannot_take_attributes_and_edges_is_an_error_that_says_what_it_is_called_with(
    graph_file, tmp_path
):
    with pytest.raises(InputError, match=r"Linear cannot take attributes \(90, 40\) and edge_index.*NodeEncoder"):
        nonneg.train(config(graph_file()), tmp_path / "run", encoder=torch.nn.Linear(40, 12), progress=False)


def test_the_estimate_of_the_time_knows_that_a_graph_takes_as_long_for_few_nodes(graph_file, tmp_path, capsys):
    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(40, 12)

        def forward(self, x, edge_index):
            time.sleep(0.15)
            return self.linear(x)

    with pytest.raises(StoppedError):
        nonneg.train(config(graph_file(), epochs=100), tmp_path / "run", encoder=NodeEncoder(Slow()), loggers=[Stop()])
    seconds = re.search(r"Time: about (\d+) seconds", capsys.readouterr().err)
    assert seconds is not None and 30 <= int(seconds[1]) < 100  # of 0.3 s each; from 16 of 90 nodes it would be 190


def test_the_commands_train_embed_measure_search_and_explore(graph_file, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = graph_file().name
    settings = "--epochs 12 --batch-size 0 --width 16 --features 16 --projector-width 16 --lr 0.01 --warmup-epochs 1"
    code, _, shown = command("train", "graph", "--data", path, "--out", "run", "--share", "0.4", *settings.split())
    assert code == 0, shown
    assert "90 nodes" in shown and "undirected edges" in shown
    code, _, shown = command("embed", "run", path, "--out", "run.features")
    assert code == 0, shown
    code, _, shown = command("measure", "run", "--parts", "random-splits", "public-split", "--out", "table.json")
    assert code == 0, shown
    figures = json.loads((tmp_path / "table.json").read_text())["columns"]["run"][0]["figures"]
    values = {(figure["key"], figure["layer"]): figure["value"] for figure in figures}
    assert values["random_splits", "encoder"] > 0.5 and values["public_split", "encoder"] > 0.5
    assert values["random_splits_deviation", "encoder"] < 0.3
    code, found, shown = command("search", "run.features", "--like", "4", "--json")
    assert code == 0, shown
    assert 1 <= len(json.loads(found)) <= 10
    assert Features.load(tmp_path / "run.features").provenance["source"] == "graph"
    page = nonneg.explore(tmp_path / "run.features", block=False, browser=False, announce=lambda line: None)
    try:
        with urllib.request.urlopen(f"{page.url}api/overview", timeout=30) as answer:
            assert json.load(answer)["sets"][0]["kind"] == "nodes"
    finally:
        page.close()


def test_nothing_is_written_if_the_graph_cannot_be_used(tmp_path, command, graph_file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = graph_file(labels=np.zeros(3, int)).name
    code, _, shown = command("train", "graph", "--data", path, "--out", "run")
    assert code == 2 and "labels" in shown and "Traceback" not in shown and not (tmp_path / "run").exists()


def test_a_missing_package_is_one_sentence_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_geometric", None)
    with pytest.raises(InputError, match=r"gat.*nonneg\[graphs\]"):
        TrainConfig(encoder="gat", modality=Nodes())


def test_edges_alone_are_enough_to_train(tmp_path):
    tree = np.stack((np.arange(1, 30), np.arange(1, 30) // 3))
    source = Nodes().open(RawGraph("tree", "tree", 30, tree))
    run = nonneg.train(config("tree", epochs=2), tmp_path / "run", source=source, progress=False)
    assert nonneg.load(run).embed(source).shape == (30, 16)


def test_features_know_how_many_edges_stay_among_their_nodes():
    # Two triangles with one edge between them.
    ends = np.array([[0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 3]])
    source = Nodes().open(RawGraph("triangles", "triangles", 6, ends, attributes=np.eye(6)))
    codes = np.array([[1, 0, 1]] * 3 + [[0, 1, 0]] + [[0, 0, 0]] * 2, np.float32)
    (found,) = Nodes().feature_figures(source, codes).values()
    assert found["values"] == pytest.approx([6 / 7, 0, 6 / 7], abs=1e-4)
    assert found["chance"] == pytest.approx([7 / 14, 3 / 14, 7 / 14], abs=1e-4)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_by_chance_edges_of_a_directed_graph_come_from_anywhere(is_sparse):
    # A hub leads to ten leaves, and one of these to another.
    ends = np.array([[0] * 10 + [1], [*range(1, 11), 2]])
    modality = Nodes(undirected=False)
    source = modality.open(RawGraph("star", "star", 11, ends, attributes=np.eye(11)))
    codes = np.zeros((11, 3), np.float32)
    codes[1:, 0] = codes[0, 1] = codes[:, 2] = 1  # of the leaves, of the hub, of all
    (found,) = modality.feature_figures(source, sp.csr_array(codes) if is_sparse else codes).values()
    assert found["values"] == pytest.approx([1 / 11, 0, 1], abs=1e-4)
    assert found["chance"] == pytest.approx([1 / 11, 10 / 11, 1], abs=1e-4)


@pytest.mark.parametrize("is_dense", [False, True], ids=["sparse", "dense"])
def test_features_know_the_attributes_that_set_their_nodes_apart(is_dense, communities):
    adjacency, words, labels, _ = communities
    ends = np.stack(adjacency.nonzero())
    # Of a dense attribute counts whether it is above its mean, whatever its scale.
    attributes = 7 + 3 * words.toarray() if is_dense else words
    names = tuple(f"word {number}" for number in range(40))
    raw = RawGraph("words", "words", 90, ends, attributes=attributes, attribute_names=names)
    source = Nodes().open(raw)
    codes = np.eye(3, dtype=np.float32)[labels][:, [2, 0]]
    codes = np.hstack((codes, np.zeros((90, 1), np.float32), np.ones((90, 1), np.float32)))
    for rows in (np.arange(90), np.arange(0, 90, 2)):
        (found,) = Nodes().feature_terms(source.take(rows), codes[rows]).values()
        used = words.toarray()[rows] > 0
        shares, overall = used[labels[rows] == 2].mean(0), used.mean(0)
        apart = [share - of_all for _, share, of_all in found[0]]
        assert apart == pytest.approx(np.sort(shares - overall)[::-1][:8], abs=2e-4)
        for name, share, of_all in found[0]:
            place = names.index(name)
            assert (share, of_all) == pytest.approx((shares[place], overall[place]), abs=1e-4)
        assert found[2] == found[3] == []  # never active, and active everywhere


def test_counting_attributes_leaves_a_graph_with_weighted_ones_unchanged(communities):
    adjacency, _, labels, _ = communities
    weighted = sp.random_array((90, 40), density=0.1, rng=0, format="csr")  # some are below the mean, 0 included
    source = Nodes().open(RawGraph("words", "words", 90, np.stack(adjacency.nonzero()), attributes=weighted))
    tensors = source.samples.graph.tensors
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    assert Nodes().feature_terms(source, np.eye(3, dtype=np.float32)[labels])
    assert all(torch.equal(tensors[name], before[name]) for name in before)


def test_pictures_colour_neighbours_by_their_labels_even_if_these_are_in_another_split(graph_file):
    modality = Nodes()
    source = modality.open(graph_file())
    whole, part = modality.preview(source, range(3, 4)), modality.preview(source.take([3]), range(1))
    assert whole == part
    bare = modality.open(graph_file("bare.npz", labels=None))
    assert whole["media"] != modality.preview(bare, range(3, 4))["media"]


def test_up_to_21_classes_have_colours_of_their_own():
    leaves = np.arange(1, 22)
    ends = np.stack((np.zeros_like(leaves), leaves))
    pictures = set()
    for label in range(21):
        labels = np.full(22, -1)
        labels[0], labels[1] = label, 20 - label
        raw = RawGraph("star", "star", 22, ends, attributes=np.eye(22), labels=labels)
        pictures.add(Nodes().preview(Nodes().open(raw), range(1))["media"][0])
    assert len(pictures) == 21


def test_the_page_of_a_feature_shows_its_attributes_and_that_of_a_node_a_legend(run, graph_file):
    features = nonneg.load(run).embed(str(graph_file()))
    terms = features.provenance["feature_terms"]["attributes"]
    (shown,) = open_explorer([features.with_columns([3, 1])]).feature(0, 0).terms
    assert [(each.term, each.share, each.overall) for each in shown.terms] == [tuple(term) for term in terms[3]]
    assert features.legend and open_explorer([features]).overview().sets[0].legend == features.legend


def test_the_page_of_a_feature_shows_its_edges(run, graph_file):
    features = nonneg.load(run).embed(str(graph_file()))
    figures = features.provenance["feature_figures"]["edges that stay inside"]
    fewer = features.with_columns([3, 1])
    for each, column, feature in ((features, 3, 3), (fewer, 0, 3)):
        (shown,) = open_explorer([each]).feature(0, column).figures
        assert (shown.value, shown.chance) == (figures["values"][feature], figures["chance"][feature])
