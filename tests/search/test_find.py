"""`find` and `Query`, compared with sums written out by hand."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from nonneg import Features, InputError
from nonneg.features import Suggestion
from nonneg.search import Index, Query, Where, find, named_features, parsed_feature
from tests.search.parity import brute_force, reference_codes


def unit(codes, row):
    code = codes[[row]].toarray()[0].astype(np.float64)
    return code / np.linalg.norm(code)


def expected(codes, code, k, allowed):
    rows, _ = brute_force(reference_codes(codes, cosine=True), code, k, allowed)
    return [f"s{row}" for row in rows]


def every_row_but(*rows):
    allowed = np.ones(300, bool)
    allowed[list(rows)] = False
    return allowed


def test_hits_resemble_some_samples_and_not_others(features, codes):
    code = np.maximum(unit(codes, 4) + unit(codes, 8) - unit(codes, 20), 0)
    hits = find(features, Query(like=("s4", "s8"), minus=("s20",), k=7))
    assert [hit.id for hit in hits] == expected(codes, code, 7, every_row_but(4, 8, 20))


def test_features_are_given_by_number_or_by_name(features, codes):
    code = np.zeros(60)
    code[[17, 1]] = 1.0, 0.5
    hits = find(features, Query(features=((17, 1.0), ("wheels", 0.5))))
    assert [hit.id for hit in hits] == expected(codes, code, 10, None)
    assert {part.name for hit in hits for part in hit.contributions} == {"wheels", None}


def test_inactive_features_and_labels_filter(features, codes, labels):
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


def test_scores_are_those_of_the_index(features):
    index = Index.build(features)
    hits = find(features, Query(like=("s4",)), index)
    found = index.query(index.code(4) / np.linalg.norm(index.code(4)), 11)
    others = [pair for pair in zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True) if pair[0] != 4][:10]
    assert [hit.row for hit in hits] == [row for row, _ in others]
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in others], rtol=1e-12)


@pytest.mark.parametrize("engine", ["exact", "seismic", "milvus"])
def test_every_engine_answers_a_query(engine, features):
    for module in {"seismic": ("seismic",), "milvus": ("pymilvus", "milvus_lite")}.get(engine, ()):
        pytest.importorskip(module, reason=f"the extra {engine} is not installed")
    query = Query(like=("s4",), features=((2, 0.3),))
    settings = {"heap_factor": 0.1} if engine == "seismic" else {}
    with Index.build(features, engine, **settings) as index:
        assert find(features, query, index) == find(features, query)


def test_hits_have_texts_and_labels_where_the_features_have_them(features, codes):
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


def test_a_changed_query_is_an_error_unless_its_checksum_is_removed(tmp_path):
    path = tmp_path / "q.json"
    Query(like=("s1",)).save(path)
    changed = path.read_text().replace("s1", "s2")
    path.write_text(changed)
    with pytest.raises(InputError, match=r"q\.json.*checksum"):
        Query.load(path)
    path.write_text(json.dumps({name: value for name, value in json.loads(changed).items() if name != "checksum"}))
    assert Query.load(path).like == ("s2",)


def test_a_saved_query_runs_again(features, tmp_path):
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
def test_features_and_weights_are_parsed(given, feature):
    assert parsed_feature(given) == feature


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"like": ("nobody",)}, "id 'nobody'.* 300"),
        ({"features": ((60, 1.0),)}, "feature is 60, expected 0 to 59"),
        ({"features": (("sails", 1.0),)}, "feature 'sails'"),
        ({"features": (("fur", 1.0),)}, "feature 'fur'.* 2 .* 3 "),
        ({"features": ((1, 0.0),)}, r"feature 1 has the weight 0\.0"),
        ({"features": ((1, float("nan")),)}, "feature 1 has the weight nan, expected a finite number above 0"),
        ({"features": ((1, float("inf")),)}, "feature 1 has the weight inf, expected a finite number"),
        ({"features": ((1, "2"),)}, r"features is \(\(1, '2'\)"),
        ({"like": ("s1",), "without": ("sails",)}, "feature 'sails'"),
        ({"like": ("s1",), "label": "cow"}, "label is 'cow'.*cat, dog, owl"),
        ({"like": ("s1",), "k": 0}, "k is 0"),
        ({"like": ("s1",), "minus": ("s1",)}, "all query weights"),
        ({"like": ("s3",)}, "all query weights"),
        ({"minus": ("s1",)}, "the query is empty"),
        ({"like": "s1"}, "like is 's1'"),
        ({"image": "x.png"}, "image is given without a run"),
        ({"like": ("s1",), "cosine": 1}, "cosine is 1"),
    ],
)
def test_an_invalid_query_is_an_error(query, found, features):
    with pytest.raises(InputError, match=found):
        find(features, Query(**query))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("{", "not JSON"),
        ("[]", "list"),
        ('{"likes": ["a"]}', "likes is not a field"),
        ('{"features": [17]}', "features is"),
        ('{"like": [1]}', "like is"),
    ],
)
def test_a_file_that_holds_no_query_is_an_error_that_names_it(content, found, tmp_path):
    (tmp_path / "q.json").write_text(content)
    with pytest.raises(InputError, match=rf"q\.json: .*{found}"):
        Query.load(tmp_path / "q.json")


def test_an_index_of_another_width_is_an_error(features):
    other = Index.build(Features(np.eye(3)))
    with pytest.raises(InputError, match="index has 3 features, expected 60"):
        find(features, Query(like=("s1",)), other)


def test_labels_without_names_are_given_by_number(codes, labels):
    plain = Features(codes, labels=labels)
    hits = find(plain, Query(like=("4",), label="2"))
    assert {hit.label for hit in hits} == {"2"}
    with pytest.raises(InputError, match="label is 'owl'"):
        find(plain, Query(like=("4",), label="owl"))


def test_an_unknown_label_offers_some_of_many(codes, labels):
    features = Features(codes, labels=labels, label_names=[f"label {number}" for number in range(5000)])
    with pytest.raises(InputError, match=r"'nothing'.*label 0, .* more") as error:
        find(features, Query(like=("0",), label="nothing"))
    assert len(str(error.value)) < 500


def test_an_unknown_feature_in_a_filter_is_an_error(features, codes):
    with pytest.raises(InputError, match="60"):
        Index.build(features).query(codes, where=Where(without=(60,)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_query_that_is_not_a_regular_file_is_an_error(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(InputError, match=re.escape(str(path))):
            Query.load(path)


@pytest.mark.parametrize("digits", [30, 5000])
@pytest.mark.parametrize("field", ["like", "label", "features"])
def test_a_number_that_is_too_large_is_unknown(field, digits):
    features = Features(np.eye(3, dtype=np.float32), labels=[0, 1, 2])
    number = "9" * digits
    given = {"like": {"like": (number,)}, "label": {"like": ("0",), "label": number}}
    with pytest.raises(InputError, match="999"):
        find(features, Query(**given.get(field) or {"features": (parsed_feature(number),)}))


def test_a_feature_is_found_by_part_of_its_name_and_candidates_are_offered(features):
    named = features.with_names({17: "Oil prices, record", 18: "oil spill", 19: "gold medal"})
    whole = find(named, Query(features=(("Oil prices, record", 1.0),)))
    assert [hit.id for hit in find(named, Query(features=(("price", 1.0),)))] == [hit.id for hit in whole]
    with pytest.raises(InputError, match=r"17 \(Oil prices, record\).*18 \(oil spill\)|18.*17"):
        find(named, Query(features=(("oil", 1.0),)))


def test_a_guess_is_found_as_tables_print_it_even_if_longer_names_contain_it(features):
    names = {17: Suggestion("oil", 0.6, 9), 18: Suggestion("oil, prices", 0.9, 9)}
    named = features.with_suggestions(names)
    assert named_features(named, "oil?") == named_features(named, "oil") == [17]


@pytest.mark.parametrize("engine", ["exact"])
def test_required_features_are_active_on_every_hit(features, codes, engine):
    required = int(np.argmax(np.diff(codes.tocsc().indptr)))
    with Index.build(features, engine) as index:
        hits = find(features, Query(like=("s4",), require=(required,), k=300), index)
    allowed = (codes[:, [required]].toarray().ravel() != 0) & every_row_but(4)
    assert {hit.row for hit in hits} <= set(np.flatnonzero(allowed)) and len(hits) > 0
    assert [hit.id for hit in hits] == expected(codes, unit(codes, 4), 300, allowed)
