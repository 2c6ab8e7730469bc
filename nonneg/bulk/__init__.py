"""Codes of more samples than one machine can take: stages for Ray Data and Spark, and features written in parts.

What is distributed is transforming. Fit on a sample (a fit makes a fixed number of steps, for any number of rows), then
transform everything.
"""

from nonneg.bulk._engines import convert_shards, convert_with_ray, convert_with_spark
from nonneg.bulk._shard import Shard
from nonneg.bulk._stages import Encode, encode_frames
from nonneg.bulk._transformer import Transformer

__all__ = [
    "Encode",
    "Shard",
    "Transformer",
    "convert_shards",
    "convert_with_ray",
    "convert_with_spark",
    "encode_frames",
]
