"""The type of an encoded image, read from its first bytes."""

from base64 import b64encode

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def content_type(content: bytes | None) -> str | None:
    """Return the content type of an image that browsers can show, or None for anything else.

    Example:
        >>> content_type(bytes([0xFF, 0xD8, 0xFF, 0xE0])), content_type(b"<svg onload=alert(1)>")
        ('image/jpeg', None)
    """
    if not content:
        return None
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES.items() if content.startswith(start)), None)


def data_uri(content: bytes) -> str:
    """Return a URI that holds an encoded image, for a page."""
    return f"data:{content_type(content) or 'application/octet-stream'};base64,{b64encode(content).decode()}"
