"""Images that are arrays: in memory, in NumPy's files, and in CIFAR's binary files."""

import io
import pickle
import tarfile

import numpy as np
import pytest

from nonneg.errors import InputError
from nonneg.modalities import UndividedError
from nonneg.modalities.images import open_source

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 1, 0])


def test_arrays_are_used_without_a_copy():
    source = open_source((IMAGES, LABELS))
    assert np.shares_memory(source.samples, IMAGES)
    assert source.labels.tolist() == LABELS.tolist()
    assert source.label_names == ("0", "1", "2")
    assert source.ids[:2] == ("train-000000", "train-000001")
    assert open_source(IMAGES).labels is None


def test_grey_images_get_one_channel():
    assert open_source(IMAGES[..., 0]).samples.shape == (5, 8, 8, 1)


@pytest.mark.parametrize(
    ("images", "found"),
    [
        (IMAGES.astype(np.float32), r"data .*float32 .*\(5, 8, 8, 3\)"),
        (IMAGES.transpose(0, 3, 1, 2), r"data .*uint8 .*\(5, 3, 8, 8\)"),
        (IMAGES[0, 0], r"data .*uint8 .*\(8, 3\)"),
        (IMAGES[:0], r"data .*uint8 .*\(0, 8, 8, 3\)"),
    ],
)
def test_arrays_of_another_type_or_shape_are_an_error(images, found):
    with pytest.raises(InputError, match=found):
        open_source(images)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (LABELS[:3], r"labels .*int64 .*\(3,\).*\(5,\)"),
        (LABELS / 2, "labels .*float64"),
        (LABELS - 3, "labels .*-3 to -1"),
    ],
)
def test_labels_of_another_type_shape_or_range_are_an_error(labels, found):
    with pytest.raises(InputError, match=found):
        open_source((IMAGES, labels))


def test_an_array_has_no_test_split():
    with pytest.raises(UndividedError, match="'test'"):
        open_source(IMAGES, "test")


def test_an_array_keeps_its_size():
    assert open_source(IMAGES, image_size=4).samples.shape == IMAGES.shape


def test_a_npy_file_is_memory_mapped(tmp_path, cache):
    np.save(tmp_path / "a.npy", IMAGES)
    source = open_source(tmp_path / "a.npy")
    assert isinstance(source.samples, np.memmap)
    assert not source.samples.flags.writeable
    assert source.name == "a/train"
    np.testing.assert_array_equal(source.samples, IMAGES)
    assert not cache.exists()


@pytest.mark.parametrize(
    "names", [("images", "labels"), ("x", "y"), ("x_train", "y_train"), ("train_images", "train_labels")]
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_a_npz_file_are_found_by_their_usual_names(tmp_path, names, save):
    save(tmp_path / "a.npz", **dict(zip(names, (IMAGES, LABELS), strict=True)))
    source = open_source(tmp_path / "a.npz")
    np.testing.assert_array_equal(source.samples, IMAGES)
    assert source.labels.tolist() == LABELS.tolist()


def test_a_npz_file_with_splits(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=LABELS[:2])
    source = open_source(tmp_path / "a.npz", "test")
    assert (len(source), source.name, source.ids[1]) == (2, "a/test", "test-000001")
    with pytest.raises(InputError, match=r"split 'extra'.*test, train"):
        open_source(tmp_path / "a.npz", "extra")


def test_a_folder_of_npy_files(tmp_path):
    for split, rows in (("train", 5), ("test", 2)):
        np.save(tmp_path / f"{split}_images.npy", IMAGES[:rows])
        np.save(tmp_path / f"{split}_labels.npy", LABELS[:rows, None])
    source = open_source(tmp_path, "test")
    assert isinstance(source.samples, np.memmap)
    assert source.labels.tolist() == [0, 1]


def test_an_error_in_the_labels_of_a_folder_names_the_file(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    np.save(tmp_path / "labels.npy", LABELS[:2])
    with pytest.raises(InputError, match=r"/labels\.npy .*int64 .*\(2,\).*\(5,\)"):
        open_source(tmp_path)


def test_pickles_are_not_read(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", images=np.array([{}], dtype=object))
    for name in ("a.npy", "b.npz"):
        with pytest.raises(InputError, match=rf"{name}.* is damaged"):
            open_source(tmp_path / name)


def test_errors_name_damaged_and_unsuitable_numpy_files(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:200])
    with pytest.raises(InputError, match=r"a.npy is damaged"):
        open_source(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", weights=LABELS)
    with pytest.raises(InputError, match=r"b\.npz .*weights.*images.*x_train"):
        open_source(tmp_path / "b.npz")


CIFAR_10 = {f"data_batch_{i}.bin": 4 for i in range(1, 6)} | {"test_batch.bin": 3}
CIFAR_100 = {"train.bin": 20, "test.bin": 3}
CLASSES_10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar_images(rows, seed):
    return np.random.default_rng(seed).integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)


def write_cifar(root, files, label_bytes):
    root.mkdir(parents=True)
    for seed, (name, rows) in enumerate(files.items()):
        labels = np.zeros((rows, label_bytes), np.uint8)
        labels[:, -1] = np.arange(rows)
        planes = cifar_images(rows, seed).transpose(0, 3, 1, 2).reshape(rows, -1)
        (root / name).write_bytes(np.hstack([labels, planes]).tobytes())
    (root / "batches.meta.txt").write_text("\n".join(CLASSES_10) + "\n\n")
    (root / "fine_label_names.txt").write_text("\n".join(f"fine {i}".replace(" ", "_") for i in range(100)) + "\n")
    return root


def test_cifar_10_opens_from_its_folder_or_the_parent(tmp_path):
    root = write_cifar(tmp_path / "cifar-10-batches-bin", CIFAR_10, 1)
    for given in (root, tmp_path):
        source = open_source(given)
        np.testing.assert_array_equal(source.samples, np.concatenate([cifar_images(4, seed) for seed in range(5)]))
        assert source.samples.flags.c_contiguous
        assert source.labels.tolist() == [0, 1, 2, 3] * 5
        assert source.label_names == tuple(CLASSES_10)
        assert source.ids[5] == "data_batch_2-00001"
        assert source.name == "cifar-10/train"
        np.testing.assert_array_equal(open_source(given, "test").samples, cifar_images(3, 5))


def test_cifar_100_has_the_fine_labels(tmp_path):
    source = open_source(write_cifar(tmp_path / "cifar-100-binary", CIFAR_100, 2), "test")
    np.testing.assert_array_equal(source.samples, cifar_images(3, 1))
    assert source.labels.tolist() == [0, 1, 2]
    assert source.label_names[:2] == ("fine_0", "fine_1")
    assert len(source.label_names) == 100


def test_cifar_10_opens_from_the_original_archive(tmp_path):
    root = write_cifar(tmp_path / "d" / "cifar-10-batches-bin", CIFAR_10, 1)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        tar.add(root, root.name)
    source = open_source(tmp_path / "cifar-10-binary.tar.gz", "test")
    np.testing.assert_array_equal(source.samples, cifar_images(3, 5))
    assert source.label_names == tuple(CLASSES_10)


def test_pickled_cifar_is_an_error_and_is_not_read(tmp_path):
    root = tmp_path / "cifar-10-batches-py"
    root.mkdir()
    for name in ("data_batch_1", "test_batch", "batches.meta"):
        (root / name).write_bytes(pickle.dumps({}))
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(root, root.name)
    for given in (root, tmp_path, tmp_path / "cifar-10-python.tar.gz"):
        with pytest.raises(InputError, match=r"cifar-10.*pickle.*cifar-10-batches-bin"):
            open_source(given)


def test_errors_in_cifar_name_the_file(tmp_path):
    root = write_cifar(tmp_path / "cifar-10-batches-bin", CIFAR_10, 1)
    content = (root / "data_batch_3.bin").read_bytes()
    (root / "data_batch_3.bin").write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"data_batch_3\.bin is damaged.*12,291.*3,073"):
        open_source(root)
    (root / "data_batch_3.bin").write_bytes(b"\x63" + content[1:])
    with pytest.raises(InputError, match=r"data_batch_3\.bin is damaged.*99.*0 to 9"):
        open_source(root)
    (root / "data_batch_3.bin").unlink()
    with pytest.raises(InputError, match=r"has no data_batch_3\.bin.*data_batch_1\.bin, "):
        open_source(root)
    with pytest.raises(InputError, match=r"split 'val'.*train, test"):
        open_source(root, "val")


def test_a_tar_of_other_data_is_not_mistaken_for_cifar(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    with pytest.raises(InputError, match=r"a\.tar holds no image"):
        open_source(tmp_path / "a.tar")


def test_labels_of_different_lengths_are_an_error():
    with pytest.raises(InputError, match=r"labels .*\(5,\)"):
        open_source((IMAGES, [[0], [1, 2], [0], [1], [0]]))


def test_an_empty_npz_file_is_an_error(tmp_path):
    np.savez(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"a\.npz holds nothing.*images"):
        open_source(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("folder", "files", "label_bytes", "missing"),
    [
        ("cifar-10-batches-bin", CIFAR_10, 1, "data_batch_1.bin"),
        ("renamed", CIFAR_10, 1, "data_batch_1.bin"),
        ("cifar-100-binary", CIFAR_100, 2, "train.bin"),
    ],
)
def test_an_error_names_any_missing_file_of_cifar(tmp_path, folder, files, label_bytes, missing):
    root = write_cifar(tmp_path / folder, files, label_bytes)
    (root / missing).unlink()
    with pytest.raises(InputError, match=rf"{folder} has no {missing}"):
        open_source(root)
    assert len(open_source(root, "test")) == 3
