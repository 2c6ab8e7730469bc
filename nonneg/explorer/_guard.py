"""Access control: only this machine or holders of the token may ask, and cross-site requests are rejected."""

import hashlib
import ipaddress
import secrets
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_READING = frozenset({"GET", "HEAD"})
_MAX_BODY = 1_000_000  # bytes of a request that is not an image
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Middleware that rejects unwanted requests before the application and adds security headers to every answer.

    Args:
        app: the application to protect.
        host: the address that the server listens on.
        token: the token that a visitor must present once, or None on loopback.
        read_only: reject all changes of names.
    """

    def __init__(
        self, app: ASGIApp, host: str = "127.0.0.1", token: str | None = None, read_only: bool = False
    ) -> None:
        self.app, self.token, self.read_only = app, token, read_only
        # Cookies are shared between ports, so each page gives its cookie a name of its own.
        self.cookie = f"nonneg-{hashlib.sha256((token or '').encode()).hexdigest()[:8]}"
        # Not the token itself, because other servers on this host name receive the cookie as well.
        self.session = secrets.token_urlsafe(16)
        own = set() if is_loopback(host) else {socket.gethostname().lower(), socket.getfqdn().lower()}
        self.hosts = _LOCAL | {host.lower()} | own
        self.any_address = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visitor, presented = HTTPConnection(scope), None
        rejection = self._rejection(scope["method"], scope["path"], visitor.headers)
        if rejection is None and self.token is not None:
            presented = visitor.query_params.get(TOKEN)
            if not (_equal(presented, self.token) or _equal(visitor.cookies.get(self.cookie), self.session)):
                rejection = (401, "the token is missing, expected the address that was printed at the start")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                answer.setdefault("Cache-Control", "no-store")
                if presented and rejection is None and _equal(presented, str(self.token)):
                    answer.append("Set-Cookie", f"{self.cookie}={self.session}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        if rejection is None:
            limit = None if scope["path"].endswith("/encode") else _MAX_BODY
            await self.app(scope, receive if limit is None else _limited(receive, limit), send_guarded)
        else:
            status, sentence = rejection
            await JSONResponse({"detail": sentence}, status)(scope, receive, send_guarded)

    def _rejection(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return 421, "the request names another host, expected the address that was printed at the start"
        if not is_page(method, path) and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "the request comes from another site, expected one from this page"
        if method in _READING:
            return None
        origin = headers.get("origin")
        if origin is not None and _origin_host(origin) != host.lower():
            return 403, "the request comes from another site, expected one from this page"
        length = headers.get("content-length", "0")
        if not path.endswith("/encode") and (not length.isdigit() or int(length) > _MAX_BODY):
            return 413, f"the request has more than {_MAX_BODY:,} bytes, expected a smaller one"
        if method in ("PUT", "DELETE", "PATCH") and self.read_only:
            return 403, "the page is read-only; restart it without --read-only to change names"
        return None

    def _is_own(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:  # such as an unclosed bracket
            return False
        if name in self.hosts:
            return True
        # Another site can point its own host name at this server, but not a numeric address.
        return self.any_address and _is_address(name)


def is_page(method: str, path: str) -> bool:
    """Whether a request is for a page or a file of it, to which other sites may link, and not for data."""
    return method in _READING and not path.startswith(("/api", "/media"))


def _equal(presented: str | None, known: str) -> bool:
    return bool(presented) and secrets.compare_digest(str(presented).encode(), known.encode())


def _origin_host(origin: str) -> str:
    """Host and port of an origin, or an empty string if it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _limited(receive: Receive, limit: int) -> Receive:
    """Cut a request off after `limit` bytes, whatever length its header states."""
    left = limit

    async def receive_limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return receive_limited


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Example:
        >>> is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, False)
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
