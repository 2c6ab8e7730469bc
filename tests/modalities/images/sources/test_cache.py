"""The cache of decoded images: where it is, when images are decoded again, damaged and unfinished caches."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import open_source
from tests.modalities.images.sources.pictures import assert_same, class_folders, pack, pixels, write


def decoded_at(source):
    return Path(source.samples.filename).stat().st_mtime_ns


def test_a_changed_pixel_in_the_cache_is_decoded_again(tmp_path):
    first = open_source(class_folders(tmp_path / "d"))
    path, pixels = Path(first.samples.filename), np.array(first.samples)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    np.testing.assert_array_equal(open_source(tmp_path / "d").samples, pixels)


def test_a_second_opening_decodes_nothing(tmp_path):
    first = open_source(class_folders(tmp_path / "d"))
    again = open_source(tmp_path / "d")
    assert_same(first, again)
    assert decoded_at(first) == decoded_at(again)


def test_the_cache_folder_is_the_argument_the_variable_or_the_users_cache(tmp_path, monkeypatch):
    data = class_folders(tmp_path / "d")
    assert tmp_path / "chosen" in Path(open_source(data, cache=tmp_path / "chosen").samples.filename).parents
    assert tmp_path / "cache" in Path(open_source(data).samples.filename).parents
    monkeypatch.delenv("NONNEG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert tmp_path / "xdg" / "nonneg" in Path(open_source(data).samples.filename).parents
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert tmp_path / "home" / ".cache" / "nonneg" in Path(open_source(data).samples.filename).parents


def test_a_changed_file_is_decoded_again(tmp_path):
    data = class_folders(tmp_path / "d")
    open_source(data)
    write(data / "train" / "cat" / "000.png", pixels(500))
    np.testing.assert_array_equal(open_source(data).samples[0], pixels(500))


def test_a_file_with_another_time_but_the_same_size_is_decoded_again(tmp_path):
    data = class_folders(tmp_path / "d")
    before = decoded_at(open_source(data))
    os.utime(data / "train" / "cat" / "000.png", (1, 1))
    assert decoded_at(open_source(data)) != before


def test_added_removed_and_renamed_files_are_noticed(tmp_path):
    data = class_folders(tmp_path / "d")
    assert len(open_source(data)) == 9
    write(data / "train" / "cat" / "900.png", pixels(900))
    assert len(open_source(data)) == 10
    (data / "train" / "cat" / "900.png").unlink()
    assert len(open_source(data)) == 9
    (data / "train" / "cat").rename(data / "train" / "lion")
    assert open_source(data).label_names == ("cat", "dog", "lion", "owl")  # cat is still in test


def test_a_changed_tar_is_decoded_again(tmp_path):
    data = class_folders(tmp_path / "d")
    open_source(pack(tmp_path / "d.tar", data))
    write(data / "train" / "cat" / "000.png", pixels(500, 6, 6))
    source = open_source(pack(tmp_path / "d.tar", data))
    np.testing.assert_array_equal(source.samples[source.ids.index("train/cat/000.png")], pixels(500))


def test_only_the_cache_of_the_earlier_content_is_removed(tmp_path, cache):
    data = class_folders(tmp_path / "d")
    open_source(data, "train")
    open_source(data, "test")
    open_source(data, "train", image_size=4)
    write(data / "train" / "cat" / "900.png", pixels(900))
    open_source(data, "train")
    lengths = sorted(np.load(path, mmap_mode="r").shape for path in cache.rglob("images.npy"))
    assert lengths == [(9, 4, 4, 3), (9, 6, 6, 3), (10, 6, 6, 3)]


def test_an_open_memory_map_outlives_its_cache(tmp_path):
    data = class_folders(tmp_path / "d")
    source = open_source(data)
    write(data / "train" / "cat" / "000.png", pixels(500))
    open_source(data)
    np.testing.assert_array_equal(source.samples[0], pixels(0))


@pytest.mark.parametrize("name", ["images.npy", "samples.json", "meta.json"])
@pytest.mark.parametrize("damage", ["truncated", "removed", "overwritten"])
def test_a_damaged_cache_is_built_again(tmp_path, cache, name, damage):
    data = class_folders(tmp_path / "d")
    before = open_source(data)
    before = replace(before, samples=np.array(before.samples))
    [path] = cache.rglob(name)
    if damage == "removed":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.write_bytes(b"x" * path.stat().st_size)
    assert_same(open_source(data), before)


def test_work_that_failed_for_broken_images_is_continued_with_skip_broken(many, cache):
    with pytest.raises(InputError, match="2 of 1,200 images"):
        open_source(many, progress=False)
    [images] = cache.rglob("images.npy")
    decoded = images.stat().st_ino
    assert len(open_source(many, skip_broken=True, progress=False)) == 1198
    assert images.stat().st_ino == decoded


def test_interrupted_work_is_continued(tmp_path, cache):
    """A mark in the unfinished work is still there at the end."""
    data = tmp_path / "d"
    for number in range(200):
        write(data / f"{number:03d}.png", pixels(number))
    (data / "100.png").write_bytes(b"")
    with pytest.raises(InputError, match="1 of 200"):
        open_source(data)
    [images] = cache.rglob("images.npy")
    with images.open("r+b") as file:
        file.seek(128)
        file.write(b"\x07" * 108)
    assert (open_source(data, skip_broken=True).samples[0] == 7).all()


@pytest.mark.parametrize("name", ["images.npy", "progress.json"])
def test_damaged_unfinished_work_starts_again(tmp_path, cache, name):
    for number in range(5):
        write(tmp_path / "d" / f"{number}.png", pixels(number))
    (tmp_path / "d" / "3.png").write_bytes(b"")
    with pytest.raises(InputError, match="1 of 5"):
        open_source(tmp_path / "d")
    [path] = cache.rglob(name)
    path.write_bytes(path.read_bytes()[:-20])
    source = open_source(tmp_path / "d", skip_broken=True)
    np.testing.assert_array_equal(source.samples, [pixels(number) for number in (0, 1, 2, 4)])


def test_a_read_only_cache_can_be_opened(tmp_path, cache):
    data = class_folders(tmp_path / "d")
    open_source(data)
    [lock] = cache.rglob(".lock")
    lock.unlink()
    for folder in [cache, *(path for path in cache.rglob("*") if path.is_dir())]:
        folder.chmod(0o555)
    try:
        assert len(open_source(data)) == 9
        assert not lock.exists()
    finally:
        for folder in [cache, *(path for path in cache.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)


def test_an_unwritable_cache_is_an_error_with_advice(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/cache.* cannot be written.*NONNEG_CACHE"):
        open_source(class_folders(tmp_path / "d"), cache=tmp_path / "file" / "cache")


def test_too_little_disk_space_is_an_error_with_advice(tmp_path, monkeypatch):
    data = class_folders(tmp_path / "d")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(InputError, match=r"0\.0 GB free.*NONNEG_CACHE"):
        open_source(data)
