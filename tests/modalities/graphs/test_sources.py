"""Graphs in files and objects: what is read, what is repaired and said, what is rejected."""

import importlib.util
import pickle
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose

from nonneg.errors import InputError
from nonneg.modalities import UndividedError
from nonneg.modalities.graphs import Graphs, Nodes, RawGraph, open_graph
from nonneg.modalities.graphs._structural import core_numbers, structural_attributes


def opened(ends, nodes=4, undirected=True, **others):
    return Nodes(undirected=undirected).open(RawGraph("graph", "graph", nodes, np.array(ends, np.int64).T, **others))


def adjacency(source):
    """Return the dense adjacency (target, source), with its diagonal of ones."""
    graph = source.samples.graph
    dense = torch.zeros(graph.nodes, graph.nodes)
    dense[graph.edges.rows, graph.edges.columns.long()] = graph.weights
    return dense


# .npz


def test_an_npz_gives_nodes_labels_attributes_and_the_split(graph_file):
    source = Nodes().open(str(graph_file(class_names=np.array(["art", "law", "physics"]))))
    assert len(source) == 90 and source.name == "graph" and source.label_names == ("art", "law", "physics")
    assert source.samples.graph.width == 40 and np.bincount(source.split + 1).tolist() == [30, 15, 15, 30]
    dense = torch.from_numpy(np.load(graph_file())["attr_data"])
    assert source.samples.graph.dense_attributes().sum() == dense.sum()


@pytest.mark.parametrize("name", ["node_names", "attr_matrix", "masks"])
def test_an_npz_may_hold_names_dense_attributes_and_masks(graph_file, name):
    if name == "node_names":
        assert Nodes().open(graph_file(node_names=np.array([f"n{i}" for i in range(90)]))).ids[7] == "n7"
    elif name == "attr_matrix":
        assert Nodes().open(graph_file(attr_matrix=np.ones((90, 5)))).samples.graph.width == 5
    else:
        masks = {f"{part}_mask": np.arange(90) % 3 == i for i, part in enumerate(("train", "val", "test"))}
        assert Nodes().open(graph_file(split=None, **masks)).split.tolist() == [0, 1, 2] * 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.zeros(89, int)}, r"labels .*89.*90"),
        ({"adj_indices": np.full(1, 200), "adj_data": np.ones(1), "adj_indptr": np.array([0] + [1] * 90)}, "200"),
        ({"adj_indptr": np.zeros(5, int)}, r"adj_indptr .*5 .*91"),
        ({"adj_indices": np.zeros(3)}, "adj_indices is float64"),
        ({"adj_shape": np.array([90, 91])}, "adj_shape"),
        ({"adj_data": None}, "adj_data"),
        ({"adj_data": np.ones(3)}, "adj_data"),
        ({"attr_data": None}, "attr_data is missing"),
        ({"attr_matrix": np.ones((89, 5))}, r"attributes .*\(89, 5\)"),
        ({"attr_matrix": np.where(np.eye(90, 5) > 0, np.nan, 1)}, "attribute 0 of node 0 is nan"),
        ({"attr_matrix": np.where(np.eye(90, 5) > 0, 1e39, 1)}, "attribute 0 of node 0 is inf"),
        ({"attr_shape": np.array([90, 2**40])}, r"attr_shape is \(90, 1099511627776\)"),
        ({"adj_indices": np.full(1, -1), "adj_data": np.ones(1), "adj_indptr": np.array([0] + [1] * 90)}, "has -1"),
        ({"adj_indptr": np.array([0, 5, 2] + [2] * 88, np.uint64)}, "adj_indptr"),
        ({"adj_indptr": np.array([2**64 - 1] * 91, np.uint64)}, "adj_indptr has 18446744073709551615"),
        ({"split": np.full(90, 3)}, "split"),
        ({"node_names": np.array(["a"])}, "node_names"),
    ],
)
def test_a_wrong_array_is_named(graph_file, changes, message):
    with pytest.raises(InputError, match=message):
        Nodes().open(graph_file(**changes))


def test_a_pickle_is_refused_and_the_conversion_named(tmp_path):
    np.savez(tmp_path / "graph.npz", adj_matrix=np.array(sp.eye_array(3), dtype=object))
    with pytest.raises(InputError, match=r"graph.npz .*pickled.*examples/convert_graphs\.py"):
        Nodes().open(tmp_path / "graph.npz")


def test_a_damaged_file_is_one_sentence(tmp_path, graph_file):
    content = graph_file().read_bytes()
    (tmp_path / "short.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"short\.npz"):
        Nodes().open(tmp_path / "short.npz")


def test_only_arrays_of_a_graph_are_read(graph_file):
    assert len(Nodes().open(graph_file(notes=np.array([{"pickled": 1}], object)))) == 90


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_arrays_in_another_compression_than_numpys_are_an_error(graph_file, tmp_path, method):
    with zipfile.ZipFile(graph_file()) as given, zipfile.ZipFile(tmp_path / "other.npz", "w", method) as other:
        for name in given.namelist():
            other.writestr(name, given.read(name))
    with pytest.raises(InputError, match=r"other\.npz: .*is compressed by method"):
        Nodes().open(tmp_path / "other.npz")


@pytest.mark.parametrize("data", ["nowhere.npz", "", 3])
def test_what_is_no_graph_is_an_error_that_names_data(data):
    with pytest.raises(InputError, match="data is"):
        Nodes().open(data)


def test_a_graph_is_not_divided(graph_file):
    with pytest.raises(UndividedError, match="test"):
        Nodes().open(graph_file(), "test")


# Edges


def test_edges_lead_both_ways_unless_told_otherwise():
    ends = [(0, 1), (1, 2)]
    assert torch.equal(adjacency(opened(ends)), adjacency(opened(ends)).T)
    one_way = adjacency(opened(ends, undirected=False))
    assert one_way[1, 0] == 1 and one_way[0, 1] == 0  # node 1 hears from node 0


def test_what_is_unusual_about_edges_is_reported():
    source = opened([(0, 1), (0, 1), (2, 2), (1, 0)], nodes=4)
    notes = " ".join(source.notes)
    assert "1 repeated" in notes and "1 edge from a node to itself" in notes and "2 nodes have no neighbours" in notes
    assert "undirected" in notes and adjacency(source)[0, 1] == 1
    assert "directed edges, used in both directions" in " ".join(opened([(0, 1), (1, 2)]).notes)


def test_weights_of_repeated_edges_are_added():
    source = opened([(0, 1), (0, 1), (1, 2)], weights=np.array([2.0, 3.0, 0.5]))
    assert adjacency(source)[1, 0] == 5 and adjacency(source)[2, 1] == 0.5


@pytest.mark.parametrize("other", [1.0, 2.0])
def test_weights_of_one_edge_do_not_depend_on_those_of_others(other):
    source = opened([(0, 1), (0, 1), (1, 2)], weights=np.array([1.0, 1.0, other]))
    assert adjacency(source)[1, 0] == 2 and adjacency(source)[2, 1] == other


def test_of_two_directions_the_larger_weight_holds():
    found = adjacency(opened([(0, 1), (1, 0), (1, 2)], weights=np.array([2.0, 5.0, 1.0])))
    assert found[0, 1] == found[1, 0] == 5


def test_a_note_tells_which_encoders_use_weights():
    ends = [(0, 1), (1, 2)]
    (note,) = (note for note in opened(ends, weights=np.array([1.0, 2.0])).notes if "weights" in note)
    assert "gcn" in note and "gin" in note
    assert not any("weights" in note for note in opened(ends, weights=np.ones(2)).notes)


def test_attributes_of_the_caller_stay_as_they_are_and_may_be_read_only():
    given = sp.csr_array((np.array([1, 0, 2], np.float32), ([0, 1, 2], [0, 1, 2])), shape=(4, 3))
    parts = (given.data, given.indices, given.indptr)
    before = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = False
    assert opened([(0, 1)], attributes=given).samples.graph.dense_attributes().sum() == 3
    assert all(np.array_equal(part, old) for part, old in zip(parts, before, strict=True))


@pytest.mark.parametrize(
    ("ends", "nodes", "others", "message"),
    [
        ([(0, 1)], 1, {}, "1 node,"),
        (np.zeros((0, 2)), 0, {}, "0 nodes"),
        (np.zeros((0, 2)), 5, {}, "no edges"),
        ([(2, 2)], 5, {}, "no edge between two different nodes"),
        ([(0, 1), (0, 9)], 5, {}, "edge 1 .*node 9"),
        ([(0, 1)], 5, {"weights": np.array([-1.0])}, "weight -1"),
        ([(0, 1)], 5, {"weights": np.array([np.nan])}, "weight nan"),
        ([(0, 1)], 5, {"labels": np.zeros(3, int)}, "labels has 3"),
    ],
)
def test_a_graph_that_cannot_be_used_is_one_sentence(ends, nodes, others, message):
    with pytest.raises(InputError, match=message):
        opened(ends, nodes, **others)


def test_weights_that_are_too_large_are_an_error():
    for weights in ([1.0, 1e39, 1.0], [2e38, 2e38, 2e38]):
        with pytest.raises(InputError, match=r"weight.* 3\.4e\+38"):
            opened([[0, 1], [0, 1], [1, 2]], weights=np.array(weights))


def test_structure_is_counted_rightly_and_a_hub_takes_little_memory():
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((60, 60)) < 0.15, 1)
    dense |= dense.T
    links = sp.csr_array(dense, dtype=np.float32)
    triangles = np.diag(np.linalg.matrix_power(dense.astype(int), 3)) / 2
    degree = dense.sum(1)
    expected = triangles / np.maximum(degree * (degree - 1) / 2, 1)
    assert_allclose(structural_attributes(links)[:, -2], expected, rtol=1e-6)
    core = np.full(60, -1)
    for k in range(60):  # remove nodes with fewer than k neighbours until none is left
        inside = np.ones(60, bool)
        while (leaving := inside & (dense[:, inside].sum(1) < k)).any():
            inside &= ~leaving
        core[inside] = k
    assert core_numbers(links).tolist() == core.tolist()
    leaves = np.arange(1, 30_000)
    star = np.stack((np.concatenate((leaves, 0 * leaves)), np.concatenate((0 * leaves, leaves))))
    tracemalloc.start()
    structural_attributes(sp.csr_array((np.ones(len(star[0]), np.float32), star)))
    assert tracemalloc.get_traced_memory()[1] < 2e8  # each two leaves are two steps apart: 9e8 pairs
    tracemalloc.stop()


def test_nodes_without_attributes_get_structural_ones_of_the_same_width_in_every_graph(graph_file):
    small = opened([(0, 1), (1, 2), (2, 0), (2, 3)])
    large = Nodes().open(graph_file(**{f"attr_{part}": None for part in ("data", "indices", "indptr", "shape")}))
    assert small.samples.graph.width == large.samples.graph.width
    assert any("structural" in note for note in small.notes)
    linked = small.samples.graph.dense_attributes()[:, -2]
    torch.testing.assert_close(linked, torch.tensor([1, 1, 1 / 3, 0]))


# Tables


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,weight\n007,8,1\n8,9,0.5\n")
    (tmp_path / "nodes.csv").write_text("id,label,split,age,height\n9,b,test,1,2\n8,a,,3,4\n007,b,train,5,6\n")
    return tmp_path


def test_a_folder_of_tables_gives_a_graph(tables):
    source = Nodes().open(tables)
    assert (
        source.ids == ("9", "8", "007") and source.labels.tolist() == [1, 0, 1] and source.split.tolist() == [2, -1, 0]
    )
    assert adjacency(source)[1, 2] == 1 and adjacency(source)[0, 1] == 0.5
    assert source.samples.graph.dense_attributes().tolist() == [[1, 2], [3, 4], [5, 6]]


def test_parquet_tables_give_the_same(tables, tmp_path):

    expected = Nodes().open(tables)
    for name in ("edges", "nodes"):
        types = pa.csv.ConvertOptions(column_types=dict.fromkeys(("source", "target", "id"), pa.string()))
        pq.write_table(pa.csv.read_csv(tables / f"{name}.csv", convert_options=types), tmp_path / f"{name}.parquet")
        (tables / f"{name}.csv").unlink()
    found = Nodes().open(tmp_path)
    assert found.ids == expected.ids and torch.equal(adjacency(found), adjacency(expected))


def test_a_list_of_edges_alone_is_a_graph(tables):
    source = Nodes().open(tables / "edges.csv")
    assert source.ids == ("007", "8", "9") and source.labels is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.csv", "from,to\n1,2\n", r"edges.csv .*from, to.*source"),
        ("edges.csv", "source,target\n007,77\n", r"edges.csv: row 0 names node 77"),
        ("edges.csv", "source,target,weight\n007,8,heavy\n", "weight .*numbers"),
        ("nodes.csv", "id,age\n9,1\n8,\n007,2\n", "attribute age of node 8 is nan"),
        ("nodes.csv", "id,age\n9,old\n8,new\n007,new\n", "age .*numbers"),
        ("nodes.csv", "id\n9\n9\n007\n", "id 9"),
        ("nodes.csv", "id,split\n9,later\n8,\n007,\n", "split has 'later'"),
        ("nodes.csv", "id,age\n9,1\n ,2\n007,3\n", "id .*row 1"),
        ("edges.csv", "source,target\n007,8\n9,\n", "target .*row 1"),
    ],
)
def test_an_error_in_a_table_names_it(tables, name, content, message):
    (tables / name).write_text(content)
    with pytest.raises(InputError, match=message):
        Nodes().open(tables)


def test_row_numbers_of_pandas_are_no_attributes(tables):
    pandas = pytest.importorskip("pandas")
    nodes = pandas.read_csv(tables / "nodes.csv", dtype={"id": str}).iloc[[1, 2, 0]]
    nodes.to_csv(tables / "nodes.csv")
    with pytest.raises(InputError, match=r"nodes\.csv: column 1 has no name.*index=False"):
        Nodes().open(tables)
    (tables / "nodes.csv").unlink()
    nodes.to_parquet(tables / "nodes.parquet")
    assert "__index_level_0__" in pq.read_schema(tables / "nodes.parquet").names
    assert open_graph(tables).attribute_names == ("age", "height")


def test_a_column_of_labels_without_any_label_is_none(tables):
    (tables / "nodes.csv").write_text("id,label,age\n9,,1\n8,,3\n007,,5\n")
    source = Nodes().open(tables)
    assert source.labels is None and source.label_names == ()


def test_a_folder_without_edges_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"edges\.csv"):
        Nodes().open(tmp_path)


def test_cora_is_bundled():
    graph = open_graph("cora")
    assert (graph.nodes, graph.ends.shape[1], graph.attributes.shape) == (2708, 2 * 5278, (2708, 1433))
    assert graph.label_names[3] == "neural networks" and np.bincount(graph.labels)[3] == 818
    assert np.bincount(graph.split + 1)[1:].tolist() == [140, 500, 1000]


def test_attributes_may_be_lists_and_must_be_numbers():
    assert opened([(0, 1)], attributes=[[1, 2]] * 4).samples.graph.width == 2
    for wrong in ([["a", "b"]] * 4, np.ones((4, 2), complex)):
        with pytest.raises(InputError, match=r"attributes .*numbers"):
            opened([(0, 1)], attributes=wrong)


# PyTorch Geometric


@pytest.mark.filterwarnings("ignore")
def test_a_data_object_gives_a_graph():
    data = pytest.importorskip("torch_geometric.data")
    edges, x = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.eye(3)
    masks = {f"{part}_mask": torch.arange(3) == i for i, part in enumerate(("train", "val", "test"))}
    source = Nodes().open(data.Data(x=x, edge_index=edges, y=torch.tensor([0, 1, 1]), **masks))
    assert len(source) == 3 and source.labels.tolist() == [0, 1, 1] and source.split.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="edge_index"):
        Nodes().open(data.Data(x=x))


@pytest.mark.filterwarnings("ignore")
def test_a_data_object_may_hold_a_transposed_adjacency_instead_of_edges():
    transforms = pytest.importorskip("torch_geometric.transforms")
    data = pytest.importorskip("torch_geometric.data")
    graph = data.Data(
        x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([2.0, 3.0]), num_nodes=3
    )
    found = adjacency(Nodes(undirected=False).open(transforms.ToSparseTensor(attr="edge_weight")(graph)))
    assert found[1, 0] == 2 and found[2, 1] == 3 and found.sum() == 3 + 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.bool])
def test_attributes_of_a_data_object_may_have_any_type_of_number(dtype):
    data = pytest.importorskip("torch_geometric.data")
    graph = data.Data(x=torch.eye(3, 4, dtype=dtype), edge_index=torch.tensor([[0, 1], [1, 2]]))
    assert torch.equal(Nodes().open(graph).samples.graph.dense_attributes(), torch.eye(3, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("y", "labels", "names"),
    [
        ([[7], [10**6], [-1]], [0, 1, -1], ("7", "1000000")),
        ([1.0, float("nan"), 2.0], [0, -1, 1], ("1", "2")),
        ([-1, -1, -1], None, ()),
    ],
)
def test_labels_of_a_data_object_are_numbered(y, labels, names):
    data = pytest.importorskip("torch_geometric.data")
    found = open_graph(data.Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor(y)))
    assert (found.labels if labels is None else found.labels.tolist()) == labels and found.label_names == names


@pytest.mark.filterwarnings("ignore")
def test_masks_of_a_data_object_may_be_numbers_and_have_one_entry_per_node():
    data = pytest.importorskip("torch_geometric.data")
    masks = {f"{part}_mask": (torch.arange(3) == i).byte() for i, part in enumerate(("train", "val", "test"))}
    graph = data.Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), **masks)
    assert open_graph(graph).split.tolist() == [0, 1, 2]
    graph.val_mask = torch.ones(2, dtype=torch.bool)
    with pytest.raises(InputError, match="val_mask"):
        open_graph(graph)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_with_several_kinds_of_nodes_is_an_error_that_says_so():
    data = pytest.importorskip("torch_geometric.data")
    with pytest.raises(InputError, match="several kinds"):
        open_graph(data.HeteroData(paper={"x": torch.eye(2)}))


@pytest.mark.parametrize("kind", [Nodes, Graphs])
@pytest.mark.parametrize(
    "name", ["graph.pkl", "ind.cora.graph", "graph.bin", "graph.npz", "graph.txt", "graph.csv", "graph.pt"]
)
def test_a_file_that_is_a_pickle_is_refused_with_what_to_do(name, kind, tmp_path):
    (tmp_path / name).write_bytes(pickle.dumps({0: [1]}))
    with pytest.raises(InputError, match=rf"{name} .*pickled.*examples/convert_graphs\.py.*Planetoid.*source="):
        kind().open(tmp_path / name)
    if name == "graph.pt":
        torch.save({"edge_index": torch.zeros(2, 1)}, tmp_path / name)
        with pytest.raises(InputError, match=rf"{name} .*pickled"):
            kind().open(tmp_path / name)


def test_names_of_attributes_of_another_number_are_an_error(graph_file):
    with pytest.raises(InputError, match=r"attributes have 3 names, expected 40"):
        Nodes().open(graph_file(attr_names=np.array(["a", "b", "c"])))


# Conversion of pickles


@pytest.fixture(scope="module")
def converter():
    from pathlib import Path

    path = Path(__file__).parents[3] / "examples" / "convert_graphs.py"
    spec = importlib.util.spec_from_file_location("convert_graphs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pickled_scipy_matrices_are_converted(converter, tmp_path, capsys):
    ring = sp.csr_matrix(np.roll(np.eye(4), 1, axis=1))
    arrays = {"adj_matrix": np.array(ring, dtype=object), "node_attr": np.array(sp.csr_matrix(np.eye(4)), dtype=object)}
    np.savez(tmp_path / "old.npz", **arrays, node_label=np.arange(4, dtype=np.int32))
    converter.main([str(tmp_path / "old.npz"), str(tmp_path / "new")])
    assert f"{tmp_path / 'new.npz'}, 4 nodes, 4 edges" in capsys.readouterr().out
    source = Nodes().open(tmp_path / "new.npz")
    assert source.labels.tolist() == [0, 1, 2, 3] and adjacency(source).sum() == 12


def test_dense_matrices_are_converted(converter, tmp_path):
    ring = np.roll(np.eye(4), 1, axis=1)
    np.savez(tmp_path / "old.npz", adj_matrix=ring, node_attr=np.eye(4), node_label=np.arange(4))
    converter.main([str(tmp_path / "old.npz"), str(tmp_path / "new.npz")])
    assert adjacency(Nodes().open(tmp_path / "new.npz")).sum() == 12


@pytest.mark.parametrize(
    ("arrays", "target", "named"),
    [
        ({}, "nowhere/new.npz", "nowhere is not a folder"),
        ({"adj_matrix": np.zeros(3)}, "new.npz", "old.npz cannot be converted"),
        ({"node_attr": np.array(["a", "b"])}, "new.npz", "old.npz cannot be converted"),
    ],
)
def test_what_cannot_be_converted_is_one_sentence(converter, tmp_path, arrays, target, named):
    given = {"adj_matrix": np.eye(2), "node_attr": np.eye(2), "node_label": np.arange(2)}
    np.savez(tmp_path / "old.npz", **{**given, **arrays})
    with pytest.raises(SystemExit, match=named):
        converter.main([str(tmp_path / "old.npz"), str(tmp_path / target)])


def test_planetoid_files_are_converted_with_missing_test_nodes(converter, tmp_path):
    def write(part, content):
        (tmp_path / f"ind.tiny.{part}").write_bytes(pickle.dumps(content))

    write("x", sp.csr_matrix(np.eye(5)[:2]))
    write("allx", sp.csr_matrix(np.eye(5)[:3]))
    write("tx", sp.csr_matrix(np.eye(5)[3:]))
    write("y", np.eye(2)[[0, 1]])
    write("ally", np.eye(2)[[0, 1, 1]])
    write("ty", np.eye(2)[[1, 0]])
    write("graph", {0: [1, 5], 1: [0], 2: [3, 3], 3: [2], 5: [0]})
    (tmp_path / "ind.tiny.test.index").write_text("5\n3\n")
    converter.main([str(tmp_path / "ind.tiny.x"), str(tmp_path / "tiny.npz")])
    source = Nodes().open(tmp_path / "tiny.npz")
    assert source.labels.tolist() == [0, 1, 1, 0, -1, 1]  # node 4 is missing
    dense = source.samples.graph.dense_attributes()
    assert dense[5].argmax() == 3 and dense[3].argmax() == 4 and dense[4].sum() == 0
    assert source.split.tolist()[:2] == [0, 0] and source.split[[3, 5]].tolist() == [2, 2]


def test_a_pickle_that_asks_for_anything_else_is_refused(converter, tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("executed",)

    with pytest.raises(pickle.UnpicklingError, match="print"):
        converter.unpickled(pickle.dumps(Evil()))
    with pytest.raises(pickle.UnpicklingError, match="not admitted"):
        converter.unpickled(b"cos\nsystem\n(S'true'\ntR.")


# The generated graph


def test_the_generated_graph_is_always_the_same_and_its_papers_cite_their_own_topic():
    source, again = Nodes().open("citations"), Nodes().open("citations")
    assert source.samples.graph.digest == again.samples.graph.digest and source.ids[0].split("-")[0].isalpha()
    graph, topic = source.samples.graph, torch.from_numpy(source.factors["topic"])
    same = topic[graph.edges.rows] == topic[graph.edges.columns.long()]
    assert same[~graph.is_loop].float().mean() > 0.6
    assert source.factor_names["topic"][int(topic[0])] == source.ids[0].split("-")[0]
    assert "directed edges, used in both directions" in source.notes[0]
