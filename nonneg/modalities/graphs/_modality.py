"""`Nodes`: the modality of the nodes of a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import Tensor, nn

from nonneg.codes import active
from nonneg.errors import InputError
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._random import uniform
from nonneg.modalities._source import Source, unwrapped
from nonneg.modalities._splits import require_train, unique_ids
from nonneg.modalities.graphs._apart import attributes_apart
from nonneg.modalities.graphs._cleaned import cleaned
from nonneg.modalities.graphs._encoders import build_encoder, check_encoder, own_encoder
from nonneg.modalities.graphs._graph import Graph, GraphNodes, check_attributes
from nonneg.modalities.graphs._memory import encoder_bytes, whole_bytes
from nonneg.modalities.graphs._preview import Drawer
from nonneg.modalities.graphs._raw import names_digest
from nonneg.modalities.graphs._sample import neighbourhoods
from nonneg.modalities.graphs._structural import STRUCTURAL_NAMES
from nonneg.modalities.graphs._views import SAMPLED, ViewConfig, draw_views, expected_degrees
from nonneg.modalities.graphs.sources import open_graph


@register
@dataclass(frozen=True)
class Nodes(Modality):
    """The nodes of one graph, which all of them share: an encoder sees the whole graph, whichever nodes are asked for.

    A view of the graph is a view of all of its nodes: edges are dropped and attributes masked.
    """

    name: ClassVar[str] = "nodes"
    kind: ClassVar[str] = "nodes"
    savings: ClassVar[str] = "set neighbours to a small number, or reduce batch_size or width"
    legend: ClassVar[str] = "A node and its neighbours, coloured by label (grey: none); below, its attributes."

    width: Annotated[int, Field(ge=1, le=2**16)] = 256
    """Width of every layer of the encoder, and of its output."""
    layers: Annotated[int, Field(ge=1, le=16)] = 2
    """Layers of the encoder: a node sees neighbours that are up to this many edges away."""
    undirected: bool = True
    """Let every edge lead both ways; otherwise only from its source to its target."""
    scaled: bool = True
    """Scale the attributes of a node to a mean square of 1, so that nodes with many of them do not outweigh others."""
    batch_norm: bool = False
    """Batch norm over all nodes in every layer of the encoder."""
    neighbours: Annotated[int, Field(ge=0)] = 0
    """Neighbours that a node hears from in each layer, drawn anew in every epoch of training, for graphs that are too
    large to be encoded as a whole; 0: all of them."""
    views: ViewConfig = field(default_factory=ViewConfig)
    """How far a view may differ from the graph."""
    attributes: Annotated[int, Field(ge=0)] = 0
    """Number of attributes of a node; 0: as in the data."""
    attribute_digest: str = ""
    """A hash of the attributes' names, by which other graphs are checked; empty: as in the data, or none."""

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        if isinstance(data, Source):
            if not isinstance(unwrapped(data.samples)[0], GraphNodes):
                raise InputError(f"{data.name} holds a {type(data.samples).__name__}, expected the nodes of a graph")
            return data
        raw = open_graph(data)
        require_train(split, raw.where)
        graph, notes = cleaned(raw, self.undirected)
        names = raw.attribute_names or (STRUCTURAL_NAMES if raw.attributes is None else ())
        samples = GraphNodes(graph, names_digest(names), names, raw.labels)
        check_attributes(samples, self.attributes, self.attribute_digest, raw.where)
        ids = unique_ids(raw.ids)
        factors, factor_names = ({name: both[i] for name, both in raw.factors.items()} for i in (0, 1))
        return Source(
            raw.name,
            samples,
            ids,
            raw.labels,
            raw.label_names,
            factors,  # type: ignore[arg-type]
            factor_names,  # type: ignore[arg-type]
            split=raw.split,
            notes=notes,
        )

    def fitted(self, source: Source) -> Self:
        samples, _ = unwrapped(source.samples)
        check_attributes(samples, self.attributes, self.attribute_digest, source.name)
        return replace(self, attributes=samples.graph.width, attribute_digest=samples.digest)

    def check_encoder(self, name: str) -> None:
        check_encoder(name)

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        sizes = max(1, self.attributes), self.width, self.layers, self.scaled, self.batch_norm
        return build_encoder(name, *sizes), self.width, {}

    def own_encoder(self, module: nn.Module) -> nn.Module:
        return own_encoder(module, self.scaled)

    def step_paths(self, encoder: str) -> tuple[str, ...]:
        # Products with sparse matrices are not compiled. Other encoders, and samplers, take edges of varying number.
        return ("record", "off") if encoder == "gcn" and not self.neighbours else ("off",)

    def encoder_bytes(self, source: Source, samples: int, views: int, encoder: str) -> float:
        graph: Graph = unwrapped(source.samples)[0].graph
        sizes = graph.nodes, len(graph.weights)
        network = graph.width, self.width, self.layers
        if not self.neighbours:
            return encoder_bytes(encoder, *sizes, *network, views)
        hops = [samples * self.neighbours**hop for hop in range(self.layers + 1)]
        nodes, inner = (min(sizes[0], sum(some)) for some in (hops, hops[:-1]))
        edges = min(sizes[1], inner * self.neighbours + nodes)
        # After training, features are calibrated on the whole graph.
        whole = whole_bytes(encoder, *sizes, graph.width, self.width)
        return max(encoder_bytes(encoder, nodes, edges, *network, views), whole)

    def draw_views(
        self, batch: dict[str, Any], samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> dict[str, Any]:
        graph, nodes = batch["graph"], batch["nodes"]
        if not self.neighbours:
            edges, attributes = draw_views(graph, self.views, seed, epoch, count)
            return {"nodes": nodes.repeat(count), "edges": edges, "attributes": attributes, "graph": graph}
        part, rows, every, sampled = neighbourhoods(
            graph, nodes, self.layers, self.neighbours, lambda edges: uniform(1, seed, epoch, edges, SAMPLED)[:, 0]
        )
        edges, attributes = draw_views(graph, self.views, seed, epoch, count, sampled)
        return {
            "nodes": rows.repeat(count),
            "edges": torch.where(edges > 0, part.weights, 0),
            "attributes": attributes,
            # Of nodes that are seen from one side, and not to depend on which nodes a batch has.
            "degrees": expected_degrees(graph, self.views, count)[:, every],
            "graph": part,
        }

    def inputs(self, batch: dict[str, Any]) -> dict[str, Any]:
        graph: Graph = batch["graph"]
        check_attributes(GraphNodes(graph), self.attributes, "", "the graph")
        attributes = torch.ones(1, graph.width, device=graph.weights.device)
        return {"nodes": batch["nodes"], "edges": graph.weights[None], "attributes": attributes, "graph": graph}

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        """Return a drawing of each node's neighbourhood, and the names of its attributes as words."""
        samples, nodes = unwrapped(source.samples)
        drawer = Drawer(samples)
        chosen = nodes[rows.start : rows.stop].tolist()
        return {
            "media": [drawer.picture(node) for node in chosen],
            "texts": [drawer.words(node) for node in chosen],
        }

    def feature_figures(self, source: Source, codes: Any) -> dict[str, dict[str, list[float]]]:
        """Return how well the nodes of each feature hang together: of the edges that reach them, the share that come
        from them.

        By chance, if edges came from anywhere, it would be the share of all edges that come from them.
        """
        samples, nodes = unwrapped(source.samples)
        edges = samples.graph.edges
        parts = np.ones(len(edges.columns), np.float32), edges.columns.numpy(), edges.starts.numpy()
        links = sp.csr_array(parts, shape=edges.shape)[nodes][:, nodes]
        is_active = active(codes).astype(np.float32)
        near = links @ is_active
        both = near.multiply(is_active) if sp.issparse(is_active) else near * is_active
        # Every node has an edge to itself, which says nothing.
        inside = np.asarray(both.sum(0) - is_active.sum(0), np.float64)
        reaching, leaving = ((np.asarray(links.sum(axis), np.float64) - 1) @ is_active for axis in (1, 0))
        share = np.divide(inside, reaching, out=np.zeros_like(reaching), where=reaching > 0)
        chance = leaving / max(1.0, links.sum() - len(nodes))
        return {"edges that stay inside": {"values": share.round(4).tolist(), "chance": chance.round(4).tolist()}}

    def feature_terms(self, source: Source, codes: Any) -> dict[str, list[list[tuple[str, float, float]]]]:
        """Return the attributes that set the nodes of each feature apart: those above their mean on more of its nodes.

        An attribute of 0 and 1 is above its mean where it is 1.
        """
        samples, nodes = unwrapped(source.samples)
        return {"attributes": attributes_apart(samples.graph, nodes, codes, samples.names)}

    def with_light_views(self) -> Self:
        """Use the graph itself: a probe sees what `embed` returns."""
        return replace(self, views=ViewConfig(drop_edges=(0.0,), mask_attributes=(0.0,)))
