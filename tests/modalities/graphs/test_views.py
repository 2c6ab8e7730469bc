"""Views of a graph depend only on (seed, epoch, edge or attribute, view), and drop what they should."""

import numpy as np
import pytest
import torch

from nonneg.errors import InputError
from nonneg.modalities.graphs import Nodes, RawGraph, ViewConfig


def star(leaves=400):
    """Return a source: node 0 is linked to all others, which form a ring; attribute 0 is the centre's alone."""
    ring = np.arange(1, leaves + 1)
    ends = np.concatenate((np.stack((np.zeros_like(ring), ring)), np.stack((ring, np.roll(ring, 1)))), axis=1)
    attributes = np.tile(np.eye(50), (leaves // 50 + 1, 1))[: leaves + 1]
    return Nodes().open(RawGraph("star", "star", leaves + 1, ends, attributes=attributes))


def views(source, config, seed=0, epoch=0, count=2):
    batch = {"nodes": torch.arange(len(source)), "graph": source.samples.graph}
    return Nodes(views=config).draw_views(batch, batch["nodes"], seed, epoch, count, torch.float32)


def test_rates_hold_for_each_view_and_no_node_loses_itself():
    source = star()
    drawn = views(source, ViewConfig(drop_edges=(0.2, 0.5), mask_attributes=(0.0, 0.4)))
    graph = source.samples.graph
    kept = (drawn["edges"][:, ~graph.is_loop] > 0).float().mean(1)
    torch.testing.assert_close(kept, torch.tensor([0.8, 0.5]), atol=0.05, rtol=0)
    assert (drawn["edges"][:, graph.is_loop] == 1).all()
    assert drawn["attributes"][0].mean() == 1 and 0.3 < drawn["attributes"][1].mean() < 0.9
    assert drawn["nodes"].tolist() == list(range(401)) * 2


def test_views_are_the_same_for_the_same_key_and_differ_otherwise():
    source, config = star(), ViewConfig()
    first, again = views(source, config), views(source, config, epoch=torch.tensor(0))
    assert torch.equal(first["edges"], again["edges"]) and torch.equal(first["attributes"], again["attributes"])
    assert torch.equal(first["edges"][:1], views(source, config, count=1)["edges"])
    for other in (views(source, config, seed=1), views(source, config, epoch=1)):
        assert not torch.equal(first["edges"], other["edges"])
    assert not torch.equal(first["edges"][0], first["edges"][1])


def test_a_single_rate_holds_for_all_views():
    drawn = views(star(), ViewConfig(drop_edges=(0.5,), mask_attributes=(0.5,)), count=3)
    assert len(drawn["edges"]) == 3 and (drawn["edges"] == 0).any(1).all()


def test_weights_of_attributes_that_are_all_zero_are_equal():
    source = Nodes().open(
        RawGraph("ring", "ring", 4, np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), attributes=np.zeros((4, 90)))
    )
    kept = views(source, ViewConfig(mask_attributes=(0.5,), weighting="degree"))["attributes"].mean(1)
    torch.testing.assert_close(kept, torch.tensor([0.5, 0.5]), atol=0.2, rtol=0)


@pytest.mark.parametrize("weighting", ["degree", "page_rank"])
def test_edges_of_central_nodes_are_kept_more_often(weighting):
    source = star()
    graph = source.samples.graph
    drawn = views(source, ViewConfig((0.3,), (0.3,), weighting), count=20)
    central = (graph.edges.rows == 0) | (graph.edges.columns == 0)
    kept = (drawn["edges"] > 0).float().mean(0)
    assert kept[central & ~graph.is_loop].mean() > 0.85
    assert kept[~central & ~graph.is_loop].mean() < 0.6
    overall = float(kept[~graph.is_loop].mean())
    assert 0.65 < overall < 0.75
    assert drawn["attributes"][:, 0].mean() > drawn["attributes"][:, 1:].mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drop_edges": (1.0,)}, r"views\.drop_edges"),
        ({"mask_attributes": ()}, r"views\.mask_attributes"),
        ({"weighting": "eigen"}, r"views\.weighting is 'eigen'"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(InputError, match=message):
        ViewConfig(**settings)


def test_all_edges_of_dropped_nodes_are_missing():
    source = star()
    drawn = views(source, ViewConfig((0.0,), (0.0,), drop_nodes=(0.3,)))
    graph = source.samples.graph
    for kept in drawn["edges"] > 0:
        alone = torch.segment_reduce(kept.float(), "sum", offsets=graph.edges.starts.long()) == 1
        missing = ~kept & ~graph.is_loop
        assert (alone[graph.edges.rows[missing]] | alone[graph.edges.columns.long()[missing]]).all()
        assert 0.2 < alone[1:].float().mean() < 0.99


STILL = ViewConfig((0.0,), (0.0,))


def sampled(source, nodes, neighbours, layers=2, epoch=0, config=STILL):
    batch = {"nodes": torch.tensor(nodes), "graph": source.samples.graph}
    modality = Nodes(neighbours=neighbours, layers=layers, views=config)
    return modality.draw_views(batch, batch["nodes"], 0, epoch, 2, torch.float32)


@pytest.mark.parametrize("sparse", [True, False])
def test_with_all_neighbours_a_sampled_neighbourhood_gives_the_output_of_the_whole_graph(sparse):
    source = star()
    if not sparse:
        attributes = np.random.default_rng(0).random((401, 5))
        ends = torch.stack((source.samples.graph.edges.columns, source.samples.graph.edges.rows)).numpy()
        source = Nodes().open(RawGraph("star", "star", 401, ends.astype(np.int64), attributes=attributes))
    module = Nodes(width=8).fitted(source).encoder("gcn")[0]
    nodes = [7, 300, 7]
    some, whole = sampled(source, nodes, 1000), sampled(source, nodes, 0)
    outputs, gradients = [], []
    for inputs in (some, whole):
        module.zero_grad()
        outputs.append(module(inputs))
        outputs[-1].square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize(
    "config", [STILL, ViewConfig((0.4,), (0.2,), "degree", (0.1,))], ids=["same edges", "fewer edges"]
)
@pytest.mark.parametrize("encoder", ["gcn", "graphsage"])
def test_the_output_of_a_node_does_not_depend_on_its_batch(config, encoder):
    if encoder != "gcn":
        pytest.importorskip("torch_geometric")
    source = Nodes().open("citations")
    module = Nodes(width=8, batch_norm=True).fitted(source).encoder(encoder)[0].eval()
    nodes = list(range(0, 64, 4))
    together = module(sampled(source, nodes, 3, config=config))[: len(nodes)]
    alone = torch.cat([module(sampled(source, [node], 3, config=config))[:1] for node in nodes])
    torch.testing.assert_close(together, alone)


def test_a_sample_reaches_as_far_as_the_encoder_and_keeps_true_degrees():
    leaves = np.arange(1, 1001)
    ends = np.concatenate((np.stack((np.zeros_like(leaves), leaves)), np.stack((leaves, leaves + 1000))), axis=1)
    source = Nodes().open(RawGraph("hub", "hub", 2001, ends, attributes=np.ones((2001, 1))))
    one = sampled(source, [0], 10, layers=1)
    assert one["graph"].nodes == 11 and one["degrees"][0].tolist() == [1001, *[3] * 10]
    assert one["graph"].degrees[0] == 1001  # the weights of its edges add up to this
    assert sampled(source, [0], 10, layers=2)["graph"].nodes == 21


@pytest.mark.parametrize("weighting", ["uniform", "degree"])
def test_degrees_in_a_sample_are_those_of_a_mean_view(weighting):
    source = star()
    config = ViewConfig((0.4, 0.2), (0.0,), weighting, (0.1, 0.3))
    degrees = torch.zeros(2, 401)
    for epoch in range(200):
        drawn = views(source, config, epoch=epoch)
        degrees += torch.stack([source.samples.graph.degrees_of(edges) for edges in drawn["edges"]]) / 200
    found = sampled(source, list(range(401)), 1000, config=config)["degrees"]
    torch.testing.assert_close(found, degrees, rtol=0.15, atol=0)


def test_batch_norm_sees_only_nodes_whose_neighbours_are_in_the_sample():
    source = Nodes().open("citations")
    module = Nodes(width=8, batch_norm=True).fitted(source).encoder("gcn")[0]
    seen = []
    for norm in module.norm:
        norm.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    drawn = sampled(source, list(range(20)), 3)
    module(drawn)
    near = sampled(source, list(range(20)), 3, layers=1)["graph"].nodes
    assert seen == [near, 20] * 2 and near < drawn["graph"].nodes


def test_no_node_hears_from_more_neighbours_than_asked_for():
    source = star()
    graph = sampled(source, [0, 5, 9], 3, layers=1)["graph"]
    degrees = graph.edges.starts.diff()
    assert degrees.max() == 4 and graph.nodes < 401  # itself and three others
    first, again, later = (sampled(source, [0], 3, epoch=epoch)["graph"].tensors for epoch in (0, 0, 1))
    assert torch.equal(first["values"], again["values"]) and torch.equal(first["edge_columns"], again["edge_columns"])
    assert first["values"].shape != later["values"].shape or not torch.equal(
        first["attribute_columns"], later["attribute_columns"]
    )
