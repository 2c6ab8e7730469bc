"""What people see: a node by its neighbourhood, drawn, and its attributes as words; a whole graph by a drawing."""

import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nonneg.extras import needs_extra
from nonneg.modalities.graphs._graph import Graph, GraphNodes

with needs_extra("images", "a picture of a graph"):
    from PIL import Image, ImageDraw

_SIDE, _SCALE = 160, 2  # pixels; drawn larger and reduced, which smooths lines
_MOST_NEIGHBOURS = 24
_MOST_WORDS = 40
_MOST_NODES, _LAYOUT_STEPS = 100, 60
_NO_LABEL = (150, 150, 150)
# Okabe and Ito's colours, for colour-blind readers.
_COLOURS = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66))


def colour_of(number: int) -> tuple[int, int, int]:
    """Return the colour of a class: one of seven, then the same seven darker, and then lighter; 21 in all.

    Example:
        >>> colour_of(0), colour_of(7), colour_of(14)
        ((0, 114, 178), (0, 57, 89), (127, 184, 216))
    """
    red, green, blue = _COLOURS[number % len(_COLOURS)]
    towards = (None, 0, 255)[number // len(_COLOURS) % 3]  # black or white
    return (
        (red, green, blue) if towards is None else ((red + towards) // 2, (green + towards) // 2, (blue + towards) // 2)
    )


class Drawer:
    """Draws neighbourhoods: a node in the centre, its neighbours around it, and the edges between all of them.

    Args:
        samples: the nodes; their labels decide the colours.
    """

    def __init__(self, samples: GraphNodes) -> None:
        self.labels, self.names = samples.labels, samples.names
        edges, attributes = samples.graph.edges, samples.graph.attributes
        self.starts, self.columns = edges.starts.numpy(), edges.columns.numpy()
        self.values = samples.graph.tensors["values"].numpy()
        self.attributes = None if attributes is None else (attributes.starts.numpy(), attributes.columns.numpy())

    def picture(self, node: int) -> bytes:
        """Return a PNG of a node's neighbourhood; of many neighbours, the first ones are drawn."""
        linked = self._linked(node)[: _MOST_NEIGHBOURS + 1].tolist()  # with itself, if it is among the first ones
        near = [other for other in linked if other != node][:_MOST_NEIGHBOURS]
        place = {node: (0.5, 0.5)}
        for number, other in enumerate(near):
            angle = 2 * math.pi * number / len(near) - math.pi / 2
            place[other] = (0.5 + 0.4 * math.cos(angle), 0.5 + 0.4 * math.sin(angle))
        side = _SIDE * _SCALE
        image = Image.new("RGB", (side, side), "white")
        draw = ImageDraw.Draw(image)
        for first, second in self._edges_within(place):
            ends = [(x * side, y * side) for x, y in (place[first], place[second])]
            draw.line(ends, fill=(170, 170, 170), width=_SCALE)
        for other in (*near, node):
            x, y = (share * side for share in place[other])
            radius = side * (0.09 if other == node else 0.045)
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=self._colour(other), outline="black")
        return _png(image)

    def words(self, node: int) -> str:
        """Return the names of a node's largest attributes; commas say that neighbours form no phrase."""
        if self.attributes is None:
            columns, values = np.arange(self.values.shape[1]), self.values[node]
        else:
            starts, columns = self.attributes
            part = slice(starts[node], starts[node + 1])
            columns, values = columns[part], self.values[part]
        largest = np.argsort(-values, kind="stable")[:_MOST_WORDS]
        return ", ".join(self.names[columns[place]] for place in largest if values[place] > 0)

    def _linked(self, node: int) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = self.columns[self.starts[node] : self.starts[node + 1]]
        return found

    def _edges_within(self, nodes: dict[int, tuple[float, float]]) -> Iterator[tuple[int, int]]:
        members = np.array(sorted(nodes))
        for node in nodes:
            linked = self._linked(node)  # sorted, too, and much longer if the node is a hub
            place = np.searchsorted(linked, members).clip(max=len(linked) - 1)
            yield from ((node, other) for other in members[linked[place] == members].tolist() if other != node)

    def _colour(self, node: int) -> tuple[int, int, int]:
        if self.labels is None or self.labels[node] < 0:
            return _NO_LABEL
        return colour_of(int(self.labels[node]))


def drawn_graph(graph: Graph) -> bytes:
    """Return a PNG of a small graph with dense attributes; of many nodes, the first ones are drawn.

    Linked nodes attract and all nodes repel each other (Fruchterman and Reingold, 1991), always with the same result.
    """
    count = min(graph.nodes, _MOST_NODES)
    rows, columns = graph.edges.rows.numpy(), graph.edges.columns.numpy()
    linked = (rows < count) & (columns < count) & (rows != columns)
    ends = np.stack((rows[linked], columns[linked]))
    place = 0.06 + 0.88 * _places(count, ends)
    side = _SIDE * _SCALE
    image = Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(image)
    for first, second in ends.T.tolist():
        draw.line([tuple(side * place[first]), tuple(side * place[second])], fill=(170, 170, 170), width=_SCALE)
    kinds = graph.tensors["values"].argmax(1).tolist()
    radius = side * max(0.012, min(0.05, 0.5 / count))
    for node in range(count):
        x, y = (side * place[node]).tolist()
        colour = colour_of(kinds[node])
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour, outline="black")
    return _png(image)


def _places(count: int, ends: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return places `(nodes, 2)` between 0 and 1."""
    linked = np.zeros((count, count))
    linked[ends[0], ends[1]] = linked[ends[1], ends[0]] = 1
    # The start: the two smoothest vectors over the graph, along which linked nodes lie near each other.
    place = np.zeros((count, 2))
    smooth = np.linalg.eigh(np.diag(linked.sum(1)) - linked)[1][:, 1:3]
    place[:, : smooth.shape[1]] = smooth
    place += 0.01 * np.random.default_rng(0).normal(size=place.shape)  # equal nodes could not repel each other
    distance = 1 / np.sqrt(count)
    for step in np.linspace(0.1, 0.005, _LAYOUT_STEPS):
        apart = place[:, None] - place
        length = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = (apart * (distance**2 / length**2 - linked * length / distance)[..., None]).sum(1)
        force -= 0.5 * place  # parts that are not linked stay in the picture
        size = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        place = place + force / size * np.minimum(size, step)
    place -= place.min(0)
    place /= max(float(place.max()), 1e-9)
    result: npt.NDArray[np.float64] = place + (1 - place.max(0)) / 2  # in the middle
    return result


def _png(image: Image.Image) -> bytes:
    stored = io.BytesIO()
    image.reduce(_SCALE).quantize(64, Image.Quantize.FASTOCTREE).save(stored, "PNG")
    return stored.getvalue()
