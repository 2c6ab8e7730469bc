"""`Graph`: nodes, edges and attributes as tensors; `GraphNodes`: its nodes as samples."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nonneg.errors import InputError
from nonneg.modalities._source import Shared
from nonneg.modalities.graphs._raw import names_digest
from nonneg.modalities.graphs._sparse import Pattern, product
from nonneg.modalities.graphs._structural import STRUCTURAL_NAMES

_MOST_DENSE = 2**29  # attributes of all nodes, which a GPU multiplies faster as a dense matrix of up to 2 GiB


class Graph(Shared):
    """A graph on a device. An edge is an entry (target, source) of its adjacency; every node has an edge to itself."""

    @cached_property
    def edges(self) -> Pattern:
        """The pattern of the adjacency, with an entry for every node itself."""
        return self._pattern("edge")

    @cached_property
    def attributes(self) -> Pattern | None:
        """The pattern of the attributes if they are sparse."""
        return self._pattern("attribute") if "attribute_starts" in self.tensors else None

    def edges_by_layer(self, layers: int) -> Sequence[Pattern]:
        """Return the edges of each layer of an encoder, from the nodes of the layer before to those of its own."""
        return (self.edges,) * layers

    def _pattern(self, kind: str) -> Pattern:
        return Pattern(*(self.tensors[f"{kind}_{part}"] for part in Pattern._fields))

    @property
    def weights(self) -> Tensor:
        """`(edges,)`, 1 for a node's edge to itself."""
        return self.tensors["weights"]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.edges.shape[0]

    @property
    def width(self) -> int:
        """The number of attributes."""
        return self.tensors["values"].shape[1] if self.attributes is None else self.attributes.shape[1]

    @cached_property
    def targets(self) -> Tensor:
        """`(edges,)` int64, the node that each edge leads to."""
        return self.edges.rows

    @cached_property
    def sources(self) -> Tensor:
        """`(edges,)` int64, the node that each edge comes from."""
        return self.edges.columns.long()

    @cached_property
    def is_loop(self) -> Tensor:
        """`(edges,)` booleans: which edges lead from a node to itself."""
        return self.targets == self.sources

    @cached_property
    def degrees(self) -> Tensor:
        """`(nodes,)`, the sum of the weights of the edges that lead to each node, with its edge to itself."""
        return self.degrees_of(self.weights)

    def degrees_of(self, weights: Tensor) -> Tensor:
        """Return the degrees `(nodes,)` for other weights of the edges."""
        return torch.segment_reduce(weights, "sum", offsets=self.edges.starts.long())

    @cached_property
    def expected(self) -> dict[tuple[Any, int], Tensor]:
        """The mean degree of each node over all views, by settings and number of the view; views fill it."""
        return {}

    @cached_property
    def odds(self) -> dict[str, tuple[Tensor, Tensor]]:
        """How many times as often as the mean each edge and each attribute is dropped, by weighting; views fill it."""
        return {}

    @cached_property
    def loops(self) -> Tensor:
        """`(nodes,)`, the edge of each node to itself."""
        return self.is_loop.nonzero()[:, 0]

    @cached_property
    def row_scales(self) -> Tensor:
        """`(nodes, 1)`, the factor that gives the attributes of a node a mean square of 1; 1 if all of them are 0."""
        squares = self._times(self.tensors["values"].square(), torch.ones(self.width, 1, device=self.weights.device))
        return torch.where(squares > 0, (self.width / squares).sqrt(), 1.0)

    def times_attributes(self, weight: Tensor) -> Tensor:
        """Return the product of the attributes `(nodes, attributes)` with a weight `(attributes, columns)`."""
        if weight.is_cuda and self.attributes is not None and self.nodes * self.width <= _MOST_DENSE:
            return self._dense.to(weight.dtype) @ weight
        return self._times(self.tensors["values"], weight)

    @cached_property
    def _dense(self) -> Tensor:
        return self.dense_attributes()

    def _times(self, values: Tensor, weight: Tensor) -> Tensor:
        if self.attributes is None:
            return values.to(weight.dtype) @ weight
        return product(self.attributes, values, weight)

    def dense_attributes(self) -> Tensor:
        """Return the attributes `(nodes, attributes)`."""
        values = self.tensors["values"]
        if self.attributes is None:
            return values
        dense = values.new_zeros(self.attributes.shape)
        dense[self.attributes.rows, self.attributes.columns.long()] = values
        return dense

    def attribute_use(self, central: Tensor) -> Tensor:
        """Return `(attributes,)`, the sum of the centralities `(nodes,)` of the nodes that have each attribute."""
        if self.attributes is None:
            return (self.tensors["values"] != 0).to(central.dtype).T @ central
        columns = self.attributes.columns.long()
        return central.new_zeros(self.width).index_add_(0, columns, central[self.attributes.rows])

    def centrality(self, kind: str) -> Tensor:
        """Return `(nodes,)`, the degree of each node or its PageRank."""
        return self.degrees if kind == "degree" else self.tensors["page_rank"]


class GraphNodes:
    """The samples of a graph: its nodes.

    Args:
        graph: the graph.
        digest: a hash of the names of its attributes; empty if they have none.
        attribute_names: their names, or empty.
        labels: `(nodes,)`, -1 for unlabelled nodes, or None; drawings use them, also those of nodes that are not asked
            for.
    """

    def __init__(
        self, graph: Graph, digest: str = "", attribute_names: tuple[str, ...] = (), labels: Any = None
    ) -> None:
        self.graph, self.digest, self.attribute_names, self.labels = graph, digest, attribute_names, labels

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes; numbers if they have none."""
        return self.attribute_names or tuple(f"attribute_{number}" for number in range(self.graph.width))

    def __len__(self) -> int:
        return self.graph.nodes

    def __getitem__(self, rows: Any) -> dict[str, Any]:
        return {"nodes": np.arange(len(self))[rows], "graph": self.graph}


def check_attributes(samples: Any, expected: int, digest: str, where: str) -> None:
    """Raise an error if a model cannot take the attributes of samples.

    Args:
        samples: `GraphNodes` or `WholeGraphs`.
        expected: the number of attributes that the model takes; 0: any.
        digest: a hash of their names; empty: any.
        where: what the error calls the samples.
    """
    found = samples.graph.width
    if expected and digest == names_digest(STRUCTURAL_NAMES) != samples.digest:
        raise InputError(
            f"{where} has {found:,} attributes, expected none: the model was trained on structural attributes, which"
            " nodes without attributes get"
        )
    if expected and found != expected:
        raise InputError(f"{where} has {found:,} attributes, expected {expected:,}, as in the model")
    if digest and samples.digest and samples.digest != digest:
        raise InputError(f"{where} has attributes of other names or in another order than the model's data")
