"""Where pairs come from: tables of every format, and what is wrong with them."""

import io
import json
import tarfile
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from nonneg.errors import InputError
from nonneg.modalities import UndividedError
from nonneg.modalities.images import Images
from nonneg.modalities.pairs import Pairs
from nonneg.modalities.texts import Texts

ROWS = [("pics/a.png", "red square"), ("pics/b.png", "green square"), ("pics/b.png", "a meadow"), ("c.png", "sky")]
COLOURS = {"pics/a.png": "red", "pics/b.png": "green", "c.png": "blue"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "catalogue"
    (place / "pics").mkdir(parents=True)
    for path, colour in COLOURS.items():
        Image.new("RGB", (8, 8), colour).save(place / path)
    return place


def write(path, rows, names=("image", "text")):
    if path.suffix == ".csv":
        lines = [",".join(names), *(",".join(f'"{value}"' for value in row) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        columns = zip(*rows, strict=True)
        pq.write_table(pa.table({name: list(values) for name, values in zip(names, columns, strict=True)}), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_has_a_path_and_a_text_per_row(folder, suffix):
    write(folder / f"table{suffix}", ROWS)
    source = Pairs().open(str(folder), progress=False)
    assert len(source) == 4 and source.samples.groups.tolist() == [0, 1, 1, 2]
    batch = source.samples.sources[0].samples[source.samples.links[:, 0]]
    assert batch[:, 0, 0].tolist() == [[255, 0, 0], [0, 128, 0], [0, 128, 0], [0, 0, 255]]
    assert source.samples.sources[1].samples.texts == ["red square", "green square", "a meadow", "sky"]
    assert "3 groups" in source.notes[0]


def encoded(path):
    return path.read_bytes()


def write_tar(path, folder, texts, others=None):
    """Write pictures and the texts beside them, none for None."""
    files = dict(others or {})
    for number, (picture, text) in enumerate(zip(COLOURS, texts, strict=True)):
        files[f"{number:03d}.png"] = encoded(folder / picture)
        files |= {} if text is None else {f"{number:03d}.txt": text}
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_parquet_holds_the_pictures_itself(folder, tmp_path):
    stored = [{"bytes": encoded(folder / path), "path": path} for path in COLOURS]
    table = pa.table({"image": stored, "caption": ["red", "green", "blue"], "label": [1, 0, 1]})
    pq.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    source = Pairs().open(str(tmp_path / "train-00000-of-00001.parquet"), progress=False)
    assert len(source) == 3 and source.samples.groups is None and source.labels.tolist() == [1, 0, 1]
    assert source.samples.sources[1].samples.texts == ["red", "green", "blue"]


@pytest.mark.parametrize("labels", ["kind", "2"])
def test_a_label_has_the_same_number_in_all_splits_of_parquet(folder, tmp_path, labels):
    stored = [{"bytes": encoded(folder / path), "path": path} for path in COLOURS]
    for split, kinds in (("train", ["toy", "shoe", "toy"]), ("test", ["toy", "hat", "hat"])):
        table = pa.table({"image": stored, "caption": ["red", "green", "blue"], "kind": kinds})
        pq.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    train, test = (Pairs(labels=labels).open(str(tmp_path), split, progress=False) for split in ("train", "test"))
    assert train.label_names == test.label_names == ("hat", "shoe", "toy")
    assert train.labels.tolist() == [2, 1, 2] and test.labels.tolist() == [2, 0, 0]


def test_a_tar_holds_a_text_beside_each_picture(folder, tmp_path):
    write_tar(tmp_path / "shard.tar", folder, [b"red", b"green", None])
    with pytest.raises(InputError, match=r"002\.png has no \.txt file.*--skip-broken"):
        Pairs().open(str(tmp_path / "shard.tar"), progress=False)
    source = Pairs(skip_broken=True).open(str(tmp_path / "shard.tar"), progress=False)
    assert source.ids == ("000.png", "001.png")
    assert source.samples.sources[1].samples.texts == ["red", "green"]


def test_a_text_of_a_tar_that_is_not_utf_8_is_broken_and_a_byte_order_mark_is_no_text(folder, tmp_path):
    write_tar(tmp_path / "shard.tar", folder, [b"\xef\xbb\xbfred", b"caf\xe9", b"blue"])
    with pytest.raises(InputError, match=r"not UTF-8.*001\.txt.*--skip-broken"):
        Pairs().open(str(tmp_path / "shard.tar"), progress=False)
    source = Pairs(skip_broken=True).open(str(tmp_path / "shard.tar"), progress=False)
    assert source.samples.sources[1].samples.texts == ["red", "blue"]
    assert len(source.skipped) == 1 and "001.txt" in source.skipped[0]


def test_a_huge_text_of_a_tar_is_broken_and_never_read(folder, tmp_path):
    huge = b"a" * (64 << 20)
    write_tar(tmp_path / "shard.tar.gz", folder, [b"red", b"green", huge], {"alone.txt": huge})
    tracemalloc.start()
    try:
        source = Pairs(skip_broken=True).open(str(tmp_path / "shard.tar.gz"), progress=False)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(source) == 2 and "67,108,864 bytes" in source.skipped[0] and most < len(huge) / 2
    assert any("1 of 4 .txt files" in note for note in source.notes)


def test_columns_are_found_by_their_usual_names_or_named(folder):
    path = write(folder / "t.csv", [(*row, "x") for row in ROWS], ("filename", "productDisplayName", "other"))
    assert len(Pairs().open(str(path), progress=False)) == 4
    path = write(folder / "t.csv", ROWS, ("where", "what"))
    with pytest.raises(InputError, match=r"where, what.*--first-column"):
        Pairs().open(str(path))
    assert len(Pairs(first_column="where", second_column="what").open(str(path), progress=False)) == 4
    assert len(Pairs(first_column="0", second_column="1").open(str(path), progress=False)) == 4  # by position
    with pytest.raises(InputError, match="no column 'nowhere'"):
        Pairs(first_column="nowhere").open(str(path))


def test_splits_are_files_of_their_names_and_labels_have_the_same_numbers(folder):
    write(folder / "train.csv", [(*row, kind) for row, kind in zip(ROWS, "bbaa", strict=True)], ("image", "text", "k"))
    write(folder / "test.csv", [(*ROWS[0], "c"), (*ROWS[3], "b")], ("image", "text", "k"))
    train, test = (Pairs(labels="k").open(str(folder), split, progress=False) for split in ("train", "test"))
    assert train.label_names == test.label_names == ("a", "b", "c")
    assert train.labels.tolist() == [1, 1, 0, 0] and test.labels.tolist() == [2, 1]


def test_broken_rows_are_an_error_that_lists_them_or_are_skipped(folder):
    (folder / "broken.png").write_bytes(b"not an image")
    rows = [*ROWS, ("missing.png", "nothing"), ("broken.png", "something"), ("c.png", "  "), ("c.png", "")]
    path = write(folder / "t.csv", rows)
    with pytest.raises(InputError, match=r"missing\.png.*broken\.png.*--skip-broken"):
        Pairs().open(str(path), progress=False)
    source = Pairs(skip_broken=True).open(str(path), progress=False)
    assert len(source) == 4 and len(source.skipped) == 4
    assert any("4 of 8 rows" in note for note in source.notes)
    path = write(folder / "u.csv", [*ROWS, ("c.png", "")])
    with pytest.raises(InputError, match=r"row 4 is empty.*--skip-broken"):
        Pairs().open(str(path), progress=False)


def test_a_row_without_a_path_is_an_error_or_skipped(folder):
    path = write(folder / "t.csv", [*ROWS, ("", "nothing")])
    with pytest.raises(InputError, match=r"row 4 has no path.*--skip-broken"):
        Pairs().open(str(path), progress=False)
    source = Pairs(skip_broken=True).open(str(path), progress=False)
    assert len(source) == 4 and source.skipped == ("row 4 (no path)",)


def test_an_empty_table_and_one_that_does_not_exist_are_errors_that_say_so(folder):
    (folder / "t.csv").write_bytes(b"")
    with pytest.raises(InputError, match=r"t\.csv is empty"):
        Pairs().open(str(folder / "t.csv"))
    with pytest.raises(InputError, match=r"u\.csv.*does not exist"):
        Pairs().open(str(folder / "u.csv"))


def test_pictures_of_several_sizes_name_the_setting_of_their_side_or_are_brought_to_one_size(folder):
    Image.new("RGB", (12, 9)).save(folder / "wide.png")
    path = write(folder / "t.csv", [*ROWS, ("wide.png", "black")])
    with pytest.raises(InputError, match=r"--first\.image-size"):
        Pairs().open(str(path), progress=False)
    assert Pairs().adapted(str(path), on_gpu=False)["first"].image_size == 8
    swapped = Pairs(first=Texts(), second=Images(), first_column="text", second_column="image")
    with pytest.raises(InputError, match=r"--second\.image-size"):
        swapped.open(str(path), progress=False)
    stored = [{"bytes": encoded(folder / path), "path": path} for path in (*COLOURS, "wide.png")]
    pq.write_table(pa.table({"image": stored, "text": list("abcd")}), folder / "stored.parquet")
    with pytest.raises(InputError, match=r"--first\.image-size"):
        Pairs().open(str(folder / "stored.parquet"), progress=False)


def test_repeated_rows_count_once(folder):
    source = Pairs().open(str(write(folder / "t.csv", [*ROWS, ROWS[0]])), progress=False)
    assert len(source) == 4 and any("1 of 5 rows are repeated" in note for note in source.notes)


def test_a_column_of_groups_replaces_shared_samples(folder):
    path = write(folder / "t.csv", [(*row, g) for row, g in zip(ROWS, "1122", strict=True)], ("image", "text", "g"))
    groups = Pairs(groups="g").open(str(path), progress=False).samples.groups
    assert groups[0] == groups[1] != groups[2] == groups[3]


def test_rows_without_a_group_are_no_negatives_if_they_share_a_sample(folder):
    named = [*ROWS, ("c.png", "blue"), ("c.png", "deep blue")]
    rows = [(*row, group) for row, group in zip(named, [-1, -1, "", None, 5, 5], strict=True)]
    write(folder / "t.jsonl", rows, ("image", "text", "g"))
    groups = Pairs(groups="g").open(str(folder / "t.jsonl"), progress=False).samples.groups
    assert groups[1] == groups[2] and len({*groups}) == 4 and groups[4] == groups[5]


@pytest.mark.parametrize(("side", "setting"), [("second", {"labels": "kind"}), ("second", {"skip_broken": True})])
def test_a_setting_that_only_pairs_have_is_an_error_on_a_side(side, setting):
    with pytest.raises(InputError, match=rf"{side}\.{next(iter(setting))} is "):
        Pairs(**{side: Texts(**setting)})


def test_a_long_group_takes_the_memory_of_one_row(folder):
    rows = [(f"house {n}", f"Haus {n}", "g" * 10_000_000 if n == 7 else f"{n // 2}") for n in range(20_000)]
    path = write(folder / "t.jsonl", rows, ("en", "de", "g"))
    pairs = Pairs(first=Texts(), second=Texts(), first_column="en", second_column="de", groups="g")
    assert len(set(pairs.open(str(path), progress=False).samples.groups)) == 10_001


def with_encoder(**settings):
    """The modality of a model: after training."""
    texts = Texts(vocabulary=300, width=8, depth=0, heads=1)
    pairs = Pairs(second=texts, **settings)
    pairs = pairs.fitted(Pairs(second=texts).open("emoji", "test"))
    pairs.encoder("convnet_8+transformer")
    return pairs


def test_labels_and_groups_may_be_missing_after_training(folder, tmp_path):
    write(folder / "t.csv", ROWS)
    write_tar(tmp_path / "shard.tar", folder, [b"red", b"green", b"blue"])
    stored = [{"bytes": encoded(folder / path), "path": path} for path in COLOURS]
    pq.write_table(pa.table({"image": stored, "text": list("abc")}), tmp_path / "stored.parquet")
    dataset = Dataset({"image": stored, "text": list("abc")})
    data = [str(folder / "t.csv"), str(tmp_path / "shard.tar"), str(tmp_path / "stored.parquet"), dataset]
    for each in data:
        with pytest.raises(InputError, match="no column 'kind'"):
            Pairs(labels="kind", groups="g").open(each, progress=False)
    pytest.importorskip("tokenizers")
    modality = with_encoder(labels="kind", groups="g")
    for each in data:
        for source in (modality.open(each, progress=False), modality.side("text").open(each, progress=False)):
            assert len(source) >= 3 and source.labels is None
            assert [name in " ".join(source.notes) for name in ("'kind'", "'g'")] == [True, True]


def test_a_column_without_any_label_is_an_error_only_in_training(folder, tmp_path):
    path = write(folder / "t.csv", [(*row, "") for row in ROWS], ("image", "text", "kind"))
    stored = [{"bytes": encoded(folder / path), "path": path} for path in COLOURS]
    dataset = Dataset({"image": stored, "text": list("abc"), "kind": [-1, -1, -1]})
    for data in (str(path), dataset):
        with pytest.raises(InputError, match="label"):
            Pairs(labels="kind").open(data, progress=False)
    pytest.importorskip("tokenizers")
    for data in (str(path), dataset):
        assert with_encoder(labels="kind").open(data, progress=False).labels is None


def test_labels_may_be_missing_in_another_split(folder):
    write(folder / "train.csv", [(*row, "a") for row in ROWS], ("image", "text", "kind"))
    write(folder / "test.csv", ROWS)
    assert Pairs(labels="kind").open(str(folder), progress=False).labels.tolist() == [0] * 4


@pytest.mark.parametrize("given", ["nowhere.csv", "", "c.png"])
def test_data_that_is_no_table_is_an_error_that_says_what_was_expected(folder, given, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=r"\.csv, \.jsonl or \.parquet"):
        Pairs().open(given)


def test_a_folder_with_several_tables_is_an_error(folder):
    write(folder / "a.csv", ROWS)
    write(folder / "b.csv", ROWS)
    with pytest.raises(InputError, match=r"a\.csv, b\.csv"):
        Pairs().open(str(folder))


def test_a_side_is_opened_from_pairs_or_alone(folder):
    path = write(folder / "t.csv", ROWS)
    assert len(Pairs().side("image").open(str(path), progress=False)) == 3
    alone = Pairs().side("image").open(str(folder / "pics"), progress=False)
    assert list(alone.samples[[0, 1]]) == ["image"] and len(alone) == 2
    assert len(Pairs().side("text").open(["a", "b"])) == 2
    assert len(Pairs().side("text").open(Dataset({"text": ["a", "b"]}))) == 2


def test_a_side_of_broken_pairs_is_an_error_and_not_opened_alone(folder):
    (folder / "c.png").unlink()
    path = write(folder / "t.csv", [*ROWS[:3], ("gone.png", "red")])
    for data in (str(path), str(folder)):
        with pytest.raises(InputError, match=r"gone\.png"):
            Pairs().side("image").open(data, progress=False)
    for split in ("train", "test"):
        (folder / split / "red").mkdir(parents=True)
        (folder / split / "red" / "a.png").write_bytes(encoded(folder / "pics" / "a.png"))
    with pytest.raises(UndividedError, match=r"t\.csv"):
        Pairs().side("image").open(str(folder), "test", progress=False)


def test_a_folder_with_a_table_of_other_things_is_opened_as_pictures_alone(folder):
    for split in ("train", "test"):
        (folder / "divided" / split / "red").mkdir(parents=True)
        (folder / "divided" / split / "red" / "a.png").write_bytes(encoded(folder / "c.png"))
    write(folder / "divided" / "sizes.csv", [(8, 8)], ("height", "width"))
    for split in ("train", "test"):
        assert len(Pairs().side("image").open(str(folder / "divided"), split, progress=False)) == 1


def test_an_error_of_a_side_alone_says_what_is_wrong_with_it(folder):
    (folder / "pics" / "broken.png").write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"broken\.png"):
        Pairs().side("image").open(str(folder / "pics"), progress=False)
    (folder / "pics" / "broken.png").unlink()
    with pytest.raises(UndividedError):
        Pairs().side("image").open(str(folder / "pics"), "test", progress=False)


def test_emoji_are_kept_aside_with_the_pictures_of_both_vendors():
    train, test, every = (Pairs().open("emoji", split) for split in ("train", "test", "all"))
    assert len(train) + len(test) == len(every) == 2 * 1906
    kept = {id.rpartition("-")[0] for id in test.ids}
    assert len(kept) == len(test) // 2 and not kept & {id.rpartition("-")[0] for id in train.ids}
    pictures = test.samples.sources[0].samples
    assert pictures.shape[1:] == (64, 64, 3) and np.unique(pictures[0]).size > 10
    texts = dict(zip(every.ids, every.samples.sources[1].samples.texts, strict=True))
    assert texts["1f98a-noto"].startswith("fox, animal") and texts["1f98a-noto"].endswith("orange")
    assert texts["1f426-noto"].endswith("blue") and texts["1f426-twemoji"].endswith("red")  # birds
    assert np.bincount(every.samples.groups).tolist() == [2] * 1906  # the pictures of an emoji are no negatives


class Dataset:
    """A dataset as Hugging Face's library opens it: rows by number, columns by name."""

    def __init__(self, columns):
        self.columns, self.column_names = columns, list(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        return self.columns[key] if isinstance(key, str) else {name: self.columns[name][key] for name in self.columns}


def test_a_dataset_has_images_and_texts(folder):
    images = [{"bytes": encoded(folder / path), "path": None} for path in COLOURS]
    source = Pairs().open(Dataset({"image": images, "caption": ["red", "green", "red"]}), progress=False)
    assert source.samples.groups.tolist() == [0, 1, 0]  # the same text
    labelled = Dataset({"image": images, "caption": ["red", "green", "red"], "kind": ["b", "a", "b"]})
    assert Pairs(labels="2").open(labelled, progress=False).labels.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="label, image"):
        Pairs().open(Dataset({"label": [1, 2, 3], "image": images}), progress=False)
