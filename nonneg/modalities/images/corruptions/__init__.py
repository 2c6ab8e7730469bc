"""Corrupted images, to measure how features change when images are noisy, blurred, foggy or compressed."""

from nonneg.modalities.images.corruptions._corruptions import KINDS, SEVERITIES, corrupt, corrupted_source

__all__ = ["KINDS", "SEVERITIES", "corrupt", "corrupted_source"]
