import os
import subprocess
import sys
import textwrap

import pytest

from nonneg.locks import lock

# Makes fcntl unavailable, as on Windows, before nonneg is imported.
WITHOUT_FCNTL = "import fcntl as real, os, subprocess, sys, types; sys.modules['fcntl'] = None\n"

FAKE_MSVCRT = """
places = []
def locking(descriptor, mode, count):
    places.append(os.lseek(descriptor, 0, os.SEEK_CUR))
    try:
        real.flock(descriptor, real.LOCK_EX | real.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
"""

SAVE_AND_LOAD = """
import numpy as np
import nonneg.codes, nonneg.payload
from nonneg.features import Features, verify
features = Features(np.eye(3, dtype=np.float32), ids=list("abc"), names={1: "ears"})
features.save(sys.argv[1])
features.with_names({2: "tail"}).save(sys.argv[1], overwrite=True)
print(dict(verify(sys.argv[1]).names), dict(Features.load(sys.argv[1]).names))
"""


def run(program, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_lock_is_exclusive_until_its_file_is_closed(tmp_path):
    path = tmp_path / "x"
    path.touch()
    with path.open("ab") as second:
        with path.open("ab") as first:
            assert lock(first, wait=False)
            assert not lock(second, wait=False)
        assert lock(second, wait=False)


def test_an_open_folder_can_be_locked(tmp_path):
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert lock(first, wait=False)
    assert not lock(second, wait=False)
    os.close(first)
    assert lock(second, wait=False)
    os.close(second)


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_a_lock_ends_with_its_process(signal, tmp_path):
    (tmp_path / "x").touch()
    program = f"""
        import os, signal, sys
        from nonneg.locks import lock
        file = open(sys.argv[1], "ab")
        assert lock(file)
        os.kill(os.getpid(), signal.{signal})
    """
    assert run(program, tmp_path / "x").returncode < 0
    with (tmp_path / "x").open("ab") as file:
        assert lock(file, wait=False)


def test_waiting_for_a_lock_ends_when_the_other_process_releases_it(tmp_path):
    (tmp_path / "x").touch()
    program = """
        import sys
        from nonneg.locks import lock
        file = open(sys.argv[1], "ab")
        print(lock(file, wait=False), flush=True)
        print(lock(file), flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "x")]
    with (tmp_path / "x").open("ab") as file:
        assert lock(file)
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "False\n"
    assert other.communicate(timeout=60)[0] == "True\n"


@pytest.mark.parametrize("system", [WITHOUT_FCNTL, WITHOUT_FCNTL + FAKE_MSVCRT], ids=["no locks", "msvcrt"])
def test_features_are_saved_and_loaded_without_fcntl(system, tmp_path):
    done = run(system + SAVE_AND_LOAD, tmp_path / "x.features")
    assert done.stdout == "{1: 'ears', 2: 'tail'} {1: 'ears', 2: 'tail'}\n", done.stderr


def test_on_windows_a_byte_far_behind_the_content_is_locked_and_the_position_kept(tmp_path):
    program = """
        from pathlib import Path
        from nonneg.durable import folder_lock
        from nonneg.errors import InputError
        from nonneg.locks import lock
        folder = Path(sys.argv[1])
        (folder / "x").write_bytes(b"content")
        with (folder / "x").open("r+b") as first, (folder / "x").open("rb") as second:
            assert first.read(3) == b"con"
            print(lock(first), lock(second, wait=False), first.read(), min(places) > 10**9)
        try:
            with folder_lock(folder), folder_lock(folder):
                pass
        except InputError as error:
            print(error)
    """
    done = run(WITHOUT_FCNTL + FAKE_MSVCRT + textwrap.dedent(program), tmp_path)
    first, second = done.stdout.splitlines()
    assert first == "True False b'tent' True", done.stderr
    assert "is being written by another process" in second
