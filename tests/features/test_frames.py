"""Tables of pandas and polars from features, and features from tables."""

import numpy as np
import pytest
import scipy.sparse as sp

from nonneg import Features, InputError

pd = pytest.importorskip("pandas")

CODES = np.array([[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 0, 3]], np.float32)


def full(codes):
    return Features(
        codes,
        ids=["x", "y", "z"],
        labels=[1, -1, 0],
        label_names=("zebra", "ant"),
        texts=["one", None, "three"],
        names={0: "ears", 1: "tail", 2: "tail", 3: "label"},
    )


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_table_and_back_is_the_same(layout):
    features = full(layout(CODES))
    frame = features.to_frame()
    assert list(frame.columns) == ["label", "text", "ears", "tail 1", "tail 2", "label 3"]
    assert list(frame.index) == ["x", "y", "z"] and frame.loc["x", "label"] == "ant"
    assert all(isinstance(kind, pd.SparseDtype) for kind in frame.dtypes[2:]) == features.is_sparse
    again = Features.from_frame(frame, provenance={"from": "a table"})
    assert again.is_sparse == features.is_sparse and again.codes.dtype == np.float32
    np.testing.assert_array_equal(sp.csr_array(again.codes).toarray(), CODES)
    assert dict(again.names) == dict(features.names) and again.label_names == features.label_names
    assert again.labels.tolist() == [1, -1, 0] and again.samples.equals(features.samples)
    assert again.provenance == {"from": "a table"}


def test_features_without_ids_labels_or_names_have_plain_columns():
    frame = Features(CODES).to_frame()
    assert list(frame.columns) == [f"feature {i}" for i in range(4)]
    again = Features.from_frame(frame)
    assert not again.names and again.labels is None and again.id(2) == "2"


def test_labels_without_names_stay_numbers():
    frame = Features(CODES, labels=[7, -1, 3]).to_frame()
    assert frame["label"].isna().tolist() == [False, True, False]
    assert Features.from_frame(frame).labels.tolist() == [7, -1, 3]


def test_a_table_of_words_and_whole_numbers_becomes_features():
    frame = pd.DataFrame({"id": [10, 11], "label": ["dog", None], "wings": [0, 2], "legs": [4, 2]})
    features = Features.from_frame(frame)
    assert features.id(1) == "11" and features.label_names == ("dog",) and features.labels.tolist() == [0, -1]
    assert features.codes.tolist() == [[0, 4], [2, 2]] and dict(features.names) == {0: "wings", 1: "legs"}


@pytest.mark.parametrize("column", [[[1.0, 0], [0, 2.0]], [np.array([1.0, 0]), np.array([0, 2.0])]])
def test_a_column_of_lists_or_arrays_holds_the_codes(column):
    features = Features.from_frame(pd.DataFrame({"label": ["a", "b"], "code": column, "other": ["x", "y"]}), "code")
    assert features.codes.tolist() == [[1, 0], [0, 2]] and features.label_names == ("a", "b")


def test_a_table_of_polars_becomes_features():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": ["a", "b"], "label": ["dog", "cat"], "code": [[1.0, 0.0], [0.0, 2.0]]})
    features = Features.from_frame(frame, codes="code")
    assert features.id(1) == "b" and features.label_names == ("cat", "dog") and features.shape == (2, 2)


@pytest.mark.parametrize(
    ("frame", "codes", "named"),
    [
        (pd.DataFrame({"wings": ["two", "none"]}), None, "'wings'"),
        (pd.DataFrame({"wings": [1.0]}), "legs", "'legs'"),
        (pd.DataFrame({"code": [[1.0], [1.0, 2.0]]}), "code", "row 1"),
        ([[1.0]], None, "frame"),
    ],
)
def test_what_is_not_a_table_of_numbers_is_rejected(frame, codes, named):
    with pytest.raises(InputError, match=named):
        Features.from_frame(frame, codes)
