"""Encoders of nodes against plain formulas, and modules of PyTorch Geometric."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from nonneg.errors import InputError
from nonneg.modalities.graphs import GCN, NodeEncoder, Nodes
from nonneg.modalities.graphs._sparse import pattern_of, product


@pytest.fixture(params=["sparse", "dense"])
def source(request, graph_file, communities):
    changes = {} if request.param == "sparse" else {"attr_matrix": 1 + communities[1].toarray()}
    return Nodes().open(graph_file(**changes))


def batch(source, rows=slice(None)):
    return Nodes().inputs({"nodes": torch.arange(len(source))[rows], "graph": source.samples.graph})


def test_gcn_is_the_formula_of_its_paper(source):
    torch.manual_seed(0)
    graph, model = source.samples.graph, GCN(40, 8, 2, scaled=True).double()
    a = torch.zeros(90, 90, dtype=torch.float64)
    a[graph.edges.rows, graph.edges.columns.long()] = graph.weights.double()
    root = a.sum(1).rsqrt()
    a = root[:, None] * a * root
    x = graph.dense_attributes().double()
    h = x / x.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)
    for weight, bias, activation in zip(model.weight, model.bias, model.activation, strict=True):
        h = activation(a @ h @ weight + bias)
    torch.testing.assert_close(model(batch(source)), h, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(model(batch(source, slice(5, 9))), h[5:9], atol=1e-6, rtol=1e-5)


def test_gcn_has_the_gradients_of_its_formula(source):
    graph = source.samples.graph
    for tensor in ("weights", "values"):
        graph.tensors[tensor] = graph.tensors[tensor].double()
    model = GCN(40, 3, 2, scaled=False).double()
    inputs = batch(source)
    inputs["attributes"] = inputs["attributes"].double()

    def output(*weights):
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (inputs,))[:6]

    names = [name for name, _ in model.named_parameters()]
    assert torch.autograd.gradcheck(output, tuple(model.parameters()), fast_mode=True)


def test_a_view_without_an_edge_is_the_graph_without_it(graph_file, communities):
    adjacency = communities[0]
    whole = Nodes().open(graph_file())
    graph, model = whole.samples.graph, GCN(40, 8, 2, scaled=True)
    target, source = int(graph.edges.rows[1]), int(graph.edges.columns[1])
    ends = {target, source}
    dropped = torch.tensor(
        [{int(a), int(b)} == ends and a != b for a, b in zip(graph.edges.rows, graph.edges.columns, strict=True)]
    )
    assert dropped.sum() == 2
    view = {**batch(whole), "edges": graph.weights.masked_fill(dropped, 0)[None]}
    dense = adjacency.toarray()
    dense[target, source] = dense[source, target] = 0
    less = sp.csr_array(dense)
    other = Nodes().open(graph_file(adj_data=less.data, adj_indices=less.indices, adj_indptr=less.indptr))
    torch.testing.assert_close(model(view), model(batch(other)))


def test_a_new_node_does_not_change_nodes_far_away(graph_file, communities):
    model = GCN(40, 8, 2, scaled=True)
    adjacency, attributes, _, _ = communities
    grown = sp.csr_array(sp.block_diag((adjacency, sp.csr_array((1, 1)))))
    grown = sp.csr_array(grown + sp.coo_array(([1.0, 1.0], ([0, 90], [90, 0])), shape=(91, 91)))
    words = sp.csr_array(sp.vstack((attributes, attributes[[0]])))
    changes = {f"adj_{part}": getattr(grown, part) for part in ("data", "indices", "indptr")}
    changes |= {f"attr_{part}": getattr(words, part) for part in ("data", "indices", "indptr")}
    changes |= {"adj_shape": np.array([91, 91]), "attr_shape": np.array([91, 40]), "labels": None, "split": None}
    before, after = model(batch(Nodes().open(graph_file()))), model(batch(Nodes().open(graph_file(**changes))))
    near = np.asarray((np.eye(90) + adjacency.toarray()) @ (np.eye(90) + adjacency.toarray()))[0] > 0
    assert len(after) == 91
    torch.testing.assert_close(before[~near], after[:90][~near])
    assert not torch.allclose(before[0], after[0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["graphsage", "gin", "gat"])
def test_encoders_of_pytorch_geometric_are_built_by_name(name, source):
    pytest.importorskip("torch_geometric")
    module, width, _ = Nodes(width=16, attributes=40).encoder(name)
    output = module(batch(source, slice(3, 7)))
    assert output.shape == (4, width)
    output.sum().backward()
    assert all(p.grad is not None for p in module.parameters())


@pytest.mark.filterwarnings("ignore")
def test_gcn_agrees_with_pytorch_geometric(source):
    geometric = pytest.importorskip("torch_geometric.nn")
    own = GCN(40, 8, 1, scaled=True)
    theirs = geometric.GCNConv(40, 8)
    with torch.no_grad():
        theirs.lin.weight.copy_(own.weight[0].T)
    module = NodeEncoder(theirs, weighted=True)
    torch.testing.assert_close(own(batch(source)), own.activation[0](module(batch(source))))


def test_any_module_of_attributes_and_edges_is_an_encoder(source):
    class Mean(nn.Module):
        def forward(self, x, edge_index):
            return torch.zeros_like(x).index_add_(0, edge_index[1], x[edge_index[0]])

    sums = NodeEncoder(Mean(), scaled=False)(batch(source))
    assert sums.shape == (90, 40) and sums.sum() > 0


def test_an_unknown_encoder_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InputError, match=r"encoder is 'resnet18'.*gcn"):
        Nodes().check_encoder("resnet18")


def test_batch_norm_gives_every_output_the_same_spread_over_nodes():
    source = Nodes().open("citations")
    inputs = Nodes().inputs({"nodes": torch.arange(1200), "graph": source.samples.graph})
    torch.manual_seed(0)
    with_norm, without = (Nodes(width=8, batch_norm=on).fitted(source).encoder("gcn")[0] for on in (True, False))
    for module in (with_norm, without):
        for activation in module.activation:
            torch.nn.init.ones_(activation.weight)  # no activation
    spread = with_norm(inputs).std(0)
    torch.testing.assert_close(spread, torch.ones(8), rtol=0.01, atol=0.01)
    assert without(inputs).std(0).std() > 0.05


def test_sparse_products_add_up_long_and_empty_rows():
    rng = np.random.default_rng(0)
    dense = rng.random((12, 3000)) * (rng.random((12, 3000)) < np.array([1, 0, 0.5, *[0.02] * 8, 0])[:, None])
    matrix, factor = sp.csr_array(dense), torch.from_numpy(rng.random((3000, 5))).requires_grad_()
    found = product(pattern_of(matrix), torch.from_numpy(matrix.data), factor)
    torch.testing.assert_close(found, torch.from_numpy(dense) @ factor)
    other = torch.from_numpy(rng.random((12, 4))).requires_grad_()
    transposed = product(pattern_of(sp.csr_array(dense.T)), torch.from_numpy(sp.csr_array(dense.T).data), other)
    transposed.square().sum().backward()
    expected = torch.autograd.grad((torch.from_numpy(dense.T) @ other).square().sum(), other)[0]
    torch.testing.assert_close(other.grad, expected)
