"""Sources of images: folders, tars, Parquet, arrays, CIFAR's binary files, Hugging Face datasets."""

from nonneg.modalities.images.sources._collection import MOST_BYTES, MixedSizesError
from nonneg.modalities.images.sources._open import decode_image, open_source, typical_side

__all__ = ["MOST_BYTES", "MixedSizesError", "decode_image", "open_source", "typical_side"]
