import gzip
import io
import shutil
import tarfile

import numpy as np
import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import open_source
from tests.modalities.images.sources.pictures import CLASSES, class_folders, encoded, number_of, pack, pixels, write


def assert_is_the_split(source, first):
    numbers = [number_of(sample) for sample in source.ids]
    assert sorted(numbers) == list(range(first, first + 9))
    np.testing.assert_array_equal(source.samples, [pixels(number) for number in numbers])
    assert source.label_names == CLASSES
    assert source.labels.tolist() == [(number - first) // 3 for number in numbers]


@pytest.mark.parametrize(
    ("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")]
)
@pytest.mark.parametrize("top", [".", "pets"])
def test_a_tar_opens_like_its_folder(tmp_path, suffix, mode, top):
    tar = pack(tmp_path / f"pets.{suffix}", class_folders(tmp_path / "d"), top, mode)
    assert_is_the_split(open_source(tar, "train"), 0)
    test = open_source(tar, "test")
    assert_is_the_split(test, 9)
    assert test.name == "pets/test"
    assert test.ids[0].removeprefix("pets/").startswith("test/")


def test_a_tar_compressed_with_zstandard_opens(tmp_path):
    import pyarrow as pa

    tar = pack(tmp_path / "pets.tar", class_folders(tmp_path / "d"))
    packed = tmp_path / "pets.tar.zst"
    with pa.output_stream(str(packed), compression="zstd") as stream:
        stream.write(tar.read_bytes())
    assert_is_the_split(open_source(packed, "train"), 0)


def test_a_class_has_the_same_number_in_every_split_and_val_is_a_test_split(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / "val" / "owl" / "900.png", pixels(900))
    source = open_source(pack(tmp_path / "d.tar", tmp_path / "d"), "test")
    assert (source.name, source.ids, source.labels.tolist()) == ("d/val", ("val/owl/900.png",), [2])
    assert source.label_names == CLASSES


def test_a_flat_tar_has_no_labels(tmp_path):
    for i in range(3):
        write(tmp_path / "d" / f"{i}.png", pixels(i))
    assert open_source(pack(tmp_path / "flat.tar", tmp_path / "d", "images")).labels is None


def test_only_regular_files_are_read_and_no_link_or_path_is_followed(tmp_path):
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
    np.testing.assert_array_equal(source.samples, [pixels(1), pixels(2)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "odd.tar", "secret.png"]


def test_the_last_version_of_a_repeated_file_is_used(tmp_path):
    for number in (1, 2):
        write(tmp_path / "d" / "a.png", pixels(number))
        with tarfile.open(tmp_path / "twice.tar", "a") as tar:
            tar.add(tmp_path / "d" / "a.png", "a.png")
    source = open_source(tmp_path / "twice.tar")
    assert source.ids == ("a.png",)
    np.testing.assert_array_equal(source.samples[0], pixels(2))


def test_the_error_for_a_damaged_tar_names_it_and_nothing_is_cached(tmp_path, cache):
    tar = pack(tmp_path / "pets.tar.gz", class_folders(tmp_path / "d"), mode="w:gz")
    tar.write_bytes(tar.read_bytes()[:-400])
    for _ in range(2):
        with pytest.raises(InputError, match=r"pets\.tar\.gz is damaged"):
            open_source(tar)
    assert not list(cache.rglob("meta.json"))


def test_a_tar_without_images_is_an_error(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match=r"notes\.tar holds no image"):
        open_source(pack(tmp_path / "notes.tar", tmp_path / "d"))


def test_only_the_requested_split_is_decoded(tmp_path, cache):
    assert len(open_source(pack(tmp_path / "d.tar", class_folders(tmp_path / "d")), "test")) == 9
    assert [len(np.load(path)) for path in cache.rglob("images.npy")] == [9]


def flat_tar(path, count=4):
    """Write a tar of images `0.png`, `1.png`, … without folders."""
    for i in range(count):
        write(path.parent / path.stem / f"{i}.png", pixels(i))
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(count):
            tar.add(path.parent / path.stem / f"{i}.png", f"{i}.png")
    return path


def zstandard(content):
    import pyarrow as pa

    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as packed:
        packed.write(content)
    return stream.getvalue().to_pybytes()


def erase(content, start):
    return content[:start] + bytes(512) + content[start + 512 :]


DAMAGES = {
    "a flipped byte in a later header": lambda c, third: c[: third + 20] + b"\xff" + c[third + 21 :],
    "cut between two members": lambda c, third: c[:third],
    "cut inside a header": lambda c, third: c[: third + 100],
    "cut inside an image": lambda c, third: c[: third + 600],
    "an erased header": erase,
    "two tars in a row": lambda c, third: c + c,
}


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_or_truncated_tar_is_an_error(tmp_path, damage, packed):
    tar = flat_tar(tmp_path / "d.tar")
    with tarfile.open(tar) as file:
        third = file.getmembers()[2].offset
    assert third > 1024
    whole = tar.read_bytes()
    tar.write_bytes(packed(whole))
    assert len(open_source(tar)) == 4
    tar.write_bytes(packed(damage(whole, third)))
    with pytest.raises(InputError, match=r"d.tar is damaged"):
        open_source(tar)


def test_a_tar_may_end_with_one_block_of_zeros(tmp_path):
    tar = flat_tar(tmp_path / "d.tar")
    tar.write_bytes(tar.read_bytes().rstrip(b"\0"))
    length = tar.stat().st_size
    tar.write_bytes(tar.read_bytes() + bytes(-length % 512 + 512))
    assert len(open_source(tar)) == 4


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_with_damaged_first_bytes_is_an_error(tmp_path, mode):
    tar = pack(tmp_path / "d.tar", class_folders(tmp_path / "d"), mode=mode)
    content = bytearray(tar.read_bytes())
    content[20] ^= 0xFF
    content[-20] ^= 0xFF  # the first bytes of .gz may be a time
    tar.write_bytes(content)
    with pytest.raises(InputError, match=r"d.tar is damaged"):
        open_source(tar)


def hostile(path, count=1, **pax_headers):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for i in range(count):
            member = tarfile.TarInfo(f"{i}.png")
            member.pax_headers = pax_headers
            tar.addfile(member)
    return path


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "pax_headers",
    [
        {"size": "-1024"},
        {"GNU.sparse.realsize": "-1"},
        {"GNU.sparse.realsize": "many"},
        {"GNU.sparse.map": "1,x"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
    ],
)
def test_members_of_impossible_lengths_are_an_error(tmp_path, pax_headers):
    with pytest.raises(InputError, match=r"d.tar is damaged"):
        open_source(hostile(tmp_path / "d.tar", **pax_headers))


def test_a_member_above_the_size_limit_is_broken_and_not_read(tmp_path, monkeypatch):
    tar = hostile(tmp_path / "d.tar", 2, **{"GNU.sparse.map": "0,0", "GNU.sparse.size": str(3 * 2**30)})
    assert tar.stat().st_size <= 10_240
    monkeypatch.delattr(tarfile.TarFile, "extractfile")
    with pytest.raises(InputError, match=r"2 of 2 images .*0\.png \(3,221,225,472 bytes.*1\.png"):
        open_source(tar)


def test_a_member_without_a_name_is_an_error(tmp_path):
    with tarfile.open(flat_tar(tmp_path / "d.tar"), "a") as tar:
        tar.addfile(tarfile.TarInfo(""))
    with pytest.raises(InputError, match=r"d\.tar is damaged.*no name"):
        open_source(tmp_path / "d.tar")


@pytest.mark.parametrize(("length", "times"), [(0, 5000), (2 << 20, 1)], ids=["endless", "long"])
def test_endless_and_overlong_descriptions_of_a_member_are_an_error(tmp_path, length, times):
    description = tarfile.TarInfo("description")
    description.type, description.size = tarfile.XHDTYPE, length
    content = (description.tobuf(tarfile.USTAR_FORMAT) + bytes(length)) * times
    path = tmp_path / "d.tar"
    path.write_bytes(content + flat_tar(tmp_path / "rest.tar").read_bytes())
    with pytest.raises(InputError, match=r"d.tar is damaged"):
        open_source(path)


def test_a_tar_that_is_replaced_while_it_is_read_is_an_error_and_nothing_is_cached(tmp_path, cache, monkeypatch):
    tar = flat_tar(tmp_path / "d.tar")
    other = flat_tar(tmp_path / "other.tar")
    disk_usage = shutil.disk_usage  # called after the first image is decoded

    def replaced(path):
        other.replace(tar)
        return disk_usage(path)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", replaced)
        with pytest.raises(InputError, match="d/train changed"):
            open_source(tar)
    assert not list(cache.rglob("*.json")) + list(cache.rglob("*.npy"))
    assert len(open_source(tar)) == 4


def test_a_split_beside_a_class_folder_is_an_error(tmp_path):
    write(tmp_path / "d" / "train" / "cat" / "1.png", pixels(1))
    write(tmp_path / "d" / "extra" / "2.png", pixels(2))
    with pytest.raises(InputError, match=r"d\.tar holds both train.* extra"):
        open_source(pack(tmp_path / "d.tar", tmp_path / "d"))
