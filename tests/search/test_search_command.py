"""`nonneg search` and `nonneg index` as a user meets them."""

import json
import sys

import pytest

from nonneg import Features
from nonneg.cli import main
from nonneg.search import Index, Query, find


@pytest.fixture
def nonneg(monkeypatch, capsys, tmp_path, features):
    """Run a command in a folder with features; exit code, standard output and standard error."""
    features.save(tmp_path / "x.features")

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["nonneg", *arguments])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return (code, *capsys.readouterr())

    return run


def ids(output):
    return [hit["id"] for hit in json.loads(output)]


def test_it_finds_without_an_index_and_with_one(nonneg, features):
    asked = ["search", "x.features", "--like", "s4", "--feature", "wheels:0.5", "--without", "5", "--json"]
    code, before, error = nonneg(*asked)
    assert code == 0, error
    wanted = find(features, Query(like=("s4",), features=(("wheels", 0.5),), without=(5,)))
    assert json.loads(before) == json.loads(json.dumps(wanted.to_dict()))
    code, output, error = nonneg("index", "x.features")
    assert (code, output) == (0, "Indexed: x.index\n"), error
    assert nonneg(*asked)[1] == before


def test_it_prints_a_table(nonneg):
    code, output, _ = nonneg("search", "x.features", "--feature", "wheels", "--label", "cat", "--k", "3")
    assert code == 0 and len(output.splitlines()) == 5
    assert "| id | label | score | because of | text |" in output and "wheels" in output


def test_a_query_is_saved_and_run_again(nonneg, tmp_path):
    _, first, _ = nonneg("search", "x.features", "--like", "s4", "--minus", "s9", "--save", "q.json", "--json")
    assert Query.load(tmp_path / "q.json") == Query(like=("s4",), minus=("s9",))
    assert nonneg("search", "x.features", "--query", "q.json", "--json")[1] == first


def test_an_index_of_another_engine_is_used(nonneg, tmp_path):
    pytest.importorskip("seismic", reason="the extra seismic is not installed")
    assert nonneg("index", "x.features", "--engine", "seismic", "--out", "fast")[:2] == (0, "Indexed: fast\n")
    exact = nonneg("search", "x.features", "--like", "s4", "--json")[1]
    assert nonneg("search", "x.features", "--like", "s4", "--index", "fast", "--json")[1] == exact


def test_cosine_is_remembered(nonneg, tmp_path):
    nonneg("index", "x.features", "--cosine")
    index = Index.open(tmp_path / "x.index")
    assert index.cosine and index.query(index.code(9)).scores[0, 0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["search", "nowhere.features", "--like", "a"], "nowhere.features does not exist, expected features or a run"),
        (["search", "x.features", "--like", "nobody"], "id 'nobody' is none of the 300 samples"),
        (["search", "x.features", "--feature", "sails:2"], "'sails' is the name of no feature"),
        (["search", "x.features", "--feature", "99"], "feature is 99, expected 0 to 59"),
        (["search", "x.features", "--feature", "1:-2"], "feature 1 has the weight -2.0, expected more than 0"),
        (["search", "x.features"], "the query names nothing to look for"),
        (["search", "x.features", "--like", "s1", "--index", "none"], "none is not an index: there is no such folder"),
        (
            ["search", "x.features", "--like", "s1", "--query", "q.json"],
            "--like is given, expected only without --query",
        ),
        (["search", "x.features", "--query", "q.json"], "q.json cannot be read: no such file"),
        (["index", "x.features", "--uri", "http://x:1"], "--uri is http://x:1 with --engine exact"),
        (["index", "nowhere"], "nowhere does not exist, expected features or a run"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, sentence, nonneg):
    code, _, error = nonneg(*arguments)
    assert code == 2 and "Traceback" not in error
    (line,) = [line for line in error.splitlines() if line.startswith("nonneg: ")]
    assert sentence in line


def test_an_index_of_other_features_is_refused(nonneg, tmp_path, codes):
    nonneg("index", "x.features")
    Features(codes * 2, ids=[f"s{row}" for row in range(300)]).save(tmp_path / "x.features", overwrite=True)
    code, _, error = nonneg("search", "x.features", "--like", "s1")
    assert code == 2 and "x.index is an index of other features than x.features; build it again" in error
    code, _, error = nonneg("index", "x.features")
    assert code == 2 and "x.index exists already; choose another --out, or --overwrite" in error
    assert nonneg("index", "x.features", "--overwrite")[0] == 0
    assert nonneg("search", "x.features", "--like", "s1")[0] == 0


def test_a_damaged_index_is_said(nonneg, tmp_path):
    nonneg("index", "x.features")
    (path,) = (tmp_path / "x.index").glob("places-*")
    path.write_bytes(path.read_bytes()[:-4])
    code, _, error = nonneg("search", "x.features", "--like", "s1")
    assert code == 2 and "is damaged: it has" in error and "build the index again" in error
