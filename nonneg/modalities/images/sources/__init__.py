"""Images from whatever holds them: folders, tars, Parquet, arrays, CIFAR's binary files, Hugging Face datasets."""

from nonneg.modalities.images.sources._open import open_source

__all__ = ["open_source"]
