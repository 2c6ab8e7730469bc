"""Whole graphs: sources, views, pooled features, and a run through the package."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

import nonneg
from nonneg.errors import InputError
from nonneg.evaluate import cross_validation, random_splits
from nonneg.features import Features
from nonneg.modalities.graphs import Graphs, GraphViewConfig, NodeEncoder, RawGraph, open_graph, open_graphs
from nonneg.modalities.graphs.sources._many import joined
from nonneg.training import load_recipe

TEXT = """3
3 1
0 1 1
2 2 0 2
0 1 1
2 0
2 1 1
2 1 0
2 1
0 1 1
2 1 0
"""
SMALL = {"encoder": "gcn", "width": 16, "layers": 2, "features": 16, "projector_width": 16}


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def tu_folder(tmp_path):
    """The same graphs as in `text_file`."""
    folder = tmp_path / "small"
    folder.mkdir()
    for part, content in {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n6, 7\n7, 6\n",
        "graph_indicator": "1\n1\n1\n2\n2\n3\n3\n",
        "graph_labels": "1\n0\n1\n",
        "node_labels": "0\n2\n0\n2\n2\n0\n2\n",
    }.items():
        (folder / f"small_{part}.txt").write_text(content)
    return folder


def views_of(modality, source, rows, epoch=3):
    rows = torch.tensor(rows)
    batch = {"graphs": rows, "graph": source.samples.graph}
    return modality.draw_views(batch, rows, 0, epoch, 2, torch.float32)


def test_a_tu_folder_and_the_text_format_give_the_same_graphs(text_file, tu_folder):
    first, second = open_graphs(str(text_file)), open_graphs(str(tu_folder))
    assert first.sizes.tolist() == second.sizes.tolist() == [3, 2, 2]
    assert first.labels.tolist() == second.labels.tolist() == [1, 0, 1]
    assert (first.union.attributes != second.union.attributes).nnz == 0
    assert {tuple(ends) for ends in first.union.ends.T.tolist()} == {
        tuple(ends) for ends in second.union.ends.T.tolist()
    }


def test_text_may_end_in_empty_lines(text_file):
    text_file.write_text(TEXT + "\n \n")
    assert len(open_graphs(str(text_file)).sizes) == 3


def test_weights_of_edges_are_kept():
    data = pytest.importorskip("torch_geometric.data")
    ends, x = torch.tensor([[0, 1], [1, 0]]), torch.eye(2)
    weighted = data.Data(x=x, edge_index=ends, edge_weight=torch.tensor([3.0, 3.0]))
    bonds = data.Data(x=x, edge_index=ends, edge_attr=torch.tensor([2, 2]))  # kinds of edges, not weights
    graph = Graphs().open([weighted, bonds]).samples.graph
    assert graph.weights[~graph.is_loop].tolist() == [3, 3, 1, 1]


def test_a_dataset_of_pytorch_geometric_is_read():
    data = pytest.importorskip("torch_geometric.data")
    ends = torch.tensor([[0, 1], [1, 0]])
    graphs = [data.Data(x=torch.eye(2), edge_index=ends, y=torch.tensor([label])) for label in (0, 1, 1)]
    found = open_graphs(graphs)
    assert found.sizes.tolist() == [2, 2, 2] and found.labels.tolist() == [0, 1, 1]


def in_memory(graphs):
    """Return a dataset of PyTorch Geometric that holds these graphs joined, as TUDataset does."""
    data = pytest.importorskip("torch_geometric.data")

    class InMemory(data.InMemoryDataset):
        def __init__(self):
            super().__init__(None)
            self.data, self.slices = self.collate(graphs)

    return InMemory()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stored", [{"num_nodes": 2}, {"x": torch.eye(2)}, {"x": torch.eye(2), "num_nodes": 2}])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_dataset_in_memory_is_many_graphs_however_it_joins_them(stored, labelled):
    data = pytest.importorskip("torch_geometric.data")
    ends = torch.tensor([[0, 1], [1, 0]])
    labels = [{"y": torch.tensor([number % 2])} if labelled else {} for number in range(6)]
    dataset = in_memory([data.Data(edge_index=ends, **stored, **label) for label in labels])
    for some, graphs in ((dataset, 6), (dataset[:4], 4), (dataset.shuffle(), 6)):
        assert Graphs().open(some).samples.graph.nodes == 2 * graphs == 2 * len(open_graphs(some).sizes)
        with pytest.raises(InputError, match=f"a dataset of {graphs} graphs, expected one"):
            open_graph(some)
    assert open_graph(dataset[:1]).nodes == 2
    with pytest.raises(InputError, match="one graph, expected several"):
        open_graphs(dataset[0])


@pytest.mark.filterwarnings("ignore")
def test_a_tu_dataset_of_pytorch_geometric_trains(tmp_path, tu_folder):
    datasets = pytest.importorskip("torch_geometric.datasets")
    (tmp_path / "root" / "small").mkdir(parents=True)
    tu_folder.rename(tmp_path / "root" / "small" / "raw")
    dataset = datasets.TUDataset(str(tmp_path / "root"), "small")
    config = load_recipe("graphs").replace(**SMALL, epochs=1, warmup_epochs=0, batch_size=3)
    run = nonneg.train(config, tmp_path / "run", source=dataset, progress=False)
    features = nonneg.load(run).embed(dataset)
    assert features.shape == (3, 16) and features.provenance["source"] == "small"


def test_files_may_begin_with_a_byte_order_mark(text_file, tu_folder):
    for path in (text_file, *tu_folder.iterdir()):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert open_graphs(str(text_file)).labels.tolist() == open_graphs(str(tu_folder)).labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: text.replace("2 2 0 2", "2 2 0 9"), "node 1"),
        (lambda text: text.replace("3 1", "three 1"), "line 2"),
        (lambda text: text[:20], "ends"),
        (lambda text: "0\n", "no graphs"),
        (lambda text: "2" + text[1:], "line 9 follows the last of the 2 graphs"),
        (lambda text: "not graphs", "line 1"),
        (lambda text: text.replace("2 2 0 2", "2 3 0 2"), "line 4"),
        (lambda text: text.replace("2 2 0 2", "2 -1 0 2"), "line 4"),
    ],
)
def test_broken_text_is_an_error(text_file, change, named):
    text_file.write_text(change(TEXT))
    with pytest.raises(InputError, match=named):
        open_graphs(str(text_file))


@pytest.mark.parametrize(
    ("part", "content", "named"),
    [
        ("graph_labels", "1\n0\n", "rows"),
        ("A", "1, 4\n", "another"),
        ("A", "1, 99\n", "99|98"),
        ("graph_indicator", "1\n2\n1\n", "ascending"),
        ("node_labels", "0\nx\n", "node_labels"),
        ("node_labels", "0\n2\n0\n2\n2\n0\n0.5\n", "node_labels.txt holds 0.5, expected whole numbers"),
        ("A", "1, 2\n2, nan\n", "A.txt holds nan"),
        ("graph_indicator", "1\n1\n1\n2\n2\n3\n1e300\n", "graph_indicator.txt holds 1e\\+300"),
        ("graph_labels", "1\n0\ninf\n", "graph_labels.txt holds inf"),
        ("graph_indicator", "", "graph_indicator.txt has 0 rows"),
    ],
)
def test_broken_tu_folders_are_errors(tu_folder, part, content, named):
    (tu_folder / f"small_{part}.txt").write_text(content)
    with pytest.raises(InputError, match=named):
        Graphs().open(str(tu_folder))


def test_negative_classes_are_classes_and_nan_is_none(tu_folder):
    (tu_folder / "small_graph_labels.txt").write_text("1\n-1\nnan\n")
    found = open_graphs(str(tu_folder))
    assert found.labels.tolist() == [1, 0, -1] and found.label_names == ("-1", "1")


def test_labels_of_a_dataset_may_be_missing():
    data = pytest.importorskip("torch_geometric.data")
    ends = torch.tensor([[0, 1], [1, 0]])

    def graphs(*labels):
        given = [{} if label is None else {"y": torch.tensor(label)} for label in labels]
        return [data.Data(x=torch.eye(2), edge_index=ends, **each) for each in given]

    words = graphs([0], [0], [0])
    for graph, word in zip(words, ("ring", "star", "ring"), strict=True):
        graph.y = word
    assert open_graphs(words).label_names == ("ring", "star")
    found = open_graphs(graphs([2], None, [float("nan")], [7]))
    assert found.labels.tolist() == [0, -1, -1, 1]
    assert open_graphs(graphs(None, None)).labels is None
    with pytest.raises(InputError, match="y of graph 1 has 2 entries"):
        open_graphs(graphs([0], [0, 1]))


@pytest.mark.parametrize(
    ("ends", "named"),
    [
        (torch.tensor([[0, 1], [1, 2]]), "graph 0 has edges outside of its nodes, 0 to 1"),
        (torch.tensor([[0, 1], [1, -1]]), "graph 0 has edges outside"),
        (torch.tensor([[0.0, 1.0], [1.0, 0.5]]), "edge_index is float32"),
        (torch.tensor([0, 1]), r"edge_index is int64 \(2,\)"),
    ],
)
def test_edges_of_a_dataset_stay_within_their_graph(ends, named):
    data = pytest.importorskip("torch_geometric.data")
    graph = data.Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    wrong = data.Data(x=torch.eye(2), edge_index=ends)
    with pytest.raises(InputError, match=named):
        open_graphs([wrong, graph])


def trained_on(data, out, **changes):
    settings = {"epochs": 1, "warmup_epochs": 0, "batch_size": 0, **SMALL, **changes}
    return nonneg.load(nonneg.train(load_recipe("graphs").replace(data=str(data), **settings), out, progress=False))


def dense(features):
    return features.codes.toarray() if features.is_sparse else np.asarray(features.codes)


def test_new_graphs_may_lack_a_tag_and_one_graph_is_enough(tmp_path, text_file, tu_folder):
    model = trained_on(text_file, tmp_path / "run")
    expected = dense(model.embed(str(text_file), "encoder"))
    new = tmp_path / "new.txt"
    new.write_text("1\n2 0\n2 1 1\n2 1 0\n")  # the second graph, in which all tags are 2
    np.testing.assert_allclose(dense(model.embed(str(new), "encoder")), expected[[1]], atol=1e-6)
    for part, content in {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n", "node_labels": "2\n2\n"}.items():
        (tu_folder / f"small_{part}.txt").write_text(content)
    (tu_folder / "small_graph_labels.txt").unlink()
    np.testing.assert_allclose(dense(model.embed(str(tu_folder), "encoder")), expected[[1]], atol=1e-6)


def test_one_graph_is_too_few_to_train_on(tmp_path, text_file):
    text_file.write_text("1\n2 0\n2 1 1\n0 1 0\n")
    with pytest.raises(InputError, match="1 sample, expected at least 2"):
        trained_on(text_file, tmp_path / "run")


def test_a_tag_that_the_model_does_not_know_is_named(tmp_path, text_file):
    model = trained_on(text_file, tmp_path / "run")
    other = tmp_path / "other.txt"
    other.write_text(TEXT.replace("2 1 1", "5 1 1"))
    with pytest.raises(InputError, match=r"other\.txt has the attribute tag_5.*expected tag_0, tag_2"):
        model.embed(str(other))


def test_a_missing_attribute_that_is_no_tag_is_named(tmp_path, text_file):
    text_file.write_text("2\n2 0\n2 1 1 0.5\n0 1 0 3\n2 1\n0 1 1 1\n2 1 0 1\n")
    model = trained_on(text_file, tmp_path / "run")
    assert model.embed(str(text_file)).shape == (2, 16)
    text_file.write_text(TEXT)
    with pytest.raises(InputError, match=r"has no attribute attribute_0"):
        model.embed(str(text_file))


def test_a_tag_that_is_the_same_everywhere_is_none(tmp_path, text_file, tu_folder):
    text_file.write_text(TEXT.replace("2 1 ", "0 1 ").replace("2 2 ", "0 2 "))
    (tu_folder / "small_node_labels.txt").write_text("0\n" * 7)
    model = trained_on(text_file, tmp_path / "run")
    for path in (text_file, tu_folder):
        assert any("structural" in note for note in Graphs().open(str(path)).notes)
        assert model.embed(str(path)).shape == (3, 16)


def test_a_model_of_structural_attributes_takes_no_others(tmp_path):
    model = trained_on("motifs", tmp_path / "run")
    ends = np.array([[0, 1], [1, 2]])
    bare, given = (RawGraph("path", "path", 3, ends, attributes=each) for each in (None, np.ones((3, 66))))
    assert model.embed(joined("path", [bare]), media=False).shape == (1, 16)
    with pytest.raises(InputError, match="66 attributes, expected none"):
        model.embed(joined("path", [given]), media=False)


def test_a_folder_of_many_graphs_is_refused_as_one_graph(tu_folder):
    with pytest.raises(InputError, match="graphs"):
        open_graph(str(tu_folder))


@pytest.mark.parametrize("encoder", ["gcn", "gin"])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_feature_of_a_graph_does_not_depend_on_the_rest_of_its_batch(encoder, pooling):
    if encoder == "gin":
        pytest.importorskip("torch_geometric")
    source = Graphs().open("motifs")
    modality = Graphs(width=8, layers=2, pooling=pooling).fitted(source)
    module = modality.encoder(encoder)[0].eval()

    def of(rows):
        return module(modality.inputs({"graphs": torch.tensor(rows), "graph": source.samples.graph}))

    with torch.no_grad():
        torch.testing.assert_close(of([5, 0, 7, 5])[[0, 2, 3]], torch.cat((of([5]), of([7]), of([5]))))


def test_views_depend_on_the_graph_and_not_on_its_batch():
    source = Graphs().open("motifs")
    modality = Graphs(views=GraphViewConfig((0.3,), (0.3,), (0.3,), (0.3,))).fitted(source)
    both, alone = views_of(modality, source, [4, 9]), views_of(modality, source, [9])
    for (graph, weights, kept, owner), (other, own_weights, own_kept, _) in zip(
        both["views"], alone["views"], strict=True
    ):
        torch.testing.assert_close(kept[owner == 1], own_kept)
        torch.testing.assert_close(weights[-len(own_weights) :], own_weights)
        torch.testing.assert_close(graph.tensors["values"][owner == 1], other.tensors["values"])


def paths(lengths):
    ends = [np.stack((np.arange(length - 1), np.arange(1, length))) for length in lengths]
    graphs = zip(lengths, ends, strict=True)
    return joined("paths", [RawGraph("path", "path", length, each) for length, each in graphs])


@pytest.mark.parametrize("data", ["motifs", paths([40, 100, 3, 300, 2])], ids=["motifs", "paths"])
@pytest.mark.parametrize("cut", [0.2, 0.5])
def test_a_cut_keeps_a_connected_part_of_the_given_size(data, cut):
    source = Graphs().open(data)
    modality = Graphs(views=GraphViewConfig((0.0,), (0.0,), (0.0,), (cut,))).fitted(source)
    views = views_of(modality, source, list(range(min(30, len(source)))))
    graph, weights, kept, owner = views["views"][0]
    sizes = torch.bincount(owner)
    assert torch.equal(torch.bincount(owner[kept]), (views["sizes"] * (1 - cut)).ceil().long())
    links = sp.csr_array((weights.numpy(), graph.edges.columns.numpy(), graph.edges.starts.numpy()))
    for part in np.split(np.arange(len(kept)), sizes.cumsum(0)[:-1]):
        inside = part[kept[part].numpy()]
        assert connected_components(links[inside][:, inside])[0] == 1


def test_a_cut_of_a_graph_in_two_parts_keeps_one_of_them_first():
    ends = np.array([[0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]])
    source = Graphs().open(joined("parts", [RawGraph("parts", "parts", 8, ends)] * 20))
    modality = Graphs(views=GraphViewConfig((0.0,), (0.0,), (0.0,), (0.5,))).fitted(source)
    kept = views_of(modality, source, list(range(20)))["views"][0][2].view(20, 2, 4)
    assert set(kept.sum(2).flatten().tolist()) == {0, 4} and (kept.sum((1, 2)) == 4).all()


def test_every_view_keeps_a_node_of_every_graph():
    source = Graphs().open("motifs")
    modality = Graphs(views=GraphViewConfig((0.99,))).fitted(source)
    views = views_of(modality, source, list(range(50)))
    for _, _, kept, owner in views["views"]:
        assert torch.bincount(owner[kept], minlength=50).min() >= 1


def test_a_run_learns_the_motifs_and_embeds_other_graphs(tmp_path):
    config = load_recipe("graphs").replace(**SMALL, epochs=6, warmup_epochs=1, batch_size=100, lr=0.01)
    run = nonneg.train(config, tmp_path / "run", progress=False)
    model, source = nonneg.load(run), Graphs().open("motifs")
    few = model.embed(source.take(range(5, 10)))
    assert few.shape == (5, 16) and few.samples["media"][0].as_py()[:4] == b"\x89PNG"
    assert random_splits(model.embed(source, "encoder", media=False), splits=2).accuracies.mean() > 0.5


def test_graphs_are_embedded_in_batches_and_the_nodes_of_one_graph_all_at_once(tmp_path):
    ends = np.array([[0], [1]])
    config = load_recipe("graphs").replace(**SMALL, epochs=1, warmup_epochs=0, batch_size=50)
    model = nonneg.load(nonneg.train(config, tmp_path / "run", progress=False))
    sizes = []
    model.encoder.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    pair = RawGraph("pairs", "pairs", 2, ends)
    features = model.embed(joined("pairs", [pair] * 3000), media=False)
    assert features.shape == (3000, 16) and sum(sizes) == 3000 and max(sizes) <= 1024
    ring = RawGraph("ring", "ring", 3000, np.stack((np.arange(3000), np.roll(np.arange(3000), 1))))
    config = load_recipe("graph").replace(**SMALL, epochs=1, warmup_epochs=0, batch_size=50)
    model = nonneg.load(nonneg.train(config, tmp_path / "nodes", source=ring, progress=False))
    model.encoder.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    sizes.clear()
    assert model.embed(ring, media=False).shape == (3000, 16) and sizes == [3000]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "in a NodeEncoder"])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_a_module_of_pytorch_geometric_is_pooled_over_the_nodes_of_each_graph(tmp_path, wrapped, pooling):
    models = pytest.importorskip("torch_geometric.nn.models")

    def own():
        module = models.GIN(66, 12, 2)
        return NodeEncoder(module, scaled=False) if wrapped else module

    config = load_recipe("graphs").replace(**SMALL, epochs=1, warmup_epochs=0, batch_size=50, pooling=pooling)
    run = nonneg.train(config, tmp_path / "run", encoder=own(), progress=False)
    trained = own()
    model = nonneg.load(run, encoder=trained)
    source = Graphs().open("motifs").take(range(2))
    features = model.embed(source, "encoder", media=False)
    graph = source.samples.whole.graph
    kept = ~graph.is_loop
    with torch.no_grad():
        module = trained.module if wrapped else trained
        nodes = module(graph.dense_attributes(), torch.stack((graph.sources, graph.targets))[:, kept])
    first = nodes[: int(graph.tensors["blocks"][1])]
    expected = first.sum(0) if pooling == "sum" else first.mean(0)
    np.testing.assert_allclose(np.asarray(features.codes)[0], expected, rtol=1e-4, atol=1e-4)


def test_attributes_of_another_number_are_an_error(tmp_path, text_file):
    config = load_recipe("graphs").replace(**SMALL, epochs=1, warmup_epochs=0, batch_size=100)
    run = nonneg.train(config, tmp_path / "run", progress=False)
    with pytest.raises(InputError, match="attributes"):
        nonneg.load(run).embed(str(text_file))


def test_folds_need_ten_samples_of_each_class():
    labels = np.array([0] * 30 + [1] * 5)
    with pytest.raises(InputError, match="5 samples"):
        cross_validation(Features(np.eye(2, dtype=np.float32)[labels], labels=labels))
