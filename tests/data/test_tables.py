"""Parquet files as hubs publish them, and Hugging Face datasets."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from nonneg.data import open_source
from nonneg.errors import InputError
from tests.data.pictures import encoded, pixels

NAMES = ["cat", "dog"]
METADATA = {
    b"huggingface": json.dumps(
        {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}}}
    ).encode()
}


def table(numbers, *, paths=True, label="label", labels=None, image="image", metadata=METADATA):
    stored = [{"bytes": encoded(pixels(n)), "path": f"{n}.png" if paths else None} for n in numbers]
    columns = {image: pa.array(stored, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))}
    columns[label] = pa.array([n % 2 for n in numbers] if labels is None else labels)
    return pa.table(columns).replace_schema_metadata(metadata)


def assert_holds(source, numbers):
    np.testing.assert_array_equal(source.images, [pixels(n) for n in numbers])
    assert source.labels.tolist() == [n % 2 for n in numbers]


def test_one_file_with_names_from_its_metadata(tmp_path):
    pq.write_table(table(range(5)), tmp_path / "pets.parquet")
    source = open_source(tmp_path / "pets.parquet")
    assert_holds(source, range(5))
    assert source.label_names == ("cat", "dog")
    assert source.ids == ("0.png", "1.png", "2.png", "3.png", "4.png")
    assert source.name == "pets/train"
    with pytest.raises(InputError, match="not divided into splits"):
        open_source(tmp_path / "pets.parquet", "test")


@pytest.mark.parametrize(
    "files",
    [
        ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "test-00000-of-00001.parquet"),
        ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"),
        ("train/0000.parquet", "train/0001.parquet", "test/0000.parquet"),
        ("plain_text/train/0000.parquet", "plain_text/train/0001.parquet", "plain_text/validation/0000.parquet"),
    ],
)
def test_files_by_split_as_hubs_name_them(tmp_path, files):
    for name, numbers in zip(files, (range(100), range(100, 170), range(900, 905)), strict=True):
        (tmp_path / "hub" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(numbers), tmp_path / "hub" / name, row_group_size=30)
    assert_holds(open_source(tmp_path / "hub", "train"), range(170))
    assert_holds(open_source(tmp_path / "hub", "test"), range(900, 905))
    with pytest.raises(InputError, match="has no split 'extra', expected one of"):
        open_source(tmp_path / "hub", "extra")


def test_without_different_paths_ids_are_row_numbers(tmp_path):
    pq.write_table(table(range(3), paths=False), tmp_path / "train-00000-of-00001.parquet")
    assert open_source(tmp_path).ids == ("train-000000", "train-000001", "train-000002")


def test_plain_binary_images_and_other_column_names(tmp_path):
    images = pa.array([encoded(pixels(n)) for n in range(4)])
    pq.write_table(pa.table({"img": images, "fine_label": [0, 1, 0, 1]}), tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet")
    assert_holds(source, range(4))
    assert source.label_names == ("0", "1")


def test_labels_that_are_words_are_numbered_in_order(tmp_path):
    pq.write_table(table(range(4), labels=["dog", "cat", None, "dog"]), tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet")
    assert source.label_names == ("cat", "dog")
    assert source.labels.tolist() == [1, 0, -1, 1]


def test_labels_that_are_all_hidden_are_no_labels(tmp_path):
    pq.write_table(table(range(2), labels=[-1, -1]), tmp_path / "a.parquet")
    assert open_source(tmp_path / "a.parquet").labels is None


def test_a_row_without_an_image_is_broken(tmp_path):
    holed = table(range(3)).to_pylist()
    holed[1]["image"] = None
    schema = table(range(3)).schema
    pq.write_table(pa.Table.from_pylist(holed, schema), tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(InputError, match=r"1 of 3 images cannot be decoded: train-000001 \(no image stored\)"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            pa.table({"text": ["a"], "label": [0]}),
            r"has the columns text \(string\), label \(int64\), expected encoded",
        ),
        (table([0], labels=[7]), "holds labels from 7 to 7, expected class numbers from 0 to 1"),
        (table([0], labels=[0.5]), "column label, holds a float, expected class numbers or names"),
        (table([]), "holds no row"),
    ],
)
def test_other_tables_are_refused_in_one_sentence(tmp_path, content, found):
    pq.write_table(content, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=found):
        open_source(tmp_path / "a.parquet")


def test_a_truncated_file_is_refused_by_name(tmp_path):
    pq.write_table(table(range(20)), tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"a.parquet is damaged or not Parquet"):
        open_source(tmp_path / "a.parquet")


class ClassLabel:
    names = NAMES


class Dataset:
    """What a Hugging Face dataset answers to, as far as it is asked."""

    def __init__(self, rows, split="train"):
        self._rows, self.split = rows, split
        self.features = {"image": object(), "label": ClassLabel()}
        self.column_names = ["image", "label"]

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, key):
        return [row[key] for row in self._rows] if isinstance(key, str) else self._rows[key]


@pytest.mark.parametrize(
    "stored",
    [
        lambda n: Image.fromarray(pixels(n)),
        lambda n: {"bytes": encoded(pixels(n)), "path": None},
        lambda n: encoded(pixels(n)),
        pixels,
    ],
    ids=["pillow", "dict", "bytes", "array"],
)
def test_a_dataset_that_was_passed_in(stored):
    source = open_source(Dataset([{"image": stored(n), "label": n % 2} for n in range(5)]))
    assert_holds(source, range(5))
    assert source.label_names == ("cat", "dog")
    assert source.ids[4] == "train-000004"
    assert source.name == "dataset/train"


def test_a_dataset_of_other_images_is_not_taken_from_the_cache():
    first, second = (Dataset([{"image": encoded(pixels(n)), "label": 0}]) for n in (1, 2))
    open_source(first)
    np.testing.assert_array_equal(open_source(second).images[0], pixels(2))


def test_the_name_in_a_collection_of_datasets_counts_not_the_one_inside():
    halves = {
        name: Dataset([{"image": pixels(n), "label": n % 2}], "train") for n, name in enumerate(("train", "test"))
    }
    assert_holds(open_source(halves, "test"), (1,))


def test_datasets_by_split():
    both = {
        "train": Dataset([{"image": pixels(n), "label": n % 2} for n in range(3)]),
        "validation": Dataset([{"image": pixels(n), "label": n % 2} for n in (8, 9)], "validation"),
    }
    assert_holds(open_source(both, "test"), (8, 9))
    with pytest.raises(InputError, match="the dataset has no split 'extra', expected one of train, validation"):
        open_source(both, "extra")


def test_a_dataset_without_images_or_length_is_refused():
    texts = Dataset([{"text": "a"}])
    texts.column_names = ["text"]
    with pytest.raises(InputError, match="the dataset has the columns text, expected images in image or img"):
        open_source(texts)
    streaming = type("IterableDataset", (), {"column_names": ["image"], "split": None})()
    with pytest.raises(InputError, match=r"data is a IterableDataset, expected a dataset with a length"):
        open_source(streaming)
    with pytest.raises(InputError, match="the dataset is the split 'train', expected 'test'"):
        open_source(Dataset([{"image": pixels(1), "label": 0}]), "test")


def test_a_real_hugging_face_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    rows = {"image": [Image.fromarray(pixels(n)) for n in range(6)], "label": [n % 2 for n in range(6)]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    assert_holds(open_source(dataset), range(6))
    assert_holds(open_source(dataset.select([4, 1]).with_format("numpy")), (4, 1))
    assert_holds(open_source(datasets.DatasetDict(train=dataset, test=dataset.select([5])), "test"), (5,))


def write_splits(folder, **labels):
    folder.mkdir(exist_ok=True)
    for split, words in labels.items():
        pq.write_table(table(range(len(words)), labels=words), folder / f"{split}-00000-of-00001.parquet")
    return folder


def test_a_word_has_the_same_number_in_every_split(tmp_path):
    data = write_splits(tmp_path / "hub", train=["cat", "dog", "owl"], test=["owl", "bee"])
    for split, numbers in (("train", [1, 2, 3]), ("test", [3, 0])):
        source = open_source(data, split)
        assert source.label_names == ("bee", "cat", "dog", "owl")
        assert source.labels.tolist() == numbers


def test_words_of_another_split_that_change_are_noticed(tmp_path):
    data = write_splits(tmp_path / "hub", train=["cat", "dog"], test=["dog"])
    assert open_source(data).labels.tolist() == [0, 1]
    write_splits(data, test=["ant", "dog"])
    assert open_source(data).labels.tolist() == [1, 2]


def test_another_split_may_lack_labels(tmp_path):
    data = write_splits(tmp_path / "hub", train=["cat", "dog"], test=[None, None])
    assert open_source(data, "test").labels is None
    pq.write_table(table(range(2)).drop_columns(["label"]), data / "test-00000-of-00001.parquet")
    assert open_source(data).label_names == ("cat", "dog")


@pytest.mark.parametrize("split", ["train", "test"])
def test_words_in_one_split_and_numbers_in_another_are_refused(tmp_path, split):
    data = write_splits(tmp_path / "hub", train=["cat", "dog"], test=[0, 1])
    with pytest.raises(
        InputError, match=r"column label, holds both words \('cat'\) and numbers \(0\), expected one of"
    ):
        open_source(data, split)


def test_words_in_one_file_and_numbers_in_another_are_refused(tmp_path):
    for part, labels in enumerate((["cat", "dog"], [0, 1])):
        pq.write_table(table(range(2), labels=labels), tmp_path / f"train-0000{part}-of-00002.parquet")
    with pytest.raises(InputError, match=r"holds both words \('cat'\) and numbers \(0\)"):
        open_source(tmp_path)


def test_shards_whose_name_is_no_split_are_all_train(tmp_path):
    for part in range(2):
        pq.write_table(table((2 * part, 2 * part + 1)), tmp_path / f"data-0000{part}-of-00002.parquet")
    assert_holds(open_source(tmp_path), range(4))
    with pytest.raises(InputError, match="is not divided into splits, so split is train"):
        open_source(tmp_path, "test")


def words(*labels, split="train"):
    dataset = Dataset([{"image": pixels(n), "label": label} for n, label in enumerate(labels)], split)
    dataset.features = {}
    return dataset


def test_a_word_has_the_same_number_in_every_dataset_of_a_collection():
    both = {"train": words("cat", "dog"), "test": words("dog")}
    assert open_source(both, "test").labels.tolist() == [1]
    both["train"] = words("ant", "cat", "dog")
    assert open_source(both, "test").labels.tolist() == [2]
    with pytest.raises(InputError, match=r"the dataset's column label holds both words \('dog'\) and numbers \(0\)"):
        open_source({"train": words(0), "test": words("dog")}, "test")


def test_a_dataset_of_no_split_is_train_and_no_other():
    dataset = words("cat", split=None)
    assert open_source(dataset).name == "dataset/train"
    with pytest.raises(InputError, match="the dataset is the split 'train', expected 'test'"):
        open_source(dataset, "test")


def test_labels_may_be_numpy_integers():
    assert open_source(words(np.int64(1), np.uint8(0))).labels.tolist() == [1, 0]


def test_the_cache_of_what_a_dataset_was_before_is_removed(cache):
    open_source(words("cat"))
    open_source(words("cat", "dog"))
    assert len(list(cache.rglob("images.npy"))) == 1


def test_a_file_a_dataset_points_to_that_is_absent_is_refused_not_broken(tmp_path):
    path = tmp_path / "a.png"
    dataset = Dataset([{"image": {"bytes": None, "path": str(path)}, "label": 0}])
    dataset._fingerprint = "1"
    with pytest.raises(InputError, match=r"a.png cannot be read: no such file or directory"):
        open_source(dataset, skip_broken=True)
    path.write_bytes(encoded(pixels(0)))
    assert_holds(open_source(dataset, skip_broken=True), (0,))
