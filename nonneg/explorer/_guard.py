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
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'self'; form-action 'self';"
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
        self.hosts = _LOCAL if is_loopback(host) else _LOCAL | {host, socket.gethostname().lower()}
        self.any_address = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, shown = Headers(scope=scope), None
        refusal = self._refusal(scope["method"], headers)
        if refusal is None and self.token is not None:
            shown = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN, [""])[0]
            if not (self._fits(shown) or self._fits(_cookie(headers, self.cookie))):
                refusal = (401, "this page needs the address that was printed when it was started, with its token")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                answer.setdefault("Cache-Control", "no-store")
                if shown and refusal is None and self._fits(shown):
                    answer.append("Set-Cookie", f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        if refusal is None:
            await self.app(scope, receive, send_guarded)
        else:
            status, sentence = refusal
            await JSONResponse({"detail": sentence}, status)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return 421, "the request is for another host, expected the address that was printed"
        if method in _READING:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "the request comes from another site, expected this page"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, "the request comes from another site, expected this page"
        if method in ("PUT", "DELETE", "PATCH") and self.read_only:
            return 403, "the page is read-only, expected it to be started without --read-only to change names"
        return None

    def _is_own(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        if name in self.hosts:
            return True
        # Another site can make its own name lead here, but not an address of numbers.
        return self.any_address and _is_address(name)

    def _fits(self, shown: str | None) -> bool:
        return bool(shown) and secrets.compare_digest(str(shown).encode(), str(self.token).encode())


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
