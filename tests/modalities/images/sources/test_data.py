import numpy as np
import pytest

from nonneg.errors import InputError
from nonneg.modalities.images import open_source


@pytest.mark.parametrize(("name", "train", "test"), [("digits", 1400, 397), ("shapes", 1536, 512)])
def test_the_splits_of_bundled_data_are_fixed_and_disjoint(name, train, test):
    a, b = open_source(name, "train"), open_source(name, "test")
    assert (len(a), len(b)) == (train, test)
    assert a.samples.dtype == np.uint8
    pictures = {image.tobytes() for image in a.samples}
    assert not pictures & {image.tobytes() for image in b.samples}
    np.testing.assert_array_equal(a.samples, open_source(name, "train").samples)
    assert len({*a.ids, *b.ids}) == train + test
    assert set(a.labels) == set(b.labels) == set(range(len(a.label_names)))


def test_shapes_hold_every_combination_equally_often():
    source = open_source("shapes", "test")
    combinations = np.stack(list(source.factors.values()), axis=1)
    found, counts = np.unique(combinations, axis=0, return_counts=True)
    assert len(found) == np.prod([len(names) for names in source.factor_names.values()])
    assert set(counts) == {8}


def test_the_factors_of_shapes_agree_with_the_pixels():
    source = open_source("shapes", "test")
    ink = source.samples.astype(float).max(-1) > 80
    columns = np.array([np.nonzero(i.any(0))[0].mean() for i in ink])
    assert (columns < 12).tolist() == (source.factors["position"] == 0).tolist()
    area = ink.sum((1, 2))
    for shape in range(4):
        of_shape = source.factors["shape"] == shape
        large = source.factors["size"] == 1
        assert area[of_shape & large].min() > area[of_shape & ~large].max()
    red, green = source.samples[..., 0].max((1, 2)).astype(int), source.samples[..., 1].max((1, 2)).astype(int)
    assert ((red - green > 80) == (source.factors["colour"] == 0)).all()


def test_rows_are_selected_by_number_or_by_mask():
    source = open_source("digits", "test")
    rows = np.flatnonzero(source.labels == 3)
    for taken in (source.take(rows), source.take(source.labels == 3)):
        assert taken.ids == tuple(source.ids[row] for row in rows)
        assert set(taken.labels) == {3}
        np.testing.assert_array_equal(taken.samples, source.samples[rows])


def test_unknown_data_and_splits_are_errors():
    with pytest.raises(InputError, match=r"data is 'mnist'.*digits, shapes"):
        open_source("mnist")
    with pytest.raises(InputError, match="split is 'dev'"):
        open_source("digits", "dev")


def test_bundled_images_are_not_resized():
    assert open_source("digits", image_size=224).samples.shape == (1400, 8, 8, 1)
