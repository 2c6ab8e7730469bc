"""scikit-learn's handwritten digits: 1,797 grey images of 8x8, no file needed."""

import numpy as np

from nonneg.modalities._source import Source


def digits(split: str) -> Source:
    """Return the 1,400 training samples or the 397 test samples, a fixed split stratified by digit."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bundle = load_digits()
    images = np.round(bundle.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = bundle.target.astype(np.int64)
    rows = np.arange(len(labels))
    train, test = train_test_split(rows, test_size=397, stratify=labels, random_state=0)
    whole = Source(f"digits/{split}", images, tuple(f"digit-{row:04d}" for row in rows), labels, tuple("0123456789"))
    return whole.take(np.sort(train if split == "train" else test))
