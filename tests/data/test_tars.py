import io
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest

from nonneg.data import open_source
from nonneg.errors import InputError
from tests.data.pictures import CLASSES, class_folders, encoded, number_of, pack, pixels, write

CIFAR = Path(__file__).parents[3] / "shared" / "data" / "cifar10-jpeg.tar.xz"


def assert_is_the_split(source, first):
    numbers = [number_of(sample) for sample in source.ids]
    assert sorted(numbers) == list(range(first, first + 9))
    np.testing.assert_array_equal(source.images, [pixels(number) for number in numbers])
    assert source.label_names == CLASSES
    assert source.labels.tolist() == [(number - first) // 3 for number in numbers]


@pytest.mark.parametrize(
    ("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")]
)
@pytest.mark.parametrize("top", [".", "pets"])
def test_a_tar_reads_like_its_folder(tmp_path, suffix, mode, top):
    tar = pack(tmp_path / f"pets.{suffix}", class_folders(tmp_path / "d"), top, mode)
    assert_is_the_split(open_source(tar, "train"), 0)
    test = open_source(tar, "test")
    assert_is_the_split(test, 9)
    assert test.name == "pets/test"
    assert test.ids[0].removeprefix("pets/").startswith("test/")


def test_a_tar_packed_with_zstandard(tmp_path):
    import pyarrow as pa

    tar = pack(tmp_path / "pets.tar", class_folders(tmp_path / "d"))
    packed = tmp_path / "pets.tar.zst"
    with pa.output_stream(str(packed), compression="zstd") as stream:
        stream.write(tar.read_bytes())
    assert_is_the_split(open_source(packed, "train"), 0)


def test_a_class_has_the_same_number_in_every_split_and_val_stands_for_test(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / "val" / "owl" / "900.png", pixels(900))
    source = open_source(pack(tmp_path / "d.tar", tmp_path / "d"), "test")
    assert (source.name, source.ids, source.labels.tolist()) == ("d/val", ("val/owl/900.png",), [2])
    assert source.label_names == CLASSES


def test_a_flat_tar_has_no_labels(tmp_path):
    for i in range(3):
        write(tmp_path / "d" / f"{i}.png", pixels(i))
    assert open_source(pack(tmp_path / "flat.tar", tmp_path / "d", "images")).labels is None


def test_only_regular_files_count_and_no_link_or_path_is_followed(tmp_path):
    secret = tmp_path / "secret.png"
    write(secret, pixels(7))
    with tarfile.open(tmp_path / "odd.tar", "w") as tar:
        for name, kind in (
            ("link.png", tarfile.SYMTYPE),
            ("hard.png", tarfile.LNKTYPE),
            ("pipe.png", tarfile.FIFOTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(secret)
            tar.addfile(member)
        for number, name in enumerate(("../up.png", "/top.png", "plain.png", ".hidden.png")):
            content = encoded(pixels(number))
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    source = open_source(tmp_path / "odd.tar")
    assert source.ids == ("top.png", "plain.png")
    np.testing.assert_array_equal(source.images, [pixels(1), pixels(2)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "odd.tar", "secret.png"]


def test_a_file_that_is_there_twice_counts_as_its_last_version(tmp_path):
    for number in (1, 2):
        write(tmp_path / "d" / "a.png", pixels(number))
        with tarfile.open(tmp_path / "twice.tar", "a") as tar:
            tar.add(tmp_path / "d" / "a.png", "a.png")
    source = open_source(tmp_path / "twice.tar")
    assert source.ids == ("a.png",)
    np.testing.assert_array_equal(source.images[0], pixels(2))


def test_a_damaged_tar_is_refused_by_name_and_leaves_nothing_to_open(tmp_path, cache):
    tar = pack(tmp_path / "pets.tar.gz", class_folders(tmp_path / "d"), mode="w:gz")
    tar.write_bytes(tar.read_bytes()[:-400])
    for _ in range(2):
        with pytest.raises(InputError, match=r"pets.tar.gz is damaged or not a tar: "):
            open_source(tar)
    assert not list(cache.rglob("meta.json"))


def test_a_tar_without_images_is_refused(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match=r"notes.tar holds no image"):
        open_source(pack(tmp_path / "notes.tar", tmp_path / "d"))


@pytest.mark.skipif(not CIFAR.exists(), reason="needs ../shared/data/cifar10-jpeg.tar.xz")
def test_all_of_cifar_opens_within_a_minute_and_then_at_once():
    start = time.perf_counter()
    cold = open_source(CIFAR, progress=False)
    seconds_cold = time.perf_counter() - start
    start = time.perf_counter()
    warm = open_source(CIFAR)
    seconds_warm = time.perf_counter() - start
    assert cold.images.shape == (50_000, 32, 32, 3)
    assert np.bincount(cold.labels).tolist() == [5000] * 10
    assert cold.name == "cifar10-jpeg/train"
    assert warm.ids == cold.ids
    assert seconds_cold < 60
    assert seconds_warm < 0.5


@pytest.mark.skipif(not CIFAR.exists(), reason="needs ../shared/data/cifar10-jpeg.tar.xz")
def test_a_split_is_decoded_without_the_other(cache):
    assert len(open_source(CIFAR, "test", progress=False)) == 10_000
    used = int(subprocess.run(["du", "-sk", cache], capture_output=True, text=True, check=True).stdout.split()[0])
    assert used < 1.2 * 10_000 * 32 * 32 * 3 / 1024
