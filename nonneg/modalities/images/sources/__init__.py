"""Sources of images: folders, tars, Parquet, arrays, CIFAR's binary files, Hugging Face datasets."""

from nonneg.modalities.images.sources._collection import MOST_BYTES, MixedSizesError
from nonneg.modalities.images.sources._column import Column
from nonneg.modalities.images.sources._open import Listed, decode_image, listed, open_source, typical_side
from nonneg.modalities.images.sources._tar import members as tar_members

__all__ = [
    "MOST_BYTES",
    "Column",
    "Listed",
    "MixedSizesError",
    "decode_image",
    "listed",
    "open_source",
    "tar_members",
    "typical_side",
]
