"""Names of features: kept in a journal and bound to the codes they were given to."""

import errno
import fcntl
import json

import numpy as np
import pytest

from nonneg.errors import InputError
from nonneg.features import Features, journal, verify


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


def test_saving_the_same_codes_again_keeps_their_names(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    journal(folder).record({0: "doors"}, author="ada")
    Features(features.codes).save(folder, overwrite=True)
    assert dict(Features.load(folder).names) == {0: "doors", 2: "wheels"}


def test_a_changed_name_is_a_damaged_line(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    content = (folder / "names.jsonl").read_bytes()
    (folder / "names.jsonl").write_bytes(content.replace(b"wheels", b"wheelz"))
    with pytest.warns(UserWarning, match=r"names\.jsonl: line 1 is damaged"):
        assert dict(Features.load(folder).names) == {}


def test_a_damaged_line_of_the_journal_loses_only_that_name(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    journal(folder).record({0: "doors"})
    lines = (folder / "names.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "names.jsonl").write_bytes(b"?" + lines[0] + lines[1])
    with pytest.warns(UserWarning, match=r"names\.jsonl: line 1 is damaged"):
        assert dict(Features.load(folder).names) == {0: "doors"}
    with pytest.warns(UserWarning), pytest.raises(InputError, match=r"names\.jsonl is damaged: line 1"):
        verify(folder)


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\ud800"])
def test_names_with_line_breaks_or_control_characters_are_rejected(character, features, tmp_path):
    name = f"a{character}b"
    with pytest.raises(InputError, match=r"names: feature 0 .*one line"):
        features.with_names({0: name})
    names = journal(features.save(tmp_path / "x.features"))
    with pytest.raises(InputError, match=r"names: feature 0 .*one line"):
        names.record({0: name})
    with pytest.raises(InputError, match=r"author .*one line"):
        names.record({0: "doors"}, author=name)
    assert names.current() == {2: "wheels"}


@pytest.mark.parametrize(
    "name",
    ["a  b", "ratio 1:2", "🦊 ﷽ مرحبا", "\ue000", "\U0001fae9", "\u202eright to left\u202c", "no\u00a0break", "é"],
)
def test_names_may_use_any_script(name, features, tmp_path):
    folder = features.with_names({0: name}).save(tmp_path / "x.features")
    assert Features.load(folder).names[0] == name


@pytest.mark.parametrize("name", ["\u200b", "\u202e\u00a0", " ", "\u3164", "\ufe0f"])
def test_names_without_a_visible_character_are_rejected(name, features, tmp_path):
    with pytest.raises(InputError, match=r"names: feature 0 .*visible"):
        features.with_names({0: name})
    folder = features.save(tmp_path / "x.features")
    line = {"codes": journal(folder).codes, "feature": 2, "name": name, "author": "", "time": ""}
    with (folder / "names.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert Features.load(folder).names == {}


def test_a_name_on_disk_that_has_two_lines_is_shown_escaped(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    line = {"codes": journal(folder).codes, "feature": 0, "name": "two\nlines\0", "author": "a\tb", "time": "\ud800"}
    with (folder / "names.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    loaded = Features.load(folder)
    assert loaded.names[0] == r"two\nlines\x00" and journal(folder).history()[-1].author == r"a\tb"
    assert journal(folder).history()[-1].time == r"\ud800"
    assert Features.load(loaded.save(tmp_path / "y.features")).names == loaded.names
    before = (folder / "names.jsonl").read_bytes()
    loaded.save(folder, overwrite=True)
    assert (folder / "names.jsonl").read_bytes() == before
    assert verify(folder).names == loaded.names


@pytest.mark.parametrize("names", [{0: 5}, {0: None}, {1.7: "x"}, {True: "x"}, {(1, 2): "x"}])
def test_the_journal_rejects_names_that_are_not_strings_by_feature(names, features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    with pytest.raises(InputError, match=r"names: .*number and a string"):
        journal(folder).record(names)


def test_an_incomplete_last_line_of_the_journal_is_ignored_and_removed(features, tmp_path):
    folder = features.save(tmp_path / "x.features")
    with (folder / "names.jsonl").open("ab") as file:
        file.write(b'{"codes": "abc", "feat')
    assert dict(Features.load(folder).names) == {2: "wheels"}
    journal(folder).record({1: "roof"})
    assert dict(Features.load(folder).names) == {1: "roof", 2: "wheels"}


def test_features_are_named_on_a_file_system_without_locks(features, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    journal(features.save(tmp_path / "x.features")).record({1: "ears"})
    assert Features.load(tmp_path / "x.features").names[1] == "ears"


def test_names_are_recorded_all_or_none_on_a_full_disk(features, tmp_path):
    import resource

    names = journal(features.save(tmp_path / "x.features"))
    names.record({0: "wheels"})
    before = names.current()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (names.path.stat().st_size + 300, limits[1]))  # fails like a full disk
    try:
        with pytest.raises(InputError, match="cannot be written: file too large"):
            names.record({1: "doors", 2: "windows", 3: "roofs"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names.current() == before
    names.record({1: "doors"})
    assert names.current() == before | {1: "doors"}
