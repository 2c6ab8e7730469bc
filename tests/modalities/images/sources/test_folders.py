import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nonneg.errors import InputError
from nonneg.modalities import UndividedError
from nonneg.modalities.images import open_source
from tests.modalities.images.sources.pictures import CLASSES, class_folders, encoded, number_of, pixels, write


def test_class_folders_give_images_labels_and_ids(tmp_path):
    source = open_source(class_folders(tmp_path / "pets"), "test")
    assert source.name == "pets/test"
    assert source.ids == tuple(f"test/{CLASSES[i // 3]}/{9 + i:03d}.png" for i in range(9))
    assert source.label_names == CLASSES
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert source.labels.dtype == np.int64
    np.testing.assert_array_equal(source.samples, [pixels(9 + i) for i in range(9)])


def test_images_are_a_read_only_memory_map(tmp_path):
    images = open_source(class_folders(tmp_path / "pets")).samples
    assert isinstance(images, np.memmap)
    assert not images.flags.writeable


def test_a_flat_folder_has_no_labels(tmp_path):
    for i in range(3):
        write(tmp_path / "flat" / f"{i}.png", pixels(i))
    source = open_source(tmp_path / "flat")
    assert source.labels is None
    assert source.ids == ("0.png", "1.png", "2.png")
    assert source.label_names == ()


def test_the_class_is_the_first_folder_of_the_path(tmp_path):
    write(tmp_path / "d" / "cat" / "siam" / "old" / "1.png", pixels(1))
    write(tmp_path / "d" / "dog" / "2.png", pixels(2))
    source = open_source(tmp_path / "d")
    assert dict(zip(source.ids, source.labels, strict=True)) == {"cat/siam/old/1.png": 0, "dog/2.png": 1}


@pytest.mark.parametrize("folder", ["test", "val", "validation"])
def test_the_test_split_is_test_or_val_or_validation(tmp_path, folder):
    class_folders(tmp_path / "d", ("train", folder))
    source = open_source(tmp_path / "d", "test")
    assert {sample.split("/")[0] for sample in source.ids} == {folder}
    assert source.name == f"d/{folder}"


def test_a_class_has_the_same_number_in_every_split(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / "test" / "owl" / "900.png", pixels(900))
    source = open_source(tmp_path / "d", "test")
    assert source.label_names == CLASSES
    assert source.labels.tolist() == [2]


def test_without_split_folders_everything_is_train(tmp_path):
    class_folders(tmp_path / "d", (".",))
    assert len(open_source(tmp_path / "d", "train")) == 9
    with pytest.raises(UndividedError, match=r"/d .*'test'.*train"):
        open_source(tmp_path / "d", "test")


def test_the_error_for_a_missing_split_lists_those_that_exist(tmp_path):
    class_folders(tmp_path / "d", ("train", "test"))
    with pytest.raises(InputError, match=r"split 'val'.*test, train"):
        open_source(tmp_path / "d", "val")


def test_images_both_outside_and_inside_class_folders_are_an_error_that_names_one_of_each(tmp_path):
    write(tmp_path / "d" / "cat" / "1.png", pixels(1))
    write(tmp_path / "d" / "loose.png", pixels(2))
    with pytest.raises(InputError, match=r"loose\.png.*cat/1\.png"):
        open_source(tmp_path / "d")


def test_hidden_files_and_other_files_are_ignored(tmp_path):
    write(tmp_path / "d" / "1.png", pixels(1))
    for name in (".hidden.png", "notes.txt", "Thumbs.db", ".git/2.png"):
        write(tmp_path / "d" / name, pixels(2))
    assert open_source(tmp_path / "d").ids == ("1.png",)


def test_the_error_for_a_folder_without_images_lists_what_is_accepted(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(InputError, match=r"holds no image.*folder.*CIFAR"):
        open_source(tmp_path)


def test_the_error_for_a_split_without_images_names_its_folder(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    (tmp_path / "d" / "test").mkdir()
    with pytest.raises(InputError, match="d/test holds no image"):
        open_source(tmp_path / "d", "test")


def test_links_are_followed_without_loops(tmp_path):
    write(tmp_path / "elsewhere" / "1.png", pixels(1))
    root = tmp_path / "d"
    (root / "cat").mkdir(parents=True)
    (root / "cat" / "linked.png").symlink_to(tmp_path / "elsewhere" / "1.png")
    (root / "dog").symlink_to(tmp_path / "elsewhere")
    (root / "cat" / "loop").symlink_to(root)
    (root / "cat" / "itself").symlink_to(root / "cat" / "itself")
    assert open_source(root).ids == ("cat/linked.png", "dog/1.png")


def test_names_that_are_not_utf8_become_different_valid_ids(tmp_path):
    for name in (b"plain.png", b"\xff.png", b"\\xff.png", "grün\n.png".encode(), "grün.png".encode("latin-1")):
        write(tmp_path / "d" / os.fsdecode(name), pixels(0))
    ids = open_source(tmp_path / "d").ids
    assert len(set(ids)) == len(ids) == 5
    assert all(sample.encode("utf-8") for sample in ids)
    assert "grün\n.png" in ids


def test_relative_and_absolute_paths_share_a_cache(tmp_path, monkeypatch):
    class_folders(tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    assert open_source("d").samples.filename == open_source(tmp_path / "d").samples.filename


def test_errors_for_missing_and_unknown_data_name_it_and_what_is_accepted(tmp_path):
    write(tmp_path / "one.png", pixels(1))
    (tmp_path / "empty.tar").touch()
    for name in ("one.png", "empty.tar", "gone"):
        with pytest.raises(InputError, match=rf"{name}.* a folder of images"):
            open_source(tmp_path / name)
    with pytest.raises(InputError, match=r"data is a int.*path"):
        open_source(3)
    with pytest.raises(InputError, match="image_size is -1"):
        open_source(tmp_path, image_size=-1)


def test_take_selects_images_and_their_labels(tmp_path):
    source = open_source(class_folders(tmp_path / "d"), "train")
    taken = source.take(np.array([8, 0]))
    assert [number_of(sample) for sample in taken.ids] == [8, 0]
    assert taken.labels.tolist() == [2, 0]
    np.testing.assert_array_equal(taken.samples, [pixels(8), pixels(0)])


@pytest.mark.parametrize("other", ["annotations/1.xml", "__MACOSX/._1.png", "docs/.cache/1.png"])
def test_a_folder_without_images_beside_the_splits_is_ignored(tmp_path, other):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / other, pixels(1))
    source = open_source(tmp_path / "d")
    assert source.label_names == CLASSES
    assert source.ids[0] == "train/cat/000.png"


def test_a_split_beside_a_class_folder_is_an_error(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / "extra" / "1.png", pixels(1))
    with pytest.raises(InputError, match=r"/d holds both train.* extra"):
        open_source(tmp_path / "d")


def test_a_class_may_be_called_train(tmp_path):
    for number, name in enumerate(("car", "train")):
        write(tmp_path / "d" / name / f"{number}.png", pixels(number))
    assert open_source(tmp_path / "d").label_names == ("car", "train")


def test_hidden_folders_are_not_searched_for_images(tmp_path):
    write(tmp_path / "d" / ".thumbnails" / "1.png", pixels(1))
    with pytest.raises(InputError, match="/d holds no image"):
        open_source(tmp_path / "d")


def test_unprintable_file_names_are_escaped_in_errors(tmp_path):
    folder = tmp_path / os.fsdecode(b"two\nlines \xff")
    write(folder / "a\nb.png", pixels(1))
    write(folder / "c" / "d.png", pixels(1))
    with pytest.raises(InputError, match=r"two\\nlines \\xff .*a\\nb\.png") as caught:
        open_source(folder)
    assert str(caught.value).isprintable()


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    write(tmp_path / "1.png", pixels(1))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="data is ''"):
        open_source("")


@pytest.mark.timeout(30)
def test_a_pipe_is_an_error_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="/pipe is "):
        open_source(tmp_path / "pipe")


def write_array(path):
    np.save(path, np.zeros((9, 5), np.float32))


def write_table(path):
    pq.write_table(pa.table({"image": ["cat/000.png"], "label": [0]}), path)


@pytest.mark.parametrize(("name", "write_stray"), [("x.npy", write_array), ("labels.parquet", write_table)])
@pytest.mark.parametrize("folder", [".", "train"])
def test_an_array_or_table_without_images_does_not_hide_a_folder_of_images(tmp_path, folder, name, write_stray):
    data = class_folders(tmp_path / "d", (folder,))
    write_stray(data / folder / name)
    source = open_source(data)
    assert (len(source), source.label_names) == (9, CLASSES)


def write_images(path):
    np.save(path, np.zeros((4, 5, 5), np.uint8))


def write_encoded(path):
    pq.write_table(pa.table({"image": [encoded(pixels(1))]}), path)


@pytest.mark.parametrize(
    ("name", "write_other", "samples"), [("x.npy", write_images, 4), ("x.parquet", write_encoded, 1)]
)
def test_a_preview_image_does_not_hide_arrays_or_tables_of_images(tmp_path, name, write_other, samples):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/preview.png").write_bytes(encoded(pixels(1)))
    write_other(tmp_path / name)
    assert len(open_source(tmp_path)) == samples


def test_vectors_do_not_hide_tables_of_images(tmp_path):
    write_array(tmp_path / "x.npy")
    write_encoded(tmp_path / "train-00000-of-00001.parquet")
    assert len(open_source(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "write_stray", "found"),
    [
        ("x.npy", write_array, r"x\.npy .*float32 .*\(9, 5\).*uint8"),
        ("labels.parquet", write_table, r"labels\.parquet .*image \(string\), label \(int64\)"),
    ],
)
def test_an_array_or_table_without_images_is_an_error_if_there_is_nothing_else(tmp_path, name, write_stray, found):
    write_stray(tmp_path / name)
    with pytest.raises(InputError, match=found):
        open_source(tmp_path)


def test_a_damaged_table_beside_images_is_an_error(tmp_path):
    data = class_folders(tmp_path / "d", (".",))
    (data / "data.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"data\.parquet is damaged"):
        open_source(data)


def change_while_reading(monkeypatch, change):
    """Change files after the first image was read, when the free disk space is checked."""
    disk_usage = shutil.disk_usage

    def changed(path):
        change()
        return disk_usage(path)

    monkeypatch.setattr(shutil, "disk_usage", changed)


def test_a_file_that_disappears_is_not_recorded_as_broken(tmp_path, monkeypatch):
    root = class_folders(tmp_path / "d")
    moved = root / "train" / "dog" / "004.png"
    change_while_reading(monkeypatch, lambda: moved.rename(tmp_path / "aside.png"))
    with pytest.raises(InputError, match=r"train/dog/004\.png changed"):
        open_source(root, skip_broken=True)
    monkeypatch.undo()
    (tmp_path / "aside.png").rename(moved)
    source = open_source(root, skip_broken=True, cache=tmp_path / "cache")
    assert (len(source), source.skipped) == (9, ())


def test_a_file_that_is_replaced_while_the_data_is_read_is_an_error(tmp_path, monkeypatch):
    root = class_folders(tmp_path / "d")
    change_while_reading(monkeypatch, lambda: write(root / "train" / "dog" / "004.png", pixels(500)))
    with pytest.raises(InputError, match=r"train/dog/004\.png changed"):
        open_source(root)
