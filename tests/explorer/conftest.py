"""Features to explore, servers and a browser that may only contact those servers."""

import dataclasses
import io
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from nonneg import Features, load, train
from nonneg.explorer import Page, open_explorer
from nonneg.modalities.images import open_source
from nonneg.training import load_recipe

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = (
    "<script>document.title='taken'</script>",
    "<img src=x onerror=document.title='taken'>",
    "../../etc/passwd",
    "long " * 2000,
    "‮right to left‬",
    "🦊 ﷽ مرحبا",
    "'\"&amp;</title><!--</script><script>document.title='taken'</script>",
)


def picture(value: int) -> bytes:
    """A PNG image whose brightness is the sample's row."""
    buffer = io.BytesIO()
    Image.fromarray(np.full((4, 4), value % 256, np.uint8)).save(buffer, "png")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """Briefly trained runs `cl` and `ncl`, with their features beside them."""
    out = tmp_path_factory.mktemp("digits") / "demo"
    config = dataclasses.replace(load_recipe("digits"), epochs=4, warmup_epochs=1)
    for name, rectify in (("cl", "none"), ("ncl", "relu")):
        run = train(dataclasses.replace(config, rectify=rectify), out / name)
        load(run).embed(open_source("digits", "test")).save(out / f"{name}.features")
    return out


@pytest.fixture
def own_digits(digits, tmp_path) -> Path:
    """A copy of the runs that a test may change."""
    return Path(shutil.copytree(digits, tmp_path / "demo"))


@pytest.fixture
def hostile(tmp_path) -> Path:
    """Texts, labels, ids and names that are harmful if they are interpreted as markup, paths or layout."""
    rows = 70
    generator = np.random.default_rng(0)
    codes = sp.random_array((rows, 12), density=0.3, format="csr", rng=generator, dtype=np.float32)
    features = Features(
        codes,
        ids=[f"{HOSTILE[row % 7]}{row}" for row in range(rows)],
        labels=np.arange(rows) % 7,
        label_names=HOSTILE,
        texts=[f"{HOSTILE[(row + 1) % 7]}\u2028{row}" for row in range(rows)],
        names=dict(enumerate(HOSTILE)),
    )
    return features.save(tmp_path / "hostile.features")


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start a server for features, folders or runs and return its address."""
    pages: list[Page] = []

    def start(*given, **options) -> str:
        pages.append(Page(open_explorer(given), port=0, **options))
        return pages[-1].url.rstrip("/")

    yield start
    for page in pages:
        page.close()


@pytest.fixture
def client(serve) -> Iterator[Callable[..., httpx.Client]]:
    """Start a server for features, folders or runs and return a client."""
    clients: list[httpx.Client] = []

    def connect(*given, **options) -> httpx.Client:
        clients.append(httpx.Client(base_url=serve(*given, **options).split("?")[0]))
        return clients[-1]

    yield connect
    for each in clients:
        each.close()


@pytest.fixture(scope="session")
def chromium():
    """A headless browser."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def settled(page) -> None:
    """Wait until a page has its heading, all strips of samples and its first image."""
    drawn = """() => !document.querySelector('main[aria-busy]') && document.querySelector('main h1')
        && [...document.querySelectorAll('.strip')].every((strip) => strip.children.length)
        && document.querySelector('main img')?.naturalWidth !== 0"""
    # The page's content security policy forbids wait_for_function.
    for _ in range(1000):
        if page.evaluate(drawn):
            return
        time.sleep(0.02)
    raise AssertionError(f"{page.url} was not complete within 20 seconds")


@pytest.fixture
def visit(chromium):
    """Open pages in tabs; fail if a request leaves this machine or a script raises an error."""
    opened, requests, errors = [], [], []

    def tab(address: str, **options):
        context = chromium.new_context(**options)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        opened.append(context)
        page.goto(address)
        page.locator("main h1").wait_for()
        return page

    yield tab
    for context in opened:
        context.close()
    elsewhere = {url for url in requests if urlsplit(url).scheme == "http" and urlsplit(url).hostname != "127.0.0.1"}
    assert not elsewhere and not errors


@pytest.fixture
def ncl(own_digits):
    return own_digits / "ncl.features"


def most_active(folder: Path) -> int:
    """The feature with the largest expected activation."""
    return int(Features.load(folder).expected_activation.argmax())


@pytest.fixture
def folder(tmp_path):
    codes = np.random.default_rng(0).random((30, 4), np.float32)
    return Features(codes, media=[picture(row) for row in range(30)]).save(tmp_path / "a.features")
