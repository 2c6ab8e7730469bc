"""Who may ask: this machine alone, or whoever has the token; no page of another site, in no way."""

import hashlib
import ipaddress
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_READING = frozenset({"GET", "HEAD"})
_LARGEST_BODY = 1_000_000  # bytes of a request that is no picture
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
    """Refuses requests before anything else sees them, and adds headers to every answer.

    Args:
        app: what to guard.
        host: the address the server listens on.
        token: what a visitor must show once; None on loopback.
        read_only: refuse everything that writes names.
    """

    def __init__(
        self, app: ASGIApp, host: str = "127.0.0.1", token: str | None = None, read_only: bool = False
    ) -> None:
        self.app, self.token, self.read_only = app, token, read_only
        # Ports share cookies: each page has a name of its own for its cookie.
        self.cookie = f"nonneg-{hashlib.sha256((token or '').encode()).hexdigest()[:8]}"
        # Not the token itself: other servers of this host name see a browser's cookies, too.
        self.visit = secrets.token_urlsafe(16)
        own = set() if is_loopback(host) else {socket.gethostname().lower(), socket.getfqdn().lower()}
        self.hosts = _LOCAL | {host.lower()} | own
        self.any_address = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, shown = Headers(scope=scope), None
        refusal = self._refusal(scope["method"], scope["path"], headers)
        if refusal is None and self.token is not None:
            shown = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN, [""])[0]
            if not (_same(shown, self.token) or _same(_cookie(headers, self.cookie), self.visit)):
                refusal = (401, "this page needs the address that was printed when it was started, with its token")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                answer.setdefault("Cache-Control", "no-store")
                if shown and refusal is None and _same(shown, str(self.token)):
                    answer.append("Set-Cookie", f"{self.cookie}={self.visit}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        if refusal is None:
            most = None if scope["path"].endswith("/encode") else _LARGEST_BODY
            await self.app(scope, receive if most is None else _limited(receive, most), send_guarded)
        else:
            status, sentence = refusal
            await JSONResponse({"detail": sentence}, status)(scope, receive, send_guarded)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return 421, "the request is for another host, expected the address that was printed"
        is_page = method in _READING and not path.startswith(("/api", "/media"))
        if not is_page and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "the request comes from another site, expected this page"
        if method in _READING:
            return None
        origin = headers.get("origin")
        if origin is not None and _split(origin) != host.lower():
            return 403, "the request comes from another site, expected this page"
        length = headers.get("content-length", "0")
        if not path.endswith("/encode") and (not length.isdigit() or int(length) > _LARGEST_BODY):
            return 413, f"the request is larger than {_LARGEST_BODY:,} bytes, expected a smaller one"
        if method in ("PUT", "DELETE", "PATCH") and self.read_only:
            return 403, "the page is read-only, expected it to be started without --read-only to change names"
        return None

    def _is_own(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:  # a bracket that is not closed
            return False
        if name in self.hosts:
            return True
        # Another site can make its own name lead here, but not an address of numbers.
        return self.any_address and _is_address(name)


def _same(shown: str | None, known: str) -> bool:
    return bool(shown) and secrets.compare_digest(str(shown).encode(), known.encode())


def _split(origin: str) -> str:
    """Host and port of an origin; empty if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _limited(receive: Receive, most: int) -> Receive:
    """Messages of a request up to so many bytes; what says no length, or a wrong one, ends there."""
    left = most

    async def receive_limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return receive_limited


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address.

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


def _cookie(headers: Headers, name: str) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value
