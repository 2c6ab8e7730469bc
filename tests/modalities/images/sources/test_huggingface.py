"""Hugging Face datasets, by a substitute with the same interface: that library is not needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from nonneg.modalities.images import open_source
from tests.modalities.images.sources.pictures import assert_same, encoded, pixels


@dataclass
class Dataset:
    """Rows of images and labels; `_fingerprint` identifies the content, as in Hugging Face's own."""

    rows: range
    split: str = "train"
    column_names: tuple[str, ...] = ("image", "label")

    @property
    def _fingerprint(self) -> str:
        return f"fingerprint of {self.rows}"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: int | str) -> Mapping[str, object] | list[int]:
        if isinstance(key, str):
            return [number % 3 for number in self.rows]
        number = self.rows[key]
        return {"image": {"bytes": encoded(pixels(number)), "path": None}, "label": number % 3}


class Plain(Dataset):
    """A dataset without a fingerprint, which is then computed from the images."""

    _fingerprint = None


def test_rows_give_images_labels_and_ids():
    source = open_source(Dataset(range(4)))
    np.testing.assert_array_equal(source.samples, [pixels(number) for number in range(4)])
    assert source.labels.tolist() == [0, 1, 2, 0]
    assert (source.name, source.ids[3]) == ("dataset/train", "train-000003")


def parts(kind):
    """Return datasets of one name and split: a whole, a part of it, and the whole beside another split."""
    whole = kind(range(6))
    return whole, kind(range(2, 5)), {"train": whole, "test": kind(range(9), "test")}


@pytest.mark.parametrize("kind", [Dataset, Plain])
def test_datasets_of_the_same_name_keep_separate_caches(kind):
    sources = [open_source(data) for data in parts(kind)]
    assert [len(source) for source in sources] == [6, 3, 6]
    for source, data in zip(sources, parts(kind), strict=True):
        assert Path(source.samples.filename).exists()
        again = open_source(data)
        assert_same(source, again)
        assert again.samples.filename == source.samples.filename
