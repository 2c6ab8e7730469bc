"""Sources of images: folders, tars, Parquet, arrays, CIFAR's binary files, Hugging Face datasets."""

from nonneg.modalities.images.sources._collection import MixedSizesError
from nonneg.modalities.images.sources._column import Column
from nonneg.modalities.images.sources._decode import MOST_BYTES, decode_image
from nonneg.modalities.images.sources._open import open_source, typical_side

__all__ = ["MOST_BYTES", "Column", "MixedSizesError", "decode_image", "open_source", "typical_side"]
