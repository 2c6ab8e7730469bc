"""What people see of a node: its neighbourhood, drawn, and its attributes as words."""

import io
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nonneg.extras import needs_extra
from nonneg.modalities.graphs._graph import GraphNodes

_SIDE, _SCALE = 96, 2  # pixels; drawn larger and reduced, which smooths lines
_MOST_NEIGHBOURS = 24
_MOST_WORDS = 40
_NO_LABEL = (150, 150, 150)
# Okabe and Ito's colours, for colour-blind readers.
_COLOURS = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66))


class Drawer:
    """Draws neighbourhoods: a node in the centre, its neighbours around it, and the edges between all of them.

    Args:
        samples: the nodes.
        labels: `(nodes,)`, which decide the colours, or None.
    """

    def __init__(self, samples: GraphNodes, labels: npt.NDArray[np.int64] | None) -> None:
        self.labels, self.names = labels, samples.attribute_names
        edges, attributes = samples.graph.edges, samples.graph.attributes
        self.starts, self.columns = edges.starts.numpy(), edges.columns.numpy()
        self.values = samples.graph.tensors["values"].numpy()
        self.attributes = None if attributes is None else (attributes.starts.numpy(), attributes.columns.numpy())

    def picture(self, node: int) -> bytes:
        """Return a PNG of a node's neighbourhood; of many neighbours, the first ones are drawn."""
        with needs_extra("images", "a picture"):
            from PIL import Image, ImageDraw

        near = [other for other in self._linked(node).tolist() if other != node][:_MOST_NEIGHBOURS]
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
        stored = io.BytesIO()
        image.resize((_SIDE, _SIDE), Image.Resampling.BOX).quantize(64).save(stored, "PNG")
        return stored.getvalue()

    def words(self, node: int) -> str:
        """Return the names of a node's largest attributes."""
        if self.attributes is None:
            columns, values = np.arange(self.values.shape[1]), self.values[node]
        else:
            starts, columns = self.attributes
            part = slice(starts[node], starts[node + 1])
            columns, values = columns[part], self.values[part]
        largest = np.argsort(-values, kind="stable")[:_MOST_WORDS]
        return " ".join(self.names[columns[place]] for place in largest if values[place] > 0)

    def _linked(self, node: int) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = self.columns[self.starts[node] : self.starts[node + 1]]
        return found

    def _edges_within(self, nodes: dict[int, tuple[float, float]]) -> Iterator[tuple[int, int]]:
        for node in nodes:
            yield from ((node, other) for other in self._linked(node).tolist() if other in nodes and other != node)

    def _colour(self, node: int) -> tuple[int, int, int]:
        if self.labels is None or self.labels[node] < 0:
            return _NO_LABEL
        return _COLOURS[int(self.labels[node]) % len(_COLOURS)]
