"""Decoding in separate processes: killed, in parallel, on a full disk, in little memory."""

import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nonneg.modalities.images import open_source
from nonneg.modalities.images.sources._build import Work, _decode_in_parallel
from tests.modalities.images.sources.pictures import class_folders, encoded, pack, pixels, write

HERE = Path(__file__).parent
OPEN = "\n".join(
    (
        "import sys",
        "from nonneg.modalities.images import open_source",
        "print(len(open_source(sys.argv[1], progress=False)))",
    )
)


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=True, **options
    ).stdout


def content(cache):
    """Return the files in the cache of one collection."""
    return {path.name: path.read_bytes() for path in cache.rglob("*") if path.suffix in (".npy", ".json")}


@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_after_kills_at_random_moments_the_cache_is_identical(tmp_path, many, kind):
    data = many if kind == "folder" else pack(tmp_path / "many.tar.gz", many, mode="w:gz")
    start = time.perf_counter()
    open_source(data, skip_broken=True, progress=False, cache=tmp_path / "undisturbed")
    seconds = time.perf_counter() - start
    killed, resumed = map(int, python(HERE / "decode_and_die.py", data, tmp_path / "killed", seconds).split())
    assert killed >= 3
    assert resumed >= 1
    assert content(tmp_path / "killed") == content(tmp_path / "undisturbed")
    assert not list((tmp_path / "killed").rglob(".nonneg-tmp-*"))


def test_the_cache_does_not_depend_on_the_number_of_cores(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    for number in range(40):  # large enough for several threads
        write(tmp_path / "d" / f"{number}.png", pixels(number, 256, 256))
    for name, used in (("one", cores[:1]), ("all", cores)):
        # Limits are set in the program: a preexec_fn would fork this process, which breaks gRPC's threads.
        program = f"import os; os.sched_setaffinity(0, {used}); {OPEN}"
        python("-c", program, tmp_path / "d", env=os.environ | {"NONNEG_CACHE": str(tmp_path / name)})
    assert content(tmp_path / "one") == content(tmp_path / "all")


def test_two_processes_can_open_the_same_data_at_once(many, cache):
    for broken in ("a/0100.png", "b/0777.png"):
        (many / broken).unlink()
    both = [subprocess.Popen([sys.executable, "-c", OPEN, many], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in both] == ["1198\n"] * 2
    np.testing.assert_array_equal(open_source(many).samples[5], pixels(10, 48, 48))


def test_a_process_waits_for_another_that_decodes_and_then_uses_its_cache(tmp_path, cache):
    data = class_folders(tmp_path / "d")
    images = Path(open_source(data).samples.filename)
    with images.open("r+b") as file:  # a mark that decoding again would remove
        file.seek(128)
        file.write(b"\x07" * 108)
    elsewhere = images.parent.rename(tmp_path / "not there yet")
    program = OPEN.replace("len(", "set(").replace("progress=False)", "progress=True).samples[0].ravel()")
    with (images.parents[1] / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, "-c", program, str(data)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert second.stderr.readline().startswith("waiting for another process")
        elsewhere.rename(images.parent)
    assert "7" in second.communicate(timeout=60)[0]


def test_a_full_disk_is_an_error_with_advice(tmp_path, many, cache):
    program = """
import resource, sys
from nonneg.modalities.images import open_source
from nonneg.errors import InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))  # bytes per file, like a quota
try:
    open_source(sys.argv[1], skip_broken=True, progress=False)
except InputError as error:
    print(error)
"""
    printed = python("-c", program, many)
    assert re.fullmatch(r".*cache .* cannot be written.*NONNEG_CACHE\n", printed)
    assert not list(cache.rglob("meta.json"))
    assert len(open_source(many, skip_broken=True, progress=False)) == 1198


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) for kind in ("folder", "parquet")] + ["tar"]
)
def test_memory_does_not_grow_with_the_data(tmp_path, kind):
    """300 MB of images are decoded in less than 120 MB."""
    data = tmp_path / "d"
    data.mkdir()
    flat = encoded(np.full((512, 512, 3), 77, np.uint8))
    for number in range(400):
        (data / f"{number}.png").write_bytes(flat)
    if kind == "tar":
        data = pack(tmp_path / "d.tar", data)
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"image": [flat] * 400}), tmp_path / "d.parquet")
        data = tmp_path / "d.parquet"
    program = """
import re, sys, threading, time
import pyarrow.parquet
from nonneg.modalities.images import open_source
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
most = before = anonymous()
def watch():
    global most
    while True:
        most = max(most, anonymous())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
source = open_source(sys.argv[1], progress=False)
print(source.samples.nbytes // 2**20, round(most - before))
"""
    held, grown = map(int, python("-c", program, data).split())
    assert held == 300
    assert grown < 120


def test_no_progress_bar_is_shown_outside_a_terminal(tmp_path):
    program = OPEN.replace("progress=False", "progress=True")
    run = subprocess.run(
        [sys.executable, "-c", program, str(class_folders(tmp_path / "d"))], capture_output=True, text=True, check=True
    )
    assert (run.stdout, run.stderr) == ("9\n", "")


def test_images_in_progress_stay_within_a_memory_limit_with_any_number_of_cores(monkeypatch):
    """Images of 32 MB each, on 64 cores, with a limit of 256 MB."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    read = done = most = 0

    def slow_image():
        image = Image.new("RGB", (6, 6))
        load = image.load
        image.load = lambda: time.sleep(0.01) or load()  # slow enough for 64 threads
        return image

    def images():
        nonlocal read, most
        for _ in range(100):
            read += 1
            most = max(most, read - done)
            yield slow_image()

    for results in _decode_in_parallel(images(), Work(shape=(4096, 2730, 3)), 0):
        done += len(results)
    assert done == 100
    assert 4 < most <= 10  # besides the 8, one is being read and one handed over
