"""Texts from files, lists and datasets; what is wrong with them is said in one sentence."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nonneg.errors import InputError
from nonneg.modalities import UndividedError
from nonneg.modalities.texts import Texts, open_texts
from nonneg.modalities.texts.sources import Columns

TEXTS = ["A fox, they say", "schöne Grüße", "我的卡还没有到", "line\nbreak"]
LABELS = ["b", "a", "b", ""]


@pytest.fixture
def tables(tmp_path):
    """The same four rows as CSV, JSON Lines and Parquet."""
    rows = [
        {"text": text, "kind": label, "key": f"k{i}"} for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    lines = ["text,kind,key", *('"{text}",{kind},{key}'.format(**row) for row in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_column_of_a_table_is_read_with_labels_and_ids(tables, kind):
    source = open_texts(f"{tables}/t.{kind}:text", columns=Columns(labels="kind", ids="key"))
    assert list(source.samples.texts) == TEXTS
    assert source.labels.tolist() == [1, 0, 1, -1] and source.label_names == ("a", "b")
    assert source.ids == ("k0", "k1", "k2", "k3") and source.name == "t/train"


def test_the_lines_of_a_text_file_are_read_with_labels_from_another_file(tmp_path):
    (tmp_path / "a.txt").write_text("one\r\ntwo\r\n", encoding="utf-8")
    (tmp_path / "labels.txt").write_text("x\ny\n", encoding="utf-8")
    source = open_texts(tmp_path / "a.txt", columns=Columns(labels=str(tmp_path / "labels.txt")))
    assert list(source.samples.texts) == ["one", "two"] and source.label_names == ("x", "y")
    assert source.ids == ("train-000000", "train-000001")


@pytest.mark.parametrize("labels", ["kind", "1"])
def test_a_folder_has_the_splits_of_its_files_and_a_label_has_one_number_in_all_of_them(tmp_path, labels):
    (tmp_path / "train.csv").write_text("text,kind\nhello,b\nbye,c\n")
    (tmp_path / "test.csv").write_text("text,kind\nhi,a\nciao,c\n")
    train, test = (open_texts(f"{tmp_path}:text", split, Columns(labels=labels)) for split in ("train", "test"))
    assert train.label_names == test.label_names == ("a", "b", "c")
    assert test.labels.tolist() == [0, 2] and test.name == f"{tmp_path.name}/test"
    with pytest.raises(InputError, match=r"'other'.*test, train"):
        open_texts(f"{tmp_path}:text", "other")


def test_a_split_without_the_column_does_not_hide_that_of_another(tmp_path):
    (tmp_path / "train.csv").write_text("text,kind\nhello,b\nbye,c\n")
    (tmp_path / "test.csv").write_text("text\nhi\nciao\n")
    train = open_texts(f"{tmp_path}:text", columns=Columns(labels="kind"), need_columns=False)
    assert train.labels.tolist() == [0, 1] and not train.notes


def test_a_file_of_labels_belongs_to_its_own_split(tmp_path):
    (tmp_path / "train.txt").write_text("one\ntwo\n")
    (tmp_path / "test.txt").write_text("three\n")
    (tmp_path / "labels.txt").write_text("x\ny\n")
    source = open_texts(str(tmp_path), columns=Columns(labels=str(tmp_path / "labels.txt")))
    assert source.labels.tolist() == [0, 1]


def test_a_column_comes_before_a_file_of_the_same_name(tables, monkeypatch):
    monkeypatch.chdir(tables)
    (tables / "kind").write_text("not a table")
    assert open_texts("t.csv:text", columns=Columns(labels="kind")).label_names == ("a", "b")


def test_a_file_has_no_other_split(tables):
    with pytest.raises(UndividedError, match=r"t\.csv.*'test'"):
        open_texts(f"{tables}/t.csv:text", "test")


def test_lists_tuples_and_dictionaries_are_read():
    assert list(open_texts(["a", "b"]).samples.texts) == ["a", "b"]
    assert open_texts((["a", "b"], [7, 9])).label_names == ("7", "9")
    source = open_texts({"text": ["a", "b"], "title": ["x", "y"]}, columns=Columns(pairs="title"))
    assert source.samples.pairs == ["x", "y"]
    assert list(open_texts(np.array(["a", "b"])).samples.texts) == ["a", "b"]


class Dataset(dict):
    """What `open_texts` uses of a Hugging Face dataset."""

    @property
    def features(self):
        return {"label": SimpleNamespace(names=["neg", "pos"])}

    @property
    def column_names(self):
        return list(self)

    def __len__(self):
        return len(self["sentence"])


def test_a_hugging_face_dataset_is_read_with_the_names_of_its_classes():
    dataset = Dataset(sentence=["good", "bad"], label=[1, 0])
    source = open_texts(dataset, columns=Columns(labels="label"))
    assert source.labels.tolist() == [1, 0] and source.label_names == ("neg", "pos")
    both = {"train": dataset, "test": Dataset(sentence=["fine"], label=[1])}
    assert len(open_texts(both, "test")) == 1


def test_a_real_hugging_face_dataset_is_read():
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": ["good", "bad"], "label": [1, 0]})
    source = open_texts(datasets.DatasetDict(test=dataset), "test", Columns(labels="label"))
    assert list(source.samples.texts) == ["good", "bad"] and source.labels.tolist() == [1, 0]


def test_a_streaming_dataset_is_an_error_even_if_it_does_not_know_its_columns():
    with pytest.raises(InputError, match="length"):
        open_texts(SimpleNamespace(column_names=None))


def test_the_bundled_intents_have_their_published_sizes():
    train, test = open_texts("intents"), open_texts("intents", "test")
    assert (len(train), len(test), len(train.label_names)) == (10_003, 3_080, 77)
    assert train.label_names == test.label_names
    assert train.samples.texts[0] == "I am still waiting on my card?"


# Partners


def test_a_long_group_or_partner_takes_the_memory_of_one_row():
    many = [f"text {row}" for row in range(20_000)]
    long = ["g" * 10_000_000, *("g" for _ in many[1:])]
    groups = open_texts({"text": many, "picture": long}, columns=Columns(groups="picture")).samples.groups
    assert len(set(groups)) == 2
    source = open_texts({"text": many, "title": long}, columns=Columns(pairs="title"))
    assert len({int(number) for (number,) in Texts().partner_numbers(source)}) == 2


def test_texts_that_are_alone_in_their_group_are_counted():
    data = {"text": ["a", "b", "c", "d"], "picture": ["1", "1", "2", ""]}
    source = open_texts(data, columns=Columns(groups="picture"))
    assert any("2 of 4" in note for note in source.notes)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(labels="kinds"), "'kinds'.*text, kind, key"),
        (Columns(pairs="title"), "'title'"),
        (Columns(groups="key"), "key.*no two texts"),
    ],
)
def test_a_missing_column_and_groups_of_one_are_errors(tables, columns, message):
    with pytest.raises(InputError, match=message):
        open_texts(f"{tables}/t.csv:text", columns=columns)


@pytest.mark.parametrize("groups", ["aaaa", "abcd"])
def test_groups_that_nothing_can_be_learnt_from_are_an_error_in_training_alone(groups):
    data, columns = {"text": ["k", "l", "m", "n"], "picture": list(groups)}, Columns(groups="picture")
    with pytest.raises(InputError, match=r"picture: .*group"):
        open_texts(data, columns=columns)
    assert open_texts(data, columns=columns, need_columns=False).notes == ()


def test_training_on_copies_of_one_text_is_an_error():
    with pytest.raises(InputError, match="all 9 texts are the same"):
        Texts().open(["same"] * 9)


@pytest.mark.parametrize(("text", "fault"), [("", "empty"), (" ", "blank"), ("a\0b", "NUL")])
def test_a_typed_text_that_is_broken_is_an_error(text, fault):
    with pytest.raises(InputError, match=f"the text .*{fault}"):
        Texts().read(text)


def test_a_missing_column_is_a_note_where_it_is_not_needed(tables):
    source = open_texts(f"{tables}/t.csv:text", columns=Columns(labels="kinds"), need_columns=False)
    assert source.labels is None and "kinds" in source.notes[0]
    by_position = open_texts(f"{tables}/t.csv:text", columns=Columns(labels="1"), need_columns=False)
    assert by_position.labels.tolist() == [1, 0, 1, -1] and not by_position.notes


def test_a_column_without_any_label_is_an_error_only_where_it_is_needed(tmp_path):
    (tmp_path / "t.csv").write_text("text,kind\nhello,\nbye,\n")
    assert open_texts(f"{tmp_path}/t.csv:text", columns=Columns(labels="kind"), need_columns=False).labels is None
    with pytest.raises(InputError, match="kind"):
        open_texts(f"{tmp_path}/t.csv:text", columns=Columns(labels="kind"))


def test_pairs_of_different_lengths_are_an_error(tables):
    (tables / "titles.txt").write_text("one\ntwo\n")
    with pytest.raises(InputError, match=r"titles\.txt has 2 rows.*expected 4"):
        open_texts(f"{tables}/t.csv:text", columns=Columns(pairs=str(tables / "titles.txt")))
    with pytest.raises(InputError, match="title has 1 rows, expected 2"):
        open_texts({"text": ["a", "b"], "title": ["x"]})


# Bad input


@pytest.mark.parametrize(
    ("text", "fault"),
    [("", "empty"), (" \t\u3000", "blank"), ("a\0b", "NUL"), (None, "missing"), (3, "int"), ("a\ud800", "Unicode")],
)
def test_a_broken_text_is_an_error_with_its_row_or_is_left_out(text, fault):
    data = {"text": ["good", text, "fine"], "label": ["x", "y", "z"]}
    with pytest.raises(InputError, match=f"row 1 .*{fault}"):
        open_texts(data)
    source = open_texts(data, columns=Columns(labels="label"), skip_broken=True)
    assert list(source.samples.texts) == ["good", "fine"] and len(source.skipped) == 1
    assert source.notes[0].startswith("1 of 3 texts are left out: row 1")
    assert source.labels.tolist() == [0, 2] and source.ids == ("train-000000", "train-000002")


def test_a_broken_partner_breaks_its_text():
    with pytest.raises(InputError, match=r"row 0 .*partner.*blank"):
        open_texts({"text": ["a", "b"], "title": [" ", "x"]}, columns=Columns(pairs="title"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"caf\xe9\n", r"a\.txt, line 1, .*0xe9.*UTF-8"),
        ("a.csv:text", b"text,n\nfine,1\ncaf\xe9,2\n", r"a\.csv, line 3, .*0xe9"),
        ("a.csv:words", b"text,n\nfine,1\n", r"a\.csv .*'words'.*text, n"),
        ("a.csv", b"text,n\nfine,1\n", r"a\.csv has more than one column"),
        ("a.jsonl:text", b'{"text": "fine"}\n{oops\n', r"a\.jsonl, line 2, is not JSON"),
        ("a.jsonl:text", b'{"text": "fine"}\n["oops"]\n', r"a\.jsonl, line 2, holds a list"),
        ("a.jsonl:word", b'{"text": "fine"}\n', r"a\.jsonl .*'word'"),
        ("a.txt", b"", r"a\.txt.*(empty|no texts)"),
        ("a.txt:text", b"fine\n", r"a\.txt.*'text'"),
        ("a.docx", b"fine\n", r"a\.docx.*'\.docx'"),
        ("a.parquet:text", b"PAR1oops", r"a\.parquet cannot be read"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(tmp_path, name, content, message):
    (tmp_path / name.partition(":")[0]).write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_texts(f"{tmp_path}/{name}")


def test_a_missing_path_and_a_folder_without_texts_are_errors(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv.*intents"):
        open_texts(f"{tmp_path}/nowhere.csv:text")
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        open_texts(str(tmp_path))
    with pytest.raises(InputError, match="data is a float"):
        open_texts(3.5)
