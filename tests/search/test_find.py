"""Queries that only readable codes allow, compared with sums written out by hand."""

import json

import numpy as np
import pytest

from nonneg import Features, InputError
from nonneg.search import Index, Query, Where, find, parsed_feature
from tests.search.parity import brute_force


def unit(codes, row):
    code = codes[[row]].toarray()[0].astype(np.float64)
    return code / np.linalg.norm(code)


def expected(codes, code, k, allowed):
    rows, _ = brute_force(codes, code, k, allowed)
    return [f"s{row}" for row in rows]


def every_row_but(*rows):
    allowed = np.ones(300, bool)
    allowed[list(rows)] = False
    return allowed


def test_like_samples_minus_others(features, codes):
    code = np.maximum(unit(codes, 4) + unit(codes, 8) - unit(codes, 20), 0)
    hits = find(features, Query(like=("s4", "s8"), minus=("s20",), k=7))
    assert [hit.id for hit in hits] == expected(codes, code, 7, every_row_but(4, 8, 20))


def test_features_by_number_and_by_name(features, codes):
    code = np.zeros(60)
    code[[17, 1]] = 1.0, 0.5
    hits = find(features, Query(features=((17, 1.0), ("wheels", 0.5))))
    assert [hit.id for hit in hits] == expected(codes, code, 10, None)
    assert {part.name for hit in hits for part in hit.contributions} == {"wheels", None}


def test_without_a_feature_and_within_a_label(features, codes, labels):
    hits = find(features, Query(like=("s4",), without=("wheels", 5), label="dog"))
    dense = codes.toarray()
    allowed = (dense[:, 1] == 0) & (dense[:, 5] == 0) & (labels == 1) & every_row_but(4)
    assert [hit.id for hit in hits] == expected(codes, unit(codes, 4), 10, allowed)
    assert all(hit.label == "dog" for hit in hits) and len(hits)


def test_contributions_add_up_to_the_score(features, codes):
    for hit in find(features, Query(like=("s4", "s9"), features=((2, 0.3),), k=50)):
        total = 0.0
        for part in hit.contributions:
            total += part.value
        assert total == hit.score
        assert [part.feature for part in hit.contributions] == sorted(part.feature for part in hit.contributions)


def test_the_score_is_the_one_of_the_index(features, codes):
    index = Index.build(features)
    hits = find(features, Query(like=("s4",)), index)
    found = index.query(unit(codes, 4), 11)
    assert [(hit.row, hit.score) for hit in hits] == [
        (row, score) for row, score in zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True) if row != 4
    ][:10]


@pytest.mark.parametrize("engine", ["exact", "seismic", "milvus"])
def test_every_engine_answers_it(engine, features):
    for module in {"seismic": ("seismic",), "milvus": ("pymilvus", "milvus_lite")}.get(engine, ()):
        pytest.importorskip(module, reason=f"the extra {engine} is not installed")
    query = Query(like=("s4",), features=((2, 0.3),))
    with Index.build(features, engine) as index:
        assert find(features, query, index) == find(features, query)


def test_hits_know_text_label_and_what_an_addition_lacks(features, codes):
    index = Index.build(features)
    index.add(codes[[4]], ["new"])
    hits = {hit.id: hit for hit in find(features, Query(like=("s4",), k=300), index)}
    assert hits["new"].text is None and hits["new"].label is None
    assert hits["s8"].text == "text of 8" and hits["s9"].label == "cat"
    assert find(features, Query(like=("new",)), index)[0].row in range(300)


def test_hits_print_as_a_table(features):
    hits = find(features, Query(features=(("wheels", 1.0),), k=2))
    lines = hits.markdown().splitlines()
    assert lines[0] == "| id | label | score | because of | text |"
    assert lines[2].startswith(f"| {hits[0].id} | ") and f"wheels: {hits[0].score:.3f}" in lines[2]
    assert json.loads(json.dumps(hits.to_dict()))[0]["contributions"][0]["name"] == "wheels"


def test_a_query_is_saved_and_runs_again(features, tmp_path):
    query = Query(like=("s4",), minus=("s9",), features=((17, 1.0), ("wheels", 0.5)), without=(4,), label="owl", k=3)
    query.save(tmp_path / "q.json")
    assert Query.load(tmp_path / "q.json") == query
    assert find(features, Query.load(tmp_path / "q.json")) == find(features, query)


@pytest.mark.parametrize(
    ("given", "feature"),
    [
        ("17:1.0", (17, 1.0)),
        ("wheels:0.5", ("wheels", 0.5)),
        ("17", (17, 1.0)),
        ("a:b", ("a:b", 1.0)),
        (":", (":", 1.0)),
    ],
)
def test_features_as_people_type_them(given, feature):
    assert parsed_feature(given) == feature


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"like": ("nobody",)}, "id 'nobody' is none of the 300 samples"),
        ({"features": ((60, 1.0),)}, "feature is 60, expected 0 to 59, or a name"),
        ({"features": (("sails", 1.0),)}, "'sails' is the name of no feature, expected the name of one, or a number"),
        ({"features": (("fur", 1.0),)}, "'fur' is the name of features 2, 3, expected the name of one"),
        ({"features": ((1, 0.0),)}, "feature 1 has the weight 0.0, expected more than 0"),
        ({"features": ((1, float("nan")),)}, "feature 1 has the weight nan, expected more than 0"),
        ({"like": ("s1",), "without": ("sails",)}, "'sails' is the name of no feature"),
        ({"like": ("s1",), "label": "cow"}, "label is 'cow', expected one of cat, dog, owl"),
        ({"like": ("s1",), "k": 0}, "k is 0, expected a whole number, at least 1"),
        ({"like": ("s1",), "minus": ("s1",)}, "nothing is left of the query"),
        ({"like": ("s3",)}, "nothing is left of the query"),
        ({"minus": ("s1",)}, "the query names nothing to look for"),
        ({"like": "s1"}, "like is 's1', expected ids, a string each"),
        ({"image": "x.png"}, "image is given without a run"),
    ],
)
def test_what_cannot_be_asked_is_refused(query, sentence, features):
    with pytest.raises(InputError, match=sentence):
        find(features, Query(**query))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "the query is not JSON"),
        ("[]", "the query is a list, expected an object"),
        ('{"likes": ["a"]}', "the query has the key 'likes', expected some of like, minus, features"),
        ('{"features": [17]}', "expected pairs of a feature and its weight"),
        ('{"like": [1]}', "expected ids, a string each"),
    ],
)
def test_a_file_that_is_no_query_is_refused_by_name(content, sentence, tmp_path):
    (tmp_path / "q.json").write_text(content)
    with pytest.raises(InputError, match=rf"q\.json: .*{sentence}"):
        Query.load(tmp_path / "q.json")


def test_an_index_of_other_features_is_refused(features):
    other = Index.build(Features(np.eye(3)))
    with pytest.raises(InputError, match="the index has 3 features, expected 60"):
        find(features, Query(like=("s1",)), other)


def test_labels_without_names_go_by_number(codes, labels):
    plain = Features(codes, labels=labels)
    hits = find(plain, Query(like=("4",), label="2"))
    assert {hit.label for hit in hits} == {"2"}
    with pytest.raises(InputError, match="label is 'owl', expected a whole number"):
        find(plain, Query(like=("4",), label="owl"))


def test_where_is_checked(features, codes):
    with pytest.raises(InputError, match="without names feature 60, expected 0 to 59"):
        Index.build(features).query(codes, where=Where(without=(60,)))
