"""The pages' numbers equal those computed from the codes."""

import base64
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError, metrics
from nonneg.codes import dense
from nonneg.explorer import Explorer, open_explorer
from nonneg.explorer._feature_set import FeatureSet
from nonneg.explorer._map_page import map_page
from nonneg.explorer._requests import Query, Weight
from nonneg.features import SampleMap


def made(sparse=True, samples=200, features=15, **parts) -> Explorer:
    generator = np.random.default_rng(1)
    codes = generator.random((samples, features), np.float32) * (generator.random((samples, features)) < 0.3)
    codes[:, 4] = 0
    labels = generator.integers(-1, 3, samples)
    parts = {"labels": labels, "label_names": ("a", "b", "c"), **parts}
    return open_explorer([Features(sp.csr_array(codes) if sparse else codes, **parts)])


@pytest.fixture(params=[True, False], ids=["sparse", "dense"])
def explorer(request) -> Explorer:
    return made(request.param)


def codes_of(explorer: Explorer):
    return np.asarray(dense(explorer.sets[0].features.codes), np.float64)


def units(explorer: Explorer):
    codes = codes_of(explorer)
    return codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-30)


def test_feature_statistics_equal_the_metrics(explorer):
    codes, labels = codes_of(explorer), explorer.sets[0].features.labels
    consistency = metrics.class_consistency(codes, labels)
    overlap = np.abs(metrics.correlation_matrix(codes).numpy())
    np.fill_diagonal(overlap, 0)
    for row in explorer.table(0).rows:
        if row.feature == 4:
            assert (row.active, row.consistency, row.entropy, row.redundancy) == (0, None, None, None)
            continue
        assert row.frequency == pytest.approx(float(metrics.activity(codes).frequency[row.feature]))
        assert row.expected_activation == pytest.approx(float(metrics.expected_activation(codes)[row.feature]))
        assert row.consistency == pytest.approx(float(consistency.per_feature[row.feature]))
        assert row.entropy == pytest.approx(float(consistency.per_feature_entropy[row.feature]))
        assert row.redundancy == pytest.approx(overlap[row.feature].max(), rel=1e-5)
    slow = explorer.figures(0)
    assert slow.consistency == pytest.approx(consistency.supported) and slow.chance == pytest.approx(consistency.floor)


def test_strongest_samples_and_histogram(explorer):
    codes = codes_of(explorer)
    page = explorer.feature(0, 3)
    order = [row for row in np.argsort(-codes[:, 3], kind="stable") if codes[row, 3]]
    assert [sample.row for sample in page.strongest] == order[:18]
    assert [sample.row for sample in explorer.strip(0, 3).strongest] == order[:9]
    assert page.histogram.inactive == (codes[:, 3] == 0).sum()
    assert sum(page.histogram.counts) + page.histogram.inactive == len(codes)


def test_ties_are_broken_by_row_as_on_the_card():
    features = Features(np.ones((30, 1), np.float32))
    rows = [sample.row for sample in open_explorer([features]).strip(0, 0).strongest]
    assert tuple(rows) == features.feature(0, top=9).top


def test_bands_cover_all_quarters_of_the_active_samples(explorer):
    codes = codes_of(explorer)
    values = np.sort(codes[codes[:, 3] > 0, 3])
    bands = explorer.feature(0, 3).bands
    assert [band.title for band in bands] == ["strong", "medium", "weak", "weakest"]
    for place, band in enumerate(reversed(bands)):
        quarter = values[round(place / 4 * len(values)) : round((place + 1) / 4 * len(values))]
        assert (band.low, band.high) == pytest.approx((quarter[0], quarter[-1]))
        assert all(quarter[0] <= codes[sample.row, 3] <= quarter[-1] for sample in band.samples)


def test_near_misses_are_inactive_and_have_the_usual_companions(explorer):
    codes, unit = codes_of(explorer), units(explorer)
    strongest = [row for row in np.argsort(-codes[:, 3], kind="stable") if codes[row, 3]][:50]
    typical = unit[strongest].sum(0)
    typical[3] = 0
    scores = np.where(codes[:, 3] == 0, unit @ typical, -1)
    found = [sample.row for sample in explorer.feature(0, 3).near_misses]
    assert not codes[found, 3].any()
    assert scores[found] == pytest.approx(np.sort(scores)[::-1][:9])


def test_co_active_and_similar_features(explorer):
    columns = codes_of(explorer)
    columns = columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-30)
    cosine = columns.T @ columns
    page = explorer.feature(0, 3)
    others = sorted((i for i in range(15) if i not in (3, 4)), key=lambda i: -cosine[3, i])
    assert [each.other.feature for each in page.co_active] == others[:6]
    active = codes_of(explorer) > 0
    for each in page.co_active:
        assert each.co_activation == pytest.approx(active[active[:, 3], each.other.feature].mean())

    def profile_cosine(i):
        rest = [k for k in range(15) if k not in (3, i)]
        a, b = cosine[3, rest], cosine[i, rest]
        return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))

    for each in page.similar:
        assert each.cosine == pytest.approx(profile_cosine(each.other.feature), abs=1e-4)
    assert page.similar[0].cosine == pytest.approx(
        max(profile_cosine(i) for i in range(15) if i not in (3, 4)), abs=1e-4
    )


def test_shares_of_a_sample_sum_to_one(explorer):
    page = explorer.sample(0, 7)
    assert sum(part.share for part in page.parts) == pytest.approx(1)
    assert {part.caption.feature for part in page.parts} == set(np.flatnonzero(codes_of(explorer)[7]))


def test_neighbours_are_ranked_by_cosine_and_contributions_sum_to_the_score(explorer):
    unit = units(explorer)
    scores = unit @ unit[7]
    scores[7] = -1
    page = explorer.sample(0, 7)
    assert [hit.score for hit in page.neighbours] == pytest.approx(np.sort(scores)[::-1][:12])
    for hit in page.neighbours:
        assert sum(each.value for each in hit.contributions) == pytest.approx(hit.score, abs=1e-12)
        assert scores[hit.sample.row] == pytest.approx(hit.score)


def test_a_feature_that_is_switched_off_does_not_count(explorer):
    unit = units(explorer)
    off = explorer.sample(0, 7).parts[0].caption.feature
    query = unit[7].copy()
    query[off] = 0
    scores = unit @ query
    scores[7] = -1
    page = explorer.sample(0, 7, [off])
    assert [hit.score for hit in page.neighbours] == pytest.approx(np.sort(scores)[::-1][:12])
    assert off not in {each.feature for hit in page.neighbours for each in hit.contributions}


def test_a_query_combines_weights_examples_and_exclusions(explorer):
    unit = units(explorer)
    query = Query(features=(Weight(feature=3, weight=2.0), Weight(feature=5, weight=0.5)), like=(9,), without=(1,))
    weights = unit[9].copy()
    weights[3] += 2
    weights[5] += 0.5
    kept = (unit[:, 1] == 0) & (np.arange(len(unit)) != 9)
    scores = np.where(kept, unit @ weights, -1)
    found = explorer.search(0, query)
    assert found.candidates == kept.sum()
    assert [hit.score for hit in found.hits] == pytest.approx(np.sort(scores)[::-1][:24])
    assert not unit[[hit.sample.row for hit in found.hits], 1].any()


def test_a_name_is_scored_by_its_label_on_held_out_samples():
    labels = np.arange(400) % 2
    codes = np.stack([labels, np.ones(400)], 1).astype(np.float32)
    codes[:20, 0] = 1 - codes[:20, 0]  # some exceptions
    features = Features(codes, labels=labels, label_names=("cat", "dog"), names={0: "dogs"})
    score = open_explorer([features]).feature(0, 0).name_score
    assert score is not None and score.criterion == "the label “dog”" and 0.9 < score.score < 1


def test_a_name_is_scored_by_its_words_in_texts():
    rain = np.arange(400) % 4 == 0
    texts = ["Heavy rain" if wet else "a dry day" for wet in rain]
    codes = np.stack([rain, ~rain], 1).astype(np.float32)
    explorer = open_explorer([Features(codes, texts=texts, names={0: "rain", 1: "rain"})])
    scores = [explorer.feature(0, feature).name_score for feature in (0, 1)]
    assert [score.score for score in scores if score] == [1.0, 0.0]


def test_without_a_name_there_is_no_score(explorer):
    assert explorer.feature(0, 3).name_score is None


def test_features_of_texts_get_distinctive_words():
    generator = np.random.default_rng(0)
    topics = [["goal", "match", "team"], ["market", "price", "stock"]]
    texts = [" ".join(generator.permutation(topics[row % 2])) for row in range(200)]
    explorer = open_explorer([Features(np.eye(2, dtype=np.float32)[np.arange(200) % 2], texts=texts)])
    assert not explorer.overview().sets[0].is_settled
    explorer.prepare()
    assert explorer.overview().sets[0].is_settled
    assert set((explorer.sets[0].hint(1) or "").replace(",", "").split()) == set(topics[1])


def test_a_label_is_a_hint_only_if_it_stands_out():
    codes = np.array([[1, 1], [1, 1], [0, 1], [0, 1]] * 10, np.float32)
    features = FeatureSet(Features(codes, labels=[0, 0, 1, 1] * 10, label_names=("cat", "dog")), "pets")
    assert [features.hint(0), features.hint(1)] == ["mostly cat", None]


def test_overview_counts_live_and_dense_features(explorer):
    codes = codes_of(explorer)
    found = explorer.overview().sets[0]
    assert (found.live, found.dead) == (14, 1) and sum(found.frequency_counts) == 14
    assert found.dense == ((codes > 0).mean(0) > 0.5).sum()
    assert found.active_mean == pytest.approx((codes > 0).sum(1).mean())


def test_permuted_features_are_matched(explorer):
    features = explorer.sets[0].features
    order = np.random.default_rng(0).permutation(15)
    pair = open_explorer([features, Features(features.codes[:, order])]).comparison()
    assert pair.agreement == pytest.approx(1)
    for each in pair.pairs:
        assert each.first and each.second and order[each.second.feature] == each.first.feature


def test_signed_codes_can_be_explored():
    codes = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    explorer = open_explorer([Features(codes)])
    assert explorer.overview().sets[0].has_negative
    assert sum(part.share for part in explorer.sample(0, 3).parts) == pytest.approx(1)
    assert len(explorer.feature(0, 2).strongest) == 18


@pytest.mark.parametrize("codes", [np.zeros((3, 2), np.float32), np.ones((1, 1), np.float32)])
def test_tiny_and_empty_codes_can_be_explored(codes):
    explorer = open_explorer([Features(codes)])
    assert explorer.overview().sets[0].features == codes.shape[1]
    assert explorer.feature(0, 0).row.feature == 0
    assert explorer.sample(0, 0).neighbours == ()
    assert explorer.figures(0).consistency is None


def test_errors_name_what_is_missing(explorer):
    for ask, message in (
        (lambda: explorer.feature(0, 15), "feature is 15, expected 0 to 14"),
        (lambda: explorer.sample(0, -1), "sample is -1, expected 0 to 199"),
        (lambda: explorer.table(1), "set is 1, expected 0 to 0"),
        (lambda: explorer.comparison(), "one set of features is open, expected two"),
        (lambda: open_explorer([]), "0 sets of features are given, expected one or two"),
    ):
        with pytest.raises(InputError, match=message):
            ask()


def test_thousands_of_labels_take_little_memory():
    codes = sp.random_array((3000, 1000), density=0.01, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    features = Features(codes, labels=np.arange(3000))
    _ = features.units
    tracemalloc.start()
    page = open_explorer([features]).feature(0, 5)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 30_000_000  # one number per label and feature would take 24 MB for each of three arrays
    assert page.labelled == page.row.active and {label.active for label in page.labels} == {1}
    assert page.row.entropy == pytest.approx(np.log(page.row.active))


def test_cosines_of_dense_codes_are_computed_in_time():
    codes = np.random.default_rng(0).normal(size=(2000, 1200)).astype(np.float32)
    features = FeatureSet(Features(codes), "dense")
    begun = time.perf_counter()
    products = features.products
    assert time.perf_counter() - begun < 3  # about 0.2 s; as a sparse product, more than 6 s
    scaled = codes / np.linalg.norm(codes, axis=0)
    np.testing.assert_allclose(products, scaled.T @ scaled, atol=1e-5)


def test_the_best_of_several_labels_that_share_a_word_with_a_name_scores_it():
    codes = np.zeros((90, 2), np.float32)
    codes[:30, 0] = codes[30:, 1] = 1
    names = ("green frog", "red frog", "tree frog")
    labels = np.roll(np.repeat([0, 1, 2], 30), 30)
    explorer = open_explorer([Features(codes, labels=labels, label_names=names, names={0: "frogs"})])
    found = explorer.feature(0, 0).name_score
    assert found is not None and found.score == 1 and "tree frog" in found.criterion


def test_a_feature_of_pairs_says_how_far_partners_agree():
    features = Features(np.eye(2, dtype=np.float32)).with_provenance({"agreement": {"auc": [0.875, None]}})
    rows = open_explorer([features]).table(0).rows
    assert [row.agreement for row in rows] == [0.875, None]


@pytest.mark.parametrize(
    "given",
    [
        [1],
        {"x": 3},
        {"x": {"values": ["a", "b"], "chance": [0.1, 0.1]}},
        {"x": {"values": [0.5], "chance": []}},
        {"x": {"values": [float("nan"), 0.5], "chance": [0.1, 0.1]}},
        {"": {"values": [0.5, 0.5], "chance": [0.1, 0.1]}},
    ],
)
def test_figures_of_features_that_are_not_numbers_are_left_out(given):
    features = Features(np.eye(2, dtype=np.float32), provenance={"feature_figures": given})
    assert open_explorer([features]).feature(0, 0).figures == ()


@pytest.mark.parametrize(
    "given",
    [[1], {"x": 3}, {"x": [[["a", 0.5]]]}, {"x": [[["a", 2.0, 0.1]]]}, {"x": [[[1, 0.5, 0.1]]]}, {"x": []}, {"x": [3]}],
)
def test_terms_of_features_that_are_not_shares_are_left_out(given):
    features = Features(np.eye(2, dtype=np.float32), provenance={"feature_terms": given})
    assert open_explorer([features]).feature(0, 0).terms == ()


def test_samples_are_found_in_time_among_many_labels():
    count = 70_000
    codes = np.eye(8, dtype=np.float32)[np.arange(count) % 8]
    features = Features(codes, labels=np.arange(count), label_names=[f"label {i}" for i in range(count)])
    explorer = open_explorer([features])
    begun = time.process_time()
    assert explorer.find(0, "label 69999").rows == (69_999,)
    assert time.process_time() - begun < 10
    shown = np.frombuffer(
        base64.b64decode(map_page(explorer.sets[0], SampleMap("", np.zeros((count, 2)))).labels), "<u2"
    )
    assert (shown[:65_535] == np.arange(65_535)).all() and (shown[65_535:] == 65_535).all()  # 65,535 is no label
