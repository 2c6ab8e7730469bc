"""The commands `nonneg explore` and `nonneg export`."""

import os
import signal
import socket
import subprocess
import sys

import httpx
import numpy as np
import pytest

from nonneg import Features, explore

NONNEG = [sys.executable, "-m", "nonneg"]


@pytest.fixture
def folder(tmp_path):
    return Features(np.eye(5, dtype=np.float32), labels=[0, 1, 0, 1, 0]).save(tmp_path / "a.features")


def test_explore_serves_until_interrupted(folder):
    command = [*NONNEG, "explore", str(folder), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("Exploring at http://127.0.0.1:")
        assert httpx.get(line.split()[2]).status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


def test_an_interrupted_upload_leaves_no_traceback(folder):
    command = [*NONNEG, "explore", str(folder), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[2]
        port = int(address.rsplit(":", 1)[1].strip("/"))
        with socket.create_connection(("127.0.0.1", port)) as visitor:
            visitor.sendall(b"POST /api/sets/0/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf")
            assert httpx.get(address).status_code == 200
        assert httpx.get(address).status_code == 200
    finally:
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == ""


def test_opening_a_page_does_not_import_torch(folder):
    program = (
        "import sys, nonneg.explorer as e; e.open_explorer(sys.argv[1:]).feature(0, 1); print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_export_writes_a_site(folder, tmp_path):
    command = [*NONNEG, "export", str(folder), str(tmp_path / "site"), "--beside", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.startswith(f"Exported: {tmp_path / 'site' / 'index.html'}, ")
    assert (tmp_path / "site/index.html").is_file() and (tmp_path / "site/data/comparison.json").is_file()


@pytest.mark.parametrize(
    "arguments",
    [["explore", "nowhere"], ["explore"], ["export", "nowhere", "site"], ["explore", "a.npy", "--host", ""]],
)
def test_bad_input_exits_with_code_2_and_one_sentence(arguments, tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3, dtype=np.float32))
    result = subprocess.run([*NONNEG, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2 and "Traceback" not in result.stderr


def test_explore_returns_a_page_that_can_be_closed(folder):
    lines = []
    page = explore(folder, port=0, block=False, announce=lines.append)
    assert lines == [f"Exploring at {page.url}"] and httpx.get(page.url).status_code == 200
    page.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.url)
