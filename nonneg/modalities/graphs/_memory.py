"""How much memory a step on graphs takes: encoders of PyTorch Geometric need numbers, so no run on shapes can tell."""

# Bytes, measured with each encoder on graphs of 10,000 and 50,000 nodes; what is computed for the gradient is included.
_NODE, _EDGE, _KEPT_MESSAGE, _MESSAGE = 26, 240, 3, 4


def encoder_bytes(
    encoder: str, nodes: float, edges: float, attributes: int, width: int, layers: int, views: int
) -> float:
    """Return about how many bytes the views of a graph take in an encoder, with their gradient.

    Example:
        >>> round(encoder_bytes("gcn", 10_000, 810_000, 64, 64, 2, 2) / 1e6)  # 456 MB were measured
        455
    """
    taken = views * (_NODE * nodes * layers * width + _EDGE * edges)
    if encoder == "gat":  # the gradient of the attention needs all messages
        taken += views * _KEPT_MESSAGE * edges * layers * width
    return taken + whole_bytes(encoder, nodes, edges, attributes, width)


def whole_bytes(encoder: str, nodes: float, edges: float, attributes: int, width: int) -> float:
    """Return about how many bytes a graph takes in an encoder that is not trained, beside the graph itself.

    Only `gcn` neither makes sparse attributes dense nor keeps a message for each edge.
    """
    return 0 if encoder == "gcn" else 4.0 * nodes * attributes + _MESSAGE * edges * max(width, attributes)
