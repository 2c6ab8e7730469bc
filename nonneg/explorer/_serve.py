"""Start and stop the web page."""

import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvicorn

from nonneg.errors import InputError
from nonneg.explorer._explorer import Explorer
from nonneg.explorer._guard import TOKEN, is_loopback
from nonneg.explorer._open import open_explorer
from nonneg.explorer._server import build_app
from nonneg.features import Features, check_features

PORT = 8765
_print = partial(print, flush=True)  # also appears at once when written to a pipe


class Page:
    """A page served from a thread until it is closed or the process ends.

    Attributes:
        url: its address, including the token if one is required.

    Example:
        >>> import numpy as np, urllib.request
        >>> with Page(open_explorer([Features(np.eye(3, dtype=np.float32))]), port=0) as page:
        ...     urllib.request.urlopen(page.url).status
        200
    """

    def __init__(
        self, explorer: Explorer, host: str = "127.0.0.1", port: int | None = None, read_only: bool = False
    ) -> None:
        token = None if is_loopback(host) else secrets.token_urlsafe(16)
        self._socket = _listening(host, port)
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}/" + (f"?{TOKEN}={token}" if token else "")
        app = build_app(explorer, host=host, token=token, read_only=read_only)
        settings = uvicorn.Config(
            app,
            http="h11",  # limits the headers to 64 kB; httptools, where it is installed, does not
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        threading.Thread(target=explorer.prepare, args=(True,), daemon=True).start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def wait(self) -> None:
        """Block until the page is closed or the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop serving the page."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def explore(
    *features: str | Path | Features,
    host: str = "127.0.0.1",
    port: int | None = None,
    sentence_model: str | None = None,
    read_only: bool = False,
    browser: bool = True,
    block: bool = True,
    announce: Callable[[str], None] = _print,
) -> Page:
    """Show one or two sets of features on a web page.

    Args:
        *features: one or two features, features folders, runs with features beside them, or files of vectors.
        host: the address to listen on. If other machines can reach it, the printed address contains a token.
        port: the port to listen on; by default 8765, or any free port if that one is in use.
        sentence_model: the sentence-transformers model that made the vectors of a run of `nonneg convert`; required
            to try new texts on the page.
        read_only: do not allow names to be changed.
        browser: open the page in a browser if standard output is a terminal.
        block: wait until interrupted; pass False to continue, for example in a notebook.
        announce: function that receives the line with the address.
    """
    for each in features:
        check_features(each, paths=True)
    page = Page(open_explorer(features, sentence_model), host, port, read_only)
    announce(f"Exploring at {page.url}{' (stop with Ctrl-C)' if block else ''}")
    if browser and sys.stdout.isatty():
        webbrowser.open(page.url)
    if block:
        try:
            page.wait()
        except KeyboardInterrupt:
            page.close()
    return page


def _listening(host: str, port: int | None) -> socket.socket:
    if not host.strip():
        raise InputError(f"host is {host!r}, expected an address or a host name such as 127.0.0.1")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in (PORT, 0) if port is None else (port,):
        # With the protocol left at 0, asyncio does not disable Nagle's algorithm, which delays small answers.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, tried))
            listening.listen(256)
            return listening
        except (OSError, OverflowError, ValueError) as error:
            listening.close()
            if port is not None or not tried:
                reason = getattr(error, "strerror", None) or str(error)
                raise InputError(f"cannot listen on host {host}, port {tried}: {reason.lower()}") from error
    raise AssertionError("unreachable: port 0 stands for any free port")
