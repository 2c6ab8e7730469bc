"""Checksums of many rows at once are zlib's."""

import zlib

import numpy as np
import pytest
import torch

from nonneg.modalities.images._checksums import adler32, crc32
from nonneg.modalities.images._thumbnails import png_checksums, thumbnails


@pytest.mark.parametrize("size", [1, 5, 64, 3104, 64 * 257])
@pytest.mark.parametrize("before", [b"", b"IDAT\x00\xff"])
def test_they_are_zlibs(size, before):
    rows = torch.randint(0, 256, (5, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))
    rows[0], rows[1] = 0, 255
    assert adler32(rows).tolist() == [zlib.adler32(row.numpy().tobytes()) for row in rows]
    assert crc32(rows, before).tolist() == [zlib.crc32(before + row.numpy().tobytes()) for row in rows]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pngs_with_them_are_the_same_files(channels):
    images = np.random.default_rng(0).integers(0, 256, (20, 13, 9, channels), np.uint8)
    assert thumbnails(images, png_checksums(torch.from_numpy(images)).numpy()).equals(thumbnails(images))
