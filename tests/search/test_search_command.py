"""The commands `nonneg search` and `nonneg index`."""

import json

import numpy as np
import pytest

from nonneg import Features
from nonneg.features import journal
from nonneg.search import Index, Query, find


@pytest.fixture
def nonneg(monkeypatch, command, tmp_path, features):
    """Run a command in a folder with features; return exit code, standard output and standard error."""
    features.save(tmp_path / "x.features")

    monkeypatch.chdir(tmp_path)
    return command


def ids(output):
    return [hit["id"] for hit in json.loads(output)]


def test_search_works_with_and_without_an_index(nonneg, features):
    asked = ["search", "x.features", "--like", "s4", "--feature", "wheels:0.5", "--without", "5", "--json"]
    code, before, error = nonneg(*asked)
    assert code == 0, error
    wanted = find(features, Query(like=("s4",), features=(("wheels", 0.5),), without=(5,)))
    assert json.loads(before) == json.loads(json.dumps(wanted.to_dict()))
    code, output, error = nonneg("index", "x.features")
    assert (code, output) == (0, "Indexed: x.index\n"), error
    assert nonneg(*asked)[1] == before


def test_search_prints_a_table(nonneg):
    code, output, _ = nonneg("search", "x.features", "--feature", "wheels", "--label", "cat", "--k", "3")
    assert code == 0 and len(output.splitlines()) == 5
    assert "| id | label | score | because of | text |" in output and "wheels" in output


def test_a_search_without_hits_says_so(nonneg):
    everything = [word for feature in range(60) for word in ("--without", str(feature))]
    for form in ([], ["--json"]):
        code, _, error = nonneg("search", "x.features", "--like", "s4", *everything, *form)
        assert code == 0 and error.startswith("No sample was found")
    assert not nonneg("search", "x.features", "--like", "s4")[2]


def test_a_saved_query_runs_again(nonneg, tmp_path):
    _, first, _ = nonneg("search", "x.features", "--like", "s4", "--minus", "s9", "--save", "q.json", "--json")
    assert Query.load(tmp_path / "q.json") == Query(like=("s4",), minus=("s9",))
    assert nonneg("search", "x.features", "--query", "q.json", "--json")[1] == first


@pytest.mark.parametrize("content", [b"\x93NUMPY", b"", b"{}", b'{"thesis": "years of work"}', b"[1]"])
def test_a_saved_query_replaces_an_earlier_query_and_no_other_file(content, nonneg, tmp_path):
    (tmp_path / "mine").write_bytes(content)
    code, output, error = nonneg("search", "x.features", "--like", "s4", "--save", "mine")
    assert (code, output) == (2, "") and "mine exists already" in error
    assert (tmp_path / "mine").read_bytes() == content
    for sample in ("s4", "s5"):
        assert nonneg("search", "x.features", "--like", sample, "--save", "q.json")[0] == 0
    assert Query.load(tmp_path / "q.json").like == ("s5",)


def test_a_known_name_that_ends_like_a_weight_is_not_split(nonneg, features, tmp_path):
    features.with_names({7: "a:1", 8: "a"}).save(tmp_path / "x.features", overwrite=True)
    for given, feature, weight in (("a:1", 7, 1.0), ("a:1:2", 7, 2.0), ("a:3", 8, 3.0), ("a", 8, 1.0)):
        wanted = find(features, Query(features=((feature, weight),)))
        found = json.loads(nonneg("search", "x.features", "--feature", given, "--json")[1])
        assert [(hit["id"], hit["score"]) for hit in found] == [(hit.id, hit.score) for hit in wanted]


def test_a_name_with_control_characters_does_not_break_the_table(nonneg, features, tmp_path):
    known = journal(tmp_path / "x.features")
    line = {"codes": known.codes, "feature": 1, "name": "two\nlines|\0", "author": "", "time": "2024-01-01"}
    with known.path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    _, output, _ = nonneg("search", "x.features", "--feature", "1", "--k", "3")
    assert len(output.splitlines()) == 5 and "two\\nlines\\|\\x00: " in output


def test_a_file_in_place_of_a_folder_is_an_error(nonneg, tmp_path):
    np.save(tmp_path / "d.npy", np.eye(3))
    for command in (["search", "d.npy", "--like", "1"], ["index", "d.npy"], ["search", "d.npy", "--feature", "1:2"]):
        code, _, error = nonneg(*command)
        assert code == 2 and "d.npy is a file" in error
    code, _, error = nonneg("search", "x.features", "--like", "s1", "--index", "d.npy")
    assert code == 2 and "d.npy does not hold an index" in error
    code, _, error = nonneg("search", "x.features", "--like", "s1", "--save", "d.npy/x")
    assert code == 2 and "d.npy/x cannot be written" in error


def test_an_index_of_another_engine_finds_the_same(nonneg, tmp_path):
    pytest.importorskip("seismic", reason="the extra seismic is not installed")
    seismic = ["--engine", "seismic", "--no-cosine", "--out", "fast"]
    assert nonneg("index", "x.features", *seismic)[:2] == (0, "Indexed: fast\n")
    asked = ["search", "x.features", "--like", "s4", "--no-cosine", "--json"]
    assert nonneg(*asked, "--index", "fast")[1] == nonneg(*asked)[1] != ""


def test_the_ranking_is_stored_in_the_index(nonneg, tmp_path):
    nonneg("index", "x.features")
    index = Index.open(tmp_path / "x.index")
    assert index.cosine and index.query(index.code(9)).scores[0, 0] == pytest.approx(1)
    nonneg("index", "x.features", "--no-cosine", "--overwrite")
    assert not Index.open(tmp_path / "x.index").cosine


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["search", "nowhere.features", "--like", "a"], "nowhere.features does not exist"),
        (["search", "x.features", "--like", "nobody"], "id 'nobody'"),
        (["search", "x.features", "--feature", "sails:2"], "feature 'sails'"),
        (["search", "x.features", "--feature", "99"], "feature is 99"),
        (["search", "x.features", "--feature", "1:-2"], "feature 1 has the weight -2.0"),
        (["search", "x.features", "--feature", "1:nan"], "feature 1 has the weight nan, expected a finite number"),
        (["search", "x.features"], "the query is empty"),
        (["search", "x.features", "--like", "s1", "--index", "none"], "none does not hold an index"),
        (
            ["search", "x.features", "--like", "s1", "--query", "q.json"],
            "--like is given",
        ),
        (["search", "x.features", "--query", "q.json"], "q.json cannot be read"),
        (["index", "x.features", "--uri", "http://x:1"], "--uri is http://x:1 with --engine exact"),
        (["index", "nowhere"], "nowhere does not exist"),
    ],
)
def test_bad_input_ends_in_one_sentence_and_exit_code_2(arguments, found, nonneg):
    code, _, error = nonneg(*arguments)
    assert code == 2 and "Traceback" not in error
    (line,) = [line for line in error.splitlines() if line.startswith("nonneg: ")]
    assert found in line


def test_an_index_of_other_features_is_an_error(nonneg, tmp_path, codes):
    nonneg("index", "x.features")
    Features(codes * 2, ids=[f"s{row}" for row in range(300)]).save(tmp_path / "x.features", overwrite=True)
    code, _, error = nonneg("search", "x.features", "--like", "s1")
    assert code == 2 and "x.index was not built from x.features" in error
    code, _, error = nonneg("index", "x.features")
    assert code == 2 and "x.index holds an index already" in error and "--overwrite" in error
    assert nonneg("index", "x.features", "--overwrite")[0] == 0
    assert nonneg("search", "x.features", "--like", "s1")[0] == 0


def test_the_verify_command_reads_an_index(nonneg, tmp_path):
    assert nonneg("index", "x.features")[0] == 0
    code, output, _ = nonneg("verify", "x.index")
    assert code == 0 and "x.index is intact: Index(300 rows" in output
    path = next((tmp_path / "x.index").glob("values-*"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 255]))
    code, _, error = nonneg("verify", "x.index")
    assert code == 2 and path.name in error


def test_a_damaged_index_is_an_error(nonneg, tmp_path):
    nonneg("index", "x.features")
    (path,) = (tmp_path / "x.index").glob("places-*")
    path.write_bytes(path.read_bytes()[:-4])
    code, _, error = nonneg("search", "x.features", "--like", "s1")
    assert code == 2 and "is damaged" in error and "make it again" in error
