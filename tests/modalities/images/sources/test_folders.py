import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import open_source
from nonneg.modalities.images.sources._folder import Folder
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


def test_the_class_is_the_first_folder_however_deep_the_image(tmp_path):
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


def test_without_split_folders_everything_is_train_and_other_splits_are_refused(tmp_path):
    class_folders(tmp_path / "d", (".",))
    assert len(open_source(tmp_path / "d", "train")) == 9
    with pytest.raises(InputError, match=r"d is not divided into splits, so split is train \(all of it\), not 'test'"):
        open_source(tmp_path / "d", "test")


def test_an_absent_split_is_refused_naming_those_there_are(tmp_path):
    class_folders(tmp_path / "d", ("train", "test"))
    with pytest.raises(InputError, match="has no split 'val', expected one of test, train"):
        open_source(tmp_path / "d", "val")


def test_images_both_directly_and_in_class_folders_are_refused_naming_one_of_each(tmp_path):
    write(tmp_path / "d" / "cat" / "1.png", pixels(1))
    write(tmp_path / "d" / "loose.png", pixels(2))
    with pytest.raises(InputError, match=r"both directly \(loose.png\) and in folders \(cat/1.png\)"):
        open_source(tmp_path / "d")


def test_hidden_files_and_other_files_are_ignored(tmp_path):
    write(tmp_path / "d" / "1.png", pixels(1))
    for name in (".hidden.png", "notes.txt", "Thumbs.db", ".git/2.png"):
        write(tmp_path / "d" / name, pixels(2))
    assert open_source(tmp_path / "d").ids == ("1.png",)


def test_a_folder_without_images_is_refused_with_what_is_accepted(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(InputError, match=r"holds no image, expected a folder of images .* CIFAR's binary version"):
        open_source(tmp_path)


def test_a_split_without_images_is_refused_by_its_folder(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    (tmp_path / "d" / "test").mkdir()
    with pytest.raises(InputError, match="d/test holds no image"):
        open_source(tmp_path / "d", "test")


def test_links_are_followed_once(tmp_path):
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


def test_opening_by_relative_path_or_text_is_the_same_data(tmp_path, monkeypatch):
    class_folders(tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    assert open_source("d").samples.filename == open_source(tmp_path / "d").samples.filename


def test_what_is_not_there_or_no_data_is_refused_in_one_sentence(tmp_path):
    write(tmp_path / "one.png", pixels(1))
    (tmp_path / "empty.tar").touch()
    for name, found in [("one.png", "none of the kinds"), ("empty.tar", "none of the kinds"), ("gone", "data is ")]:
        with pytest.raises(InputError, match=found) as caught:
            open_source(tmp_path / name)
        assert re.search(r"expected .*a folder of images", str(caught.value))
    with pytest.raises(InputError, match="data is a int, expected a name, a path"):
        open_source(3)
    with pytest.raises(InputError, match="image_size is -1, expected 0"):
        open_source(tmp_path, image_size=-1)


def test_labels_follow_their_images_through_take(tmp_path):
    source = open_source(class_folders(tmp_path / "d"), "train")
    taken = source.take(np.array([8, 0]))
    assert [number_of(sample) for sample in taken.ids] == [8, 0]
    assert taken.labels.tolist() == [2, 0]
    np.testing.assert_array_equal(taken.samples, [pixels(8), pixels(0)])


@pytest.mark.parametrize("other", ["annotations/1.xml", "__MACOSX/._1.png", "docs/.cache/1.png"])
def test_a_folder_without_images_beside_the_splits_changes_nothing(tmp_path, other):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / other, pixels(1))
    source = open_source(tmp_path / "d")
    assert source.label_names == CLASSES
    assert source.ids[0] == "train/cat/000.png"


def test_a_split_beside_a_folder_of_images_that_is_none_is_refused(tmp_path):
    class_folders(tmp_path / "d", ("train",))
    write(tmp_path / "d" / "extra" / "1.png", pixels(1))
    with pytest.raises(InputError, match=r"d holds both train, .* and extra, which is none, expected either class"):
        open_source(tmp_path / "d")


def test_a_class_may_be_called_train(tmp_path):
    for number, name in enumerate(("car", "train")):
        write(tmp_path / "d" / name / f"{number}.png", pixels(number))
    assert open_source(tmp_path / "d").label_names == ("car", "train")


def test_hidden_folders_are_not_searched_for_images(tmp_path):
    write(tmp_path / "d" / ".thumbnails" / "1.png", pixels(1))
    with pytest.raises(InputError, match=r"d holds no image, expected a folder of images"):
        open_source(tmp_path / "d")


def test_file_names_do_not_break_the_sentence(tmp_path):
    folder = tmp_path / os.fsdecode(b"two\nlines \xff")
    write(folder / "a\nb.png", pixels(1))
    write(folder / "c" / "d.png", pixels(1))
    with pytest.raises(InputError, match=r"two\\nlines \\xff holds images both directly \(a\\nb.png\)") as caught:
        open_source(folder)
    assert str(caught.value).isprintable()


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    write(tmp_path / "1.png", pixels(1))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"data is '', expected one of digits"):
        open_source("")


@pytest.mark.timeout(30)
def test_a_pipe_is_refused_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe is neither a folder nor a regular file"):
        open_source(tmp_path / "pipe")


def write_array(path):
    np.save(path, np.zeros((9, 5), np.float32))


def write_table(path):
    pq.write_table(pa.table({"image": ["cat/000.png"], "label": [0]}), path)


@pytest.mark.parametrize(("name", "write_stray"), [("x.npy", write_array), ("labels.parquet", write_table)])
@pytest.mark.parametrize("folder", [".", "train"])
def test_an_array_or_table_without_images_does_not_hide_a_folder_of_them(tmp_path, folder, name, write_stray):
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
def test_a_preview_picture_does_not_hide_arrays_or_tables_of_images(tmp_path, name, write_other, samples):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/preview.png").write_bytes(encoded(pixels(1)))
    write_other(tmp_path / name)
    assert len(open_source(tmp_path)) == samples


def test_vectors_beside_tables_of_images_do_not_hide_them(tmp_path):
    write_array(tmp_path / "x.npy")
    write_encoded(tmp_path / "train-00000-of-00001.parquet")
    assert len(open_source(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "write_stray", "found"),
    [
        ("x.npy", write_array, r"x.npy holds float32 of shape \(9, 5\), expected uint8 images"),
        ("labels.parquet", write_table, r"image \(string\), label \(int64\), expected encoded images in a column"),
    ],
)
def test_an_array_or_table_without_images_is_refused_where_it_is_all_there_is(tmp_path, name, write_stray, found):
    write_stray(tmp_path / name)
    with pytest.raises(InputError, match=found):
        open_source(tmp_path)


def test_a_damaged_table_is_not_taken_for_one_without_images(tmp_path):
    data = class_folders(tmp_path / "d", (".",))
    (data / "data.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"data.parquet is damaged or not Parquet"):
        open_source(data)


def changing(monkeypatch, change):
    """Something happens to the files after they were listed and before they are read."""
    read = Folder.read

    def changed_before_reading(self, start):
        change()
        return read(self, start)

    monkeypatch.setattr(Folder, "read", changed_before_reading)


def test_a_file_that_goes_away_is_not_recorded_as_broken(tmp_path, monkeypatch):
    root = class_folders(tmp_path / "d")
    moved = root / "train" / "dog" / "004.png"
    changing(monkeypatch, lambda: moved.rename(tmp_path / "aside.png"))
    with pytest.raises(InputError, match=r"train/dog/004.png changed while it was read: no such file"):
        open_source(root, skip_broken=True)
    monkeypatch.undo()
    (tmp_path / "aside.png").rename(moved)
    source = open_source(root, skip_broken=True, cache=tmp_path / "cache")
    assert (len(source), source.skipped) == (9, ())


def test_a_file_that_is_replaced_is_not_taken_for_the_one_listed(tmp_path, monkeypatch):
    root = class_folders(tmp_path / "d")
    changing(monkeypatch, lambda: write(root / "train" / "dog" / "004.png", pixels(500)))
    with pytest.raises(InputError, match=r"train/dog/004.png changed while it was read, expected it as it was"):
        open_source(root)
