"""What kind of image some bytes are: what they begin with says so, whatever they are called."""

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
SIGNED = 12  # bytes that are looked at


def content_type(content: bytes | None) -> str | None:
    """The type to serve an image as; None for anything that is none.

    Example:
        >>> content_type(bytes([0xFF, 0xD8, 0xFF, 0xE0])), content_type(b"<svg onload=alert(1)>")
        ('image/jpeg', None)
    """
    if not content:
        return None
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES.items() if content.startswith(start)), None)
