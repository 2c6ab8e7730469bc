import pytest

from tests.modalities.images.sources.pictures import pixels, write


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep tests away from the user's own cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NONNEG_CACHE", str(folder))
    return folder


@pytest.fixture
def many(tmp_path):
    """1,200 images, two of them broken."""
    for number in range(1200):
        write(tmp_path / "many" / "ab"[number % 2] / f"{number:04d}.png", pixels(number, 48, 48))
    for name in ("a/0100.png", "b/0777.png"):
        (tmp_path / "many" / name).write_bytes(b"broken")
    return tmp_path / "many"
