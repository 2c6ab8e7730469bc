import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.features import Features, verify


def out_of_bounds() -> sp.csr_array:
    return sp.csr_array((np.ones(2, np.float32), np.array([0, 50_000_000]), np.array([0, 1, 2])), shape=(2, 3))


def test_everything_survives_a_round_trip(features, tmp_path):
    loaded = Features.load(features.save(tmp_path / "x.features"))
    assert loaded.is_sparse == features.is_sparse
    np.testing.assert_array_equal(dense(loaded.codes), dense(features.codes))
    np.testing.assert_array_equal(loaded.labels, features.labels)
    assert loaded.label_names == ("circle", "square", "star")
    assert (loaded.id(7), loaded.text(7), loaded.media(7)) == ("sample 7", "text 7 ☃", b"\x07")
    assert dict(loaded.names) == {2: "wheels"}
    assert loaded.provenance["seed"] == 0
    assert repr(loaded) == repr(features)
    assert repr(verify(tmp_path / "x.features")) == repr(features)


def test_everything_except_codes_is_optional(dense, tmp_path):
    loaded = Features.load(Features(dense.astype(np.float16)).save(tmp_path / "x.features"))
    assert loaded.codes.dtype == np.float16
    assert (loaded.id(3), loaded.text(3), loaded.media(3), loaded.labels) == ("3", None, None, None)
    assert loaded.feature(0).labels == {}


def test_features_are_immutable(features, tmp_path):
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


def test_the_array_given_stays_writeable(dense):
    Features(dense)
    dense[0, 0] = 5


def test_a_card_describes_a_column_of_the_codes(features, dense):
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
        ({"codes": np.ones((2, 2), int)}, "codes .*int64.*float16"),
        ({"codes": np.ones(3, np.float32)}, r"codes .*\(3,\).*\(samples, features\)"),
        ({"codes": np.ones((0, 3), np.float32)}, r"codes .*\(0, 3\)"),
        ({"codes": np.array([[np.nan]], np.float32)}, r"codes .*NaN .*1 row \(0\)"),
        ({"codes": sp.csr_array([[1.0], [np.inf], [0], [np.nan]])}, r"codes .*infinite .*2 rows \(1, 3\)"),
        ({"codes": out_of_bounds()}, "codes .*sparse matrix"),
        ({"ids": ["a"]}, "ids: 1 .*2"),
        ({"ids": ["a", "a"]}, "ids: .*the same"),
        ({"ids": ["a", 7]}, "ids: .*string"),
        ({"ids": ["a", None]}, "ids: .*missing"),
        ({"ids": ["a", "\ud800"]}, "ids: .*not valid Unicode"),
        ({"labels": [0, 1, 2]}, r"labels .*\(3,\).*2 integers"),
        ({"labels": [0.5, 1.0]}, r"labels holds the number 0\.5"),
        ({"labels": ["a", "b"], "label_names": ["a", "b"]}, "labels .*2 integers"),
        ({"labels": [0, 1], "label_names": ["only one"]}, "labels .*1, expected -1 to 0"),
        ({"labels": [0, 2**31]}, "labels .*2147483648, expected -1 to 2147483647"),
        ({"ids": "ab"}, "ids: a string"),
        ({"labels": np.array([0, 2**64 - 5], np.uint64)}, "labels .*18446744073709551611"),
        ({"label_names": [3, 5]}, "label_names: 3 .*int.*string"),
        ({"label_names": ["x", "x"]}, "label_names: .*the same"),
        ({"names": {1.5: "x"}}, "names: 1.5 .*'x'.*number"),
        ({"names": {1: None}}, "names: 1 .*None.*string"),
        ({"names": {7: "x"}}, "names: .*7 .*0 to 2"),
        ({"names": {1: "two\nlines"}}, "names: feature 1 .*two.*one line"),
        ({"provenance": {"lr": np.float32(1)}}, "provenance .*JSON"),
    ],
)
def test_invalid_arguments_are_rejected_by_name_and_value(arguments, message):
    with pytest.raises(InputError, match=message):
        Features(**{"codes": np.ones((2, 3), np.float32), **arguments})


def test_codes_may_all_be_zero(tmp_path):
    empty = Features(sp.csr_array((5, 4), dtype=np.float32))
    assert verify(empty.save(tmp_path / "x.features")).shape == (5, 4)
    assert empty.feature(0).active == 0


def test_codes_in_other_byte_orders_and_layouts_are_converted(dense, tmp_path):
    for odd in (dense.astype(">f4"), np.asfortranarray(dense), dense[::1, ::-1][:, ::-1]):
        np.testing.assert_array_equal(Features.load(Features(odd).save(tmp_path / "x", overwrite=True)).codes, dense)


def test_active_means_the_same_as_in_the_metrics(features):
    from nonneg.metrics import class_consistency

    support = class_consistency(features.codes, features.labels).support
    assert [features.feature(j).active for j in range(features.shape[1])] == support.tolist()
    assert features.active.tolist() == support.tolist()


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        (np.array(["World", "Sports", "World"]), [1, 0, 1], ("Sports", "World")),
        (["World", None, ""], [0, -1, -1], ("World",)),
        (np.array([np.nan, 3.0, 9.0]), [-1, 0, 1], ("3", "9")),
        ([None, float("nan"), None], [-1, -1, -1], ()),
        (pd.Series(["b", "a", "b"]), [1, 0, 1], ("a", "b")),
        ([4, 2, -7], [4, 2, -1], ()),
    ],
)
def test_words_are_numbered_and_name_their_numbers(labels, numbers, names, tmp_path):
    features = Features(np.eye(3), labels=labels)
    assert features.labels.tolist() == numbers and features.label_names == names
    again = Features.load(features.save(tmp_path / "x.features"))
    assert again.labels.tolist() == numbers and again.label_names == names


def test_a_feature_that_is_not_a_number_is_an_error(features):
    with pytest.raises(InputError, match="feature is 'wheels', expected a number from 0 to"):
        features.feature("wheels")


def test_unlabelled_samples_do_not_count_as_a_class():
    features = Features(np.ones((5, 2), np.float32), labels=[0, 0, 1, -1, -7], label_names=("a", "b"))
    assert features.labels.tolist() == [0, 0, 1, -1, -1]
    assert dict(features.feature(0).labels) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert "2 labels" in repr(features)


def test_loading_and_looking_at_features_does_not_import_torch(features, tmp_path):
    folder = Features(features.codes, pixels=np.zeros((30, 2, 2, 3), np.uint8)).save(tmp_path / "x.features")
    program = """
import sys
from nonneg.features import Features, verify
features = Features.load(sys.argv[1])
features.units, features.take([1, 2]).feature(0)._repr_html_(), verify(sys.argv[1])
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_card_is_shown_in_a_notebook_with_all_data_escaped():
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


@pytest.mark.parametrize("columns", ["abc", [0], [[0], [1, 2]], [0, 1, 10**30], [0, 1, -2]])
def test_columns_of_a_model_that_cannot_be_are_an_error(columns):
    features = Features(np.eye(3, dtype=np.float32), provenance={"columns": columns})
    with pytest.raises(InputError, match="columns"):
        _ = features.model_columns


def test_characters_that_are_not_unicode_can_be_sent_to_a_browser(dense):
    labels = np.zeros(len(dense), np.int64)
    features = Features(dense, labels=labels, label_names=("\ud800",), provenance={"title": ["a\udc80", 1]})
    shown = json.dumps([features.label_names, features.provenance], ensure_ascii=False).encode()
    assert b"ud800" in shown and features.provenance["title"] == ["a?", 1]


def test_agreement_of_partners_follows_the_columns():
    features = Features(np.eye(3, dtype=np.float32)).with_provenance({"agreement": {"auc": [0.9, None, 0.6]}})
    assert features.agreement[[0, 2]].tolist() == [0.9, 0.6] and np.isnan(features.agreement[1])
    assert features.with_columns([2, -1, 0]).agreement[[0, 2]].tolist() == [0.6, 0.9]
    assert np.isnan(features.with_columns([2, -1]).agreement[1])
    assert Features(np.eye(3, dtype=np.float32)).agreement is None
