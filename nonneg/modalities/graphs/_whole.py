"""`Graphs`: the modality of whole graphs, of which there are many."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from nonneg.errors import InputError
from nonneg.modalities._modality import Modality, register
from nonneg.modalities._source import Source, unwrapped
from nonneg.modalities._splits import require_train, unique_ids
from nonneg.modalities.graphs._block_views import GraphViewConfig, draw_view
from nonneg.modalities.graphs._blocks import BLOCKS, ManyGraphs, WholeGraphs, chosen_blocks
from nonneg.modalities.graphs._cleaned import cleaned
from nonneg.modalities.graphs._encoders import NodeViews, build_encoder, check_encoder, own_encoder
from nonneg.modalities.graphs._graph import Graph, check_attributes
from nonneg.modalities.graphs._memory import encoder_bytes
from nonneg.modalities.graphs._preview import drawn_graph
from nonneg.modalities.graphs._raw import names_digest
from nonneg.modalities.graphs._structural import STRUCTURAL_NAMES
from nonneg.modalities.graphs.sources import open_graphs, with_attributes


@register
@dataclass(frozen=True)
class Graphs(Modality):
    """Whole graphs, such as molecules. A graph's feature is pooled over its nodes."""

    name: ClassVar[str] = "graphs"
    kind: ClassVar[str] = "graphs"
    legend: ClassVar[str] = "A node's colour shows its largest attribute."

    width: Annotated[int, Field(ge=1, le=2**16)] = 128
    """Width of every layer of the encoder, and of its output."""
    layers: Annotated[int, Field(ge=1, le=16)] = 3
    """Layers of the encoder; the outputs of all of them are joined, except for gcn."""
    pooling: Literal["sum", "mean"] = "sum"
    """How the outputs of a graph's nodes become one."""
    undirected: bool = True
    """Let every edge lead both ways; otherwise only from its source to its target."""
    scaled: bool = False
    """Scale the attributes of a node to a mean square of 1."""
    batch_norm: bool = True
    """Batch norm over all nodes of a batch in every layer of the encoder."""
    views: GraphViewConfig = field(default_factory=GraphViewConfig)
    """How far a view may differ from a graph."""
    attributes: Annotated[int, Field(ge=0)] = 0
    """Number of attributes of a node; 0: as in the data."""
    attribute_digest: str = ""
    """A hash of the attributes' names, by which other graphs are checked; empty: as in the data, or none."""
    attribute_names: tuple[str, ...] = ()
    """The attributes' names, in whose order those of other graphs are brought; empty: as in the data, or none."""

    def open(
        self, data: Any, split: str = "train", *, skip_broken: bool | None = None, progress: bool = True
    ) -> Source:
        if isinstance(data, Source):
            if not isinstance(unwrapped(data.samples)[0], WholeGraphs):
                raise InputError(f"{data.name} holds a {type(data.samples).__name__}, expected whole graphs")
            return data
        raw = open_graphs(data)
        require_train(split, raw.where)
        is_structural = self.attribute_names == STRUCTURAL_NAMES
        union = with_attributes(raw.union, () if is_structural else self.attribute_names)
        graph, notes = cleaned(union, self.undirected)
        starts = torch.from_numpy(np.concatenate(([0], np.cumsum(raw.sizes))))
        every = ManyGraphs({**graph.tensors, BLOCKS: starts})
        names = STRUCTURAL_NAMES if union.attributes is None else union.attribute_names
        samples = WholeGraphs(every, names_digest(names), names)
        check_attributes(samples, self.attributes, self.attribute_digest, raw.where)
        size = f"{raw.union.nodes:,} nodes in all, {raw.sizes.min():,} to {raw.sizes.max():,} per graph"
        ids = unique_ids(raw.ids or map(str, range(len(raw.sizes))))
        return Source(raw.name, samples, ids, raw.labels, raw.label_names, notes=(size, *notes))

    def fitted(self, source: Source) -> Self:
        samples, _ = unwrapped(source.samples)
        check_attributes(samples, self.attributes, self.attribute_digest, source.name)
        known = {"attribute_digest": samples.digest, "attribute_names": samples.attribute_names}
        return replace(self, attributes=samples.graph.width, **known)

    def check_encoder(self, name: str) -> None:
        check_encoder(name)

    def encoder(self, name: str, saved: Mapping[str, Any] | None = None) -> tuple[nn.Module, int, dict[str, Any]]:
        sizes = max(1, self.attributes), self.width, self.layers, self.scaled, self.batch_norm
        return Pooled(build_encoder(name, *sizes, joined=True), self.pooling), self.width, {}

    def own_encoder(self, module: nn.Module) -> nn.Module:
        encoder = own_encoder(module, self.scaled)
        return Pooled(encoder, self.pooling) if isinstance(encoder, NodeViews) else encoder

    def step_paths(self, encoder: str) -> tuple[str, ...]:
        return ("off",)  # batches of graphs differ in size

    def encoder_bytes(self, source: Source, samples: int, views: int, encoder: str) -> float:
        collection = unwrapped(source.samples)[0]
        graph, share = collection.graph, samples / len(collection)
        sizes = share * graph.nodes, share * len(graph.weights)
        return encoder_bytes(encoder, *sizes, graph.width, self.width, self.layers, views)

    def draw_views(
        self, batch: dict[str, Any], samples: Tensor, seed: int, epoch: Tensor | int, count: int, dtype: torch.dtype
    ) -> dict[str, Any]:
        blocks = chosen_blocks(batch["graph"], batch["graphs"])
        views = [(*draw_view(blocks, self.views, seed, epoch, view), blocks.owner) for view in range(count)]
        return {"views": tuple(views), "sizes": blocks.sizes}

    def inputs(self, batch: dict[str, Any]) -> dict[str, Any]:
        check_attributes(WholeGraphs(batch["graph"]), self.attributes, "", "the data")
        blocks = chosen_blocks(batch["graph"], batch["graphs"])
        graph, every = blocks.graph, torch.ones_like(blocks.owner, dtype=torch.bool)
        return {"views": ((graph, graph.weights, every, blocks.owner),), "sizes": blocks.sizes}

    def preview(self, source: Source, rows: range) -> dict[str, Any]:
        """Return a drawing of each graph; a node's colour shows its largest attribute."""
        samples, numbers = unwrapped(source.samples)
        chosen = numbers[rows.start : rows.stop].tolist()
        blocks = (chosen_blocks(samples.graph, torch.tensor([row])).graph for row in chosen)
        return {"media": [drawn_graph(graph) for graph in blocks]}

    def with_light_views(self) -> Self:
        """Use the graphs themselves: a probe sees what `embed` returns."""
        return replace(self, views=GraphViewConfig((0.0,), (0.0,), (0.0,), (0.0,)))


class Pooled(nn.Module):
    """Takes views of graphs and returns one row per graph and view: the sum or mean over its nodes.

    Args:
        nodes: an encoder of nodes.
        pooling: "sum" or "mean".
    """

    def __init__(self, nodes: NodeViews, pooling: str) -> None:
        super().__init__()
        self.nodes, self.pooling = nodes, pooling

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        return torch.cat([self._pooled(len(inputs["sizes"]), *view) for view in inputs["views"]])

    def _pooled(self, graphs: int, graph: Graph, weights: Tensor, kept: Tensor, owner: Tensor) -> Tensor:
        h = self.nodes.of_view(graph, weights, torch.ones(graph.width, device=weights.device))
        sums = h.new_zeros(graphs, h.shape[1]).index_add(0, owner, h * kept[:, None].to(h.dtype))
        if self.pooling == "sum":
            return sums
        return sums / h.new_zeros(graphs).index_add_(0, owner, kept.to(h.dtype))[:, None]
