import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg.errors import InputError
from nonneg.features import Features, journal, verify

HERE = Path(__file__).parent


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, str(HERE / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr[-2000:]}"
    return result.stdout


@pytest.fixture
def dense():
    z = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32).clip(0)
    z[:, 4] = 0
    return z


@pytest.fixture(params=["sparse", "dense"])
def features(request, dense):
    return Features(
        sp.csr_array(dense) if request.param == "sparse" else dense,
        ids=[f"sample {i}" for i in range(30)],
        labels=np.arange(30) % 3,
        label_names=("circle", "square", "star"),
        media=[bytes([i]) for i in range(30)],
        texts=[f"text {i} ☃" for i in range(30)],
        names={2: "wheels"},
        provenance={"seed": 0},
    )


def out_of_bounds() -> sp.csr_array:
    return sp.csr_array((np.ones(2, np.float32), np.array([0, 50_000_000]), np.array([0, 1, 2])), shape=(2, 3))


def as_dense(features: Features) -> np.ndarray:
    return features.codes.toarray() if features.is_sparse else features.codes


def test_everything_survives_a_round_trip(features, tmp_path):
    loaded = Features.load(features.save(tmp_path / "x.features"))
    assert loaded.is_sparse == features.is_sparse
    np.testing.assert_array_equal(as_dense(loaded), as_dense(features))
    np.testing.assert_array_equal(loaded.labels, features.labels)
    assert loaded.label_names == ("circle", "square", "star")
    assert (loaded.id(7), loaded.text(7), loaded.media(7)) == ("sample 7", "text 7 ☃", b"\x07")
    assert dict(loaded.names) == {2: "wheels"}
    assert loaded.provenance["seed"] == 0
    assert repr(loaded) == repr(features)
    assert repr(verify(tmp_path / "x.features")) == repr(features)


def test_codes_alone_are_enough(dense, tmp_path):
    loaded = Features.load(Features(dense.astype(np.float16)).save(tmp_path / "x.features"))
    assert loaded.codes.dtype == np.float16
    assert (loaded.id(3), loaded.text(3), loaded.media(3), loaded.labels) == ("3", None, None, None)
    assert loaded.feature(0).labels == {}


def test_nothing_can_be_changed_in_place(features, tmp_path):
    for f in (features, Features.load(features.save(tmp_path / "x.features"))):
        with pytest.raises(ValueError, match="read-only"):
            (f.codes.data if f.is_sparse else f.codes)[0] = 5
        with pytest.raises(ValueError, match="read-only"):
            f.labels[0] = 5
        with pytest.raises(TypeError):
            f.names[1] = "x"
        with pytest.raises(ValueError, match="read-only"):
            f.expected_activation[0] = 5
        if f.is_sparse:
            with pytest.raises(ValueError, match="read-only"):
                f.column(0)[1][0] = 5
        f.provenance["seed"] = 1
        assert f.provenance["seed"] == 0


def test_the_array_that_was_given_stays_writeable(dense):
    Features(dense)
    dense[0, 0] = 5


def test_a_card_says_what_the_codes_say(features, dense):
    card = features.feature(2, top=4)
    lengths = np.linalg.norm(dense, axis=1)
    active = dense[:, 2] > 1e-5 * lengths
    assert card.name == "wheels"
    assert card.active == active.sum()
    assert card.frequency == pytest.approx(active.mean())
    assert card.expected_activation == pytest.approx((dense[:, 2] / np.where(lengths > 0, lengths, 1)).mean(), rel=1e-5)
    assert list(card.top) == list(np.argsort(-dense[:, 2])[:4])
    assert list(card.strengths) == sorted(dense[:, 2], reverse=True)[:4]
    by_hand = {name: np.mean(features.labels[active] == i) for i, name in enumerate(features.label_names)}
    assert dict(card.labels) == pytest.approx({k: v for k, v in by_hand.items() if v})
    assert features.feature(4).active == 0
    assert features.feature(4).top == ()


def test_duplicate_and_zero_entries_of_a_sparse_matrix_are_merged():
    messy = sp.csr_array((np.ones(4, np.float32), np.array([2, 2, 0, 1]), np.array([0, 3, 4])), shape=(2, 3))
    messy.data[3] = 0
    assert Features(messy).codes.toarray().tolist() == [[1, 0, 2], [0, 0, 0]]
    assert Features(messy).codes.nnz == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": np.ones((2, 2), int)}, "dtype int64, expected float16"),
        ({"codes": np.ones(3, np.float32)}, r"shape \(3,\), expected \(samples, features\)"),
        ({"codes": np.array([[np.nan]], np.float32)}, "NaN or infinite"),
        ({"ids": ["a"]}, "ids: 1 given, expected 2"),
        ({"ids": ["a", "a"]}, "some are the same"),
        ({"ids": ["a", 7]}, "ids: expected a string"),
        ({"labels": [0, 1, 2]}, "expected 2 integers"),
        ({"labels": [0.5, 1.0]}, "expected 2 integers"),
        ({"labels": [0, 1], "label_names": ["only one"]}, "expected -1 to 0"),
        ({"ids": ["a", None]}, "ids: some are missing"),
        ({"ids": ["a", "\ud800"]}, "ids: expected a string"),
        ({"label_names": [3, 5]}, "3 is a int, expected a string"),
        ({"label_names": ["x", "x"]}, "label_names: some are the same"),
        ({"names": {1.5: "x"}}, "1.5 is called 'x', expected a feature's number"),
        ({"names": {1: None}}, "1 is called None, expected a feature's number and a string"),
        ({"provenance": {"lr": np.float32(1)}}, "provenance cannot be written as JSON"),
        ({"codes": out_of_bounds()}, "not a valid sparse matrix"),
        ({"names": {7: "x"}}, "feature 7 is named, expected 0 to 2"),
        ({"names": {1: "two\nlines"}}, "1 is called .*, expected one line without control characters"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, message):
    with pytest.raises(InputError, match=message):
        Features(**{"codes": np.ones((2, 3), np.float32), **arguments})


def test_existing_features_are_kept_unless_told_otherwise(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    other = Features(np.ones((2, 2), np.float32))
    with pytest.raises(InputError, match="overwrite=True"):
        other.save(folder)
    assert Features.load(folder).shape == (30, 6)
    other.save(folder, overwrite=True)
    assert Features.load(folder).shape == (2, 2)
    assert sorted(p.suffix for p in folder.iterdir()) == ["", ".json", ".jsonl", ".npy"]  # the old arrays are gone


def test_a_folder_of_other_files_is_never_written_into(features, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex"):
        features.save(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        features.save(tmp_path / "thesis.tex", overwrite=True)


def test_somebody_elses_meta_json_is_never_replaced(features, tmp_path):
    (tmp_path / "meta.json").write_text('{"my": "thesis"}')
    with pytest.raises(InputError, match=r"holds other files \(meta.json"):
        features.save(tmp_path, overwrite=True)
    assert (tmp_path / "meta.json").read_text() == '{"my": "thesis"}'


def test_a_damaged_folder_of_ours_can_be_saved_over(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    (folder / "meta.json").write_text("{")
    with pytest.raises(InputError, match="overwrite=True"):
        features.save(folder)
    features.save(folder, overwrite=True)
    assert repr(verify(folder)) == repr(features)


def test_a_save_that_fails_leaves_the_old_features_and_no_litter(features, tmp_path):
    import resource

    folder = features.save(tmp_path / "x.features")
    before = sorted(path.name for path in folder.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # like a disk that is full
    try:
        with pytest.raises(InputError, match="cannot be written: file too large"):
            Features(np.ones((2000, 6), np.float32), media=[b"x" * 900] * 2000).save(folder, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert repr(verify(folder)) == repr(features)


def test_a_save_that_fails_over_a_damaged_folder_removes_nothing(features, tmp_path):
    import resource

    folder = features.save(tmp_path / "x.features")
    (folder / "meta.json").write_text("{")
    payloads = {path.name for path in folder.iterdir() if "-" in path.name}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(InputError, match="cannot be written"):
            Features(np.ones((2000, 60), np.float32)).save(folder, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name for path in folder.iterdir() if "-" in path.name} == payloads


def test_codes_that_are_all_zero_are_whole(tmp_path):
    empty = Features(sp.csr_array((5, 4), dtype=np.float32))
    assert verify(empty.save(tmp_path / "x.features")).shape == (5, 4)
    assert empty.feature(0).active == 0


def test_other_byte_orders_and_layouts_are_taken_over(dense, tmp_path):
    for odd in (dense.astype(">f4"), np.asfortranarray(dense), dense[::1, ::-1][:, ::-1]):
        np.testing.assert_array_equal(Features.load(Features(odd).save(tmp_path / "x", overwrite=True)).codes, dense)


def test_active_means_the_same_here_and_in_the_metrics(features):
    from nonneg.features import _features
    from nonneg.metrics import _codes, class_consistency

    assert _features.EPSILON == _codes.EPSILON
    support = class_consistency(features.codes, features.labels).support
    assert [features.feature(j).active for j in range(features.shape[1])] == support.tolist()


def test_unlabelled_samples_are_no_class_of_their_own(dense):
    features = Features(np.ones((4, 2), np.float32), labels=[0, 0, 1, -1], label_names=("a", "b"))
    assert dict(features.feature(0).labels) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert "2 labels" in repr(features)


def test_an_open_map_outlives_its_replacement(features, tmp_path, dense):
    folder = features.save(tmp_path / "x.features")
    opened = Features.load(folder)
    Features(np.ones((2, 2), np.float32)).save(folder, overwrite=True)
    np.testing.assert_array_equal(as_dense(opened), dense)


def test_names_belong_to_the_codes_they_were_given_to(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    journal(folder).record({0: "doors"}, author="ada")
    journal(folder).record({0: "doors, open"}, author="bob")
    assert dict(Features.load(folder).names) == {0: "doors, open", 2: "wheels"}
    assert [(n.author, n.name) for n in journal(folder).history()][1:] == [("ada", "doors"), ("bob", "doors, open")]
    Features(np.eye(6, dtype=np.float32)).save(folder, overwrite=True)
    assert dict(Features.load(folder).names) == {}
    features.with_names({2: ""}).save(folder, overwrite=True)
    assert dict(Features.load(folder).names) == {0: "doors, open"}
    assert len(journal(folder).history()) == 4


def test_saving_the_same_codes_again_keeps_the_names_people_gave(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    journal(folder).record({0: "doors"}, author="ada")
    Features(features.codes).save(folder, overwrite=True)
    assert dict(Features.load(folder).names) == {0: "doors", 2: "wheels"}


def test_a_damaged_name_costs_that_name_alone(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    journal(folder).record({0: "doors"})
    lines = (folder / "names.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "names.jsonl").write_bytes(b"?" + lines[0] + lines[1])
    with pytest.warns(UserWarning, match=r"names\.jsonl: line 1 is damaged and left out"):
        assert dict(Features.load(folder).names) == {0: "doors"}
    with pytest.warns(UserWarning), pytest.raises(InputError, match=r"names\.jsonl is damaged: line 1"):
        verify(folder)


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\ud800"])
def test_names_are_of_one_line_without_control_characters(character, features, tmp_path):
    name = f"a{character}b"
    with pytest.raises(InputError, match="expected one line without control characters"):
        features.with_names({0: name})
    names = journal(features.save(tmp_path / "x.features"))
    with pytest.raises(InputError, match="expected one line without control characters"):
        names.record({0: name})
    with pytest.raises(InputError, match="expected a name in one line, without control characters"):
        names.record({0: "doors"}, author=name)
    assert names.current() == {2: "wheels"}


@pytest.mark.parametrize("name", ["a  b", "ratio 1:2", "🦊 ﷽ مرحبا", "\u202eright to left\u202c", "no\u00a0break", "é"])
def test_names_may_be_of_any_writing(name, features, tmp_path):
    folder = features.with_names({0: name}).save(tmp_path / "x.features")
    assert Features.load(folder).names[0] == name


def test_a_name_of_two_lines_that_lies_on_disk_is_shown_escaped(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    line = {"codes": journal(folder).codes, "feature": 0, "name": "two\nlines\0", "author": "a\tb", "time": "2024"}
    with (folder / "names.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    loaded = Features.load(folder)
    assert loaded.names[0] == r"two\nlines\x00" and journal(folder).history()[-1].author == r"a\tb"
    assert Features.load(loaded.save(tmp_path / "y.features")).names == loaded.names
    before = (folder / "names.jsonl").read_bytes()
    loaded.save(folder, overwrite=True)
    assert (folder / "names.jsonl").read_bytes() == before
    assert verify(folder).names == loaded.names


@pytest.mark.parametrize("names", [{0: 5}, {0: None}, {1.7: "x"}, {True: "x"}])
def test_the_journal_takes_nothing_it_could_not_read_again(names, features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    with pytest.raises(InputError, match="expected a feature's number and a string"):
        journal(folder).record(names)


def test_a_torn_line_of_the_journal_loses_nothing_else(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    with (folder / "names.jsonl").open("ab") as file:
        file.write(b'{"codes": "abc", "feat')
    assert dict(Features.load(folder).names) == {2: "wheels"}
    journal(folder).record({1: "roof"})
    assert dict(Features.load(folder).names) == {1: "roof", 2: "wheels"}


@pytest.mark.parametrize(
    "foreign", ["nothing", "empty", "a file", "not json", "nested", "another format", "newer", "altered", "pipe"]
)
def test_a_foreign_folder_gives_one_clear_sentence(foreign, features, tmp_path):
    folder = tmp_path / "x.features"
    if foreign == "a file":
        folder.write_text("x")
    elif foreign != "nothing":
        folder.mkdir()
    if foreign in ("newer", "altered"):
        features.save(folder)
        meta = json.loads((folder / "meta.json").read_text())
        meta["version" if foreign == "newer" else "label_names"] = "9\n9"
        (folder / "meta.json").write_text(json.dumps(meta))
    elif foreign == "pipe":
        os.mkfifo(folder / "meta.json")
    elif foreign in ("not json", "nested", "another format"):
        text = {"not json": "{", "nested": "[" * 100_000, "another format": '{"format": "other"}'}[foreign]
        (folder / "meta.json").write_text(text)
    with pytest.raises(InputError, match=re.escape(str(folder))) as error:
        Features.load(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("files", {"codes": {"file": "../../secret.npy", "bytes": 1, "sha256": ""}}),
        ("shape", [30, 10**30]),
        ("shape", [30, -6]),
        ("shape", [30.0, 6]),
        ("shape", 7),
        ("label_names", [1, 2, 3]),
        ("layout", "coo"),
        ("files", {}),
    ],
)
def test_a_hostile_meta_with_a_right_hash_is_refused(field, value, features, tmp_path):
    from nonneg.durable import sealed

    folder = features.save(tmp_path / "x.features")
    content = json.loads((folder / "meta.json").read_text())
    content.pop("sha256")
    content[field] = value
    (folder / "meta.json").write_bytes(sealed(content))
    with pytest.raises(InputError, match="its fields are not those of"):
        Features.load(folder)


def test_a_second_writer_is_refused(features, tmp_path):
    import fcntl

    folder = features.save(tmp_path / "x.features")
    with (folder / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="being written by another process"):
            features.save(folder, overwrite=True)


def test_a_kill_during_a_save_leaves_the_old_or_the_new():
    assert "killed at 25 random moments" in run_script("kill_during_save.py")


@pytest.mark.parametrize("seed", ["0", "1"])
def test_damage_is_said_and_never_crashes(seed):
    assert "refused" in run_script("damage.py", seed)


def test_a_million_rows_open_at_once_and_without_memory(tmp_path):
    rows, features, active = 1_000_000, 1024, 32
    rng = np.random.default_rng(0)
    columns = np.arange(active, dtype=np.int32) * (features // active) + rng.integers(0, 32, (rows, active), np.int32)
    codes = sp.csr_array(
        (np.ones(rows * active, np.float32), columns.ravel(), np.arange(rows + 1, dtype=np.int32) * active),
        shape=(rows, features),
    )
    Features(codes, ids=[str(i) for i in range(rows)], labels=np.zeros(rows, int)).save(tmp_path / "big.features")
    program = """
import re, sys, time
from nonneg.features import Features
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before, start = anonymous(), time.perf_counter()
features = Features.load(sys.argv[1])
seconds = time.perf_counter() - start
print(seconds, anonymous() - before, features.id(999_999))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "big.features")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert float(out[0]) < 1
    assert float(out[1]) < 50
    assert out[2] == "999999"


def test_a_card_shows_itself_in_a_notebook_and_data_stays_data():
    hostile = "<script>alert(1)</script>"
    features = Features(
        np.eye(3, dtype=np.float32),
        texts=[hostile, "b", "c"],
        labels=[0, 1, 1],
        label_names=("<b>", "d"),
        names={0: hostile},
    )
    page = features.feature(0)._repr_html_()
    assert "&lt;script&gt;" in page and "<script>" not in page and "&lt;b&gt;</bdi> 100%" in page
    pictures = Features(np.eye(2, dtype=np.float32), media=[b"\x89PNG\r\n\x1a\nx", b"\xff\xd8\xffx"])
    assert "data:image/png;base64," in pictures.feature(0)._repr_html_()
    assert "data:image/jpeg;base64," in pictures.feature(1)._repr_html_()
    assert "feature 1" in Features(np.eye(2, dtype=np.float32)).feature(1)._repr_html_()
