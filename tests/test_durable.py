import errno
import fcntl
import os
import subprocess
import sys
import threading

import pytest

from nonneg.durable import (
    atomic_writer,
    claim_folder,
    folder_lock,
    made_by,
    read_bounded,
    sealed,
    sync_folder,
    unsealed,
    write_atomically,
)
from nonneg.errors import InputError

MADE = {"made_by": "a test"}


def claim(folder, overwrite=False):
    return claim_folder(folder, "made.json", MADE, {"log", "model"}, overwrite)


def test_a_failed_write_leaves_the_old_content(tmp_path):
    write_atomically(tmp_path / "a", b"old")
    with pytest.raises(RuntimeError), atomic_writer(tmp_path / "a") as file:
        file.write(b"half of the new con")
        raise RuntimeError
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_earlier_results_are_removed_only_with_overwrite(tmp_path):
    folder = claim(tmp_path / "x")
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_text("old")
    (folder / "log").write_text("old")
    with pytest.raises(InputError, match="--overwrite"):
        claim(folder)
    assert (folder / "model" / "weights").read_text() == "old"
    claim(folder, overwrite=True)
    assert [path.name for path in folder.iterdir()] == ["made.json"]


@pytest.mark.parametrize("marker", ['{"made_by": "others"}', "{}", "[]", "{"])
def test_a_folder_made_by_another_program_is_left_alone(marker, tmp_path):
    (tmp_path / "made.json").write_text(marker)
    (tmp_path / "log").write_text("theirs")
    with pytest.raises(InputError, match="holds other files"):
        claim(tmp_path, overwrite=True)
    assert (tmp_path / "log").read_text() == "theirs"


def test_one_other_file_protects_the_whole_folder(tmp_path):
    claim(tmp_path / "x")
    (tmp_path / "x" / "thesis.tex").write_text("years of work")
    (tmp_path / "x" / "log").write_text("old")
    with pytest.raises(InputError, match=r"holds other files \(thesis\.tex\)"):
        claim(tmp_path / "x", overwrite=True)
    assert (tmp_path / "x" / "log").exists()


def test_a_link_to_the_folder_is_followed_and_links_inside_it_are_not(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years of work")
    folder = claim(tmp_path / "x")
    (folder / "model").symlink_to(tmp_path / "precious")
    (tmp_path / "link").symlink_to(folder)
    claim(tmp_path / "link", overwrite=True)
    assert not (folder / "model").exists()
    assert (tmp_path / "precious" / "thesis.tex").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("out", ["closed", "closed/inside", "n" * 300])
def test_a_folder_that_cannot_be_created_is_named_in_the_error(out, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    code = f"""
import os, pathlib
from nonneg.durable import claim_folder
from nonneg.errors import InputError
os.chdir({str(tmp_path)!r})
os.setuid(65534)
try:
    claim_folder(pathlib.Path({out!r}), "made.json", {{"made_by": "a test"}}, set(), False)
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"{out} cannot be written: " in done.stdout, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("check", ["nonneg.evaluate.require_table(place)", "nonneg.plots.check_plot(place, True)"])
def test_a_file_that_cannot_be_written_is_an_error_before_any_work(check, tmp_path):
    suffix = "png" if "plot" in check else "md"
    (tmp_path / f"folder.{suffix}").mkdir(mode=0o777)
    (tmp_path / "closed").mkdir(mode=0o755)
    tmp_path.chmod(0o777)
    code = f"""
import os, pathlib
import nonneg.evaluate, nonneg.plots
os.chdir({str(tmp_path)!r})
os.setuid(65534)
for name in ("folder", "closed/x", "missing/x"):
    place = pathlib.Path(name + ".{suffix}")
    try:
        {check}
    except nonneg.InputError as error:
        print(name, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["folder", "closed/x", "missing/x"], done.stderr


def test_a_folder_is_locked_for_one_writer_at_a_time(tmp_path):
    with folder_lock(tmp_path), pytest.raises(InputError, match=f"{tmp_path} is being written"):
        folder_lock(tmp_path).__enter__()
    with folder_lock(tmp_path):
        pass


def test_a_folder_on_a_file_system_without_locks_is_writable(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    with folder_lock(tmp_path / "out"):
        assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize(("function", "number"), [("open", errno.EACCES), ("fsync", errno.EINVAL)])
def test_a_folder_that_the_system_cannot_flush_is_left_alone(function, number, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fails)
    sync_folder(tmp_path)


def test_a_disk_that_fails_while_flushing_a_folder_is_reported(tmp_path, monkeypatch):
    def fails(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        sync_folder(tmp_path)


def test_of_several_writers_that_start_together_one_gets_the_folder(tmp_path):
    for attempt in range(30):
        folder, failures, writers = tmp_path / str(attempt), threading.Semaphore(0), []
        start, done = threading.Barrier(3), threading.Event()

        def write(folder=folder, failures=failures, writers=writers, start=start, done=done):
            start.wait()
            try:
                with folder_lock(folder):
                    writers.append(folder)
                    done.wait()
            except InputError:
                failures.release()

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        failed = [failures.acquire(timeout=2) for _ in range(2)]
        assert folder.exists()
        done.set()
        for thread in threads:
            thread.join()
        assert all(failed) and len(writers) == 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["nothing", "pipe", "device", "huge"])
def test_a_marker_that_is_no_regular_file_of_bounded_size_is_not_read(kind, tmp_path):
    marker = tmp_path / "made.json"
    if kind == "pipe":
        os.mkfifo(marker)
    elif kind == "device":
        marker.symlink_to("/dev/zero")
    elif kind == "huge":
        with marker.open("wb") as file:
            file.truncate(2**40)  # takes no space on disk
    assert made_by(marker) is None


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_an_error(name, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_bounded(tmp_path / name)
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / name, b"")
    with pytest.raises(InputError, match="cannot be written"), folder_lock(tmp_path / name):
        pass


@pytest.mark.parametrize("content", [{}, {"loss": 0.5, "device": "0123456789abcdef"}])
def test_a_damaged_checksum_or_a_damaged_name_of_it_is_an_error(content):
    good = sealed(content)
    assert unsealed(good) == content and unsealed(content) == content  # older files have none
    digest = good.pop("checksum")
    for name, value in (("ch0cksum", digest), ("checksum", digest.swapcase() + "0")):
        with pytest.raises(InputError, match="changed"):
            unsealed({**good, name: value})
