"""Unusual images are decoded as a person would see them; errors name broken images."""

import io
import os
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from PIL import Image

from nonneg.errors import InputError
from nonneg.modalities.images import open_source
from nonneg.modalities.images.sources._decode import BrokenImageError, decode
from tests.modalities.images.sources.pictures import encoded, pixels, write

GREY = np.array([[0, 64, 128, 255]] * 3, np.uint8)
ALPHA = np.array([[255, 255, 128, 0]] * 3, np.uint8)
OVER_WHITE = np.array([[0, 64, 191, 255]] * 3, np.uint8)


def opened(folder, image, kind="PNG", **options):
    folder.mkdir(exist_ok=True)
    suffix = {"JPEG": "jpg"}.get(kind, kind.lower())
    image.save(folder / f"a.{suffix}", kind, **options)
    return open_source(folder).samples[0]


def rgb(grey):
    return np.repeat(grey[..., None], 3, axis=2)


def test_grey_images_get_three_equal_channels(tmp_path):
    np.testing.assert_array_equal(opened(tmp_path / "d", Image.fromarray(GREY)), rgb(GREY))


def test_black_and_white_images_are_black_and_white(tmp_path):
    image = Image.fromarray(GREY).point(lambda value: 255 * (value > 100)).convert("1")
    np.testing.assert_array_equal(opened(tmp_path / "d", image), rgb(np.where(GREY > 100, 255, 0)))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_images_are_scaled_not_clipped(tmp_path, kind):
    image = Image.fromarray(GREY.astype(np.uint16) * 257)
    np.testing.assert_array_equal(opened(tmp_path / "d", image, kind), rgb(GREY))


def test_32_bit_integers_are_scaled(tmp_path):
    image = Image.fromarray(GREY.astype(np.int32) * 257)
    np.testing.assert_array_equal(opened(tmp_path / "d", image, "TIFF"), rgb(GREY))


@pytest.mark.parametrize("white", [1.0, 255.0, 65535.0])
def test_floats_are_scaled_by_the_usual_range_that_holds_them(tmp_path, white):
    image = Image.fromarray((GREY / 255 * white).astype(np.float32))
    np.testing.assert_array_equal(opened(tmp_path / "d", image, "TIFF"), rgb(GREY))


def test_floats_of_an_unusual_range_are_stretched_from_black_to_white(tmp_path):
    found = opened(tmp_path / "d", Image.fromarray((GREY / 255 * 7 - 3).astype(np.float32)), "TIFF")
    np.testing.assert_array_equal(found, rgb(GREY))


def test_transparency_becomes_white(tmp_path):
    image = Image.fromarray(np.dstack([GREY, GREY, GREY, ALPHA]))
    np.testing.assert_array_equal(opened(tmp_path / "d", image), rgb(OVER_WHITE))


def test_transparency_of_grey_images_becomes_white(tmp_path):
    image = Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(ALPHA)])
    np.testing.assert_array_equal(opened(tmp_path / "d", image), rgb(OVER_WHITE))


def test_palette_images_get_their_colours(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([1, 0])
    assert opened(tmp_path / "d", image).tolist() == [[[200, 100, 50], [10, 20, 30]]]


@pytest.mark.parametrize("transparency", [0, b"\x00\xff"])
def test_transparency_of_palette_images_becomes_white(tmp_path, transparency):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([1, 0])
    found = opened(tmp_path / "d", image, transparency=transparency)
    assert found.tolist() == [[[200, 100, 50], [255, 255, 255]]]


def test_a_transparent_colour_becomes_white(tmp_path):
    found = opened(tmp_path / "d", Image.fromarray(rgb(GREY)), transparency=(64, 64, 64))
    np.testing.assert_array_equal(found, rgb(np.where(GREY == 64, 255, GREY)))


def test_cmyk_images_become_rgb(tmp_path):
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    assert np.abs(opened(tmp_path / "d", image, "JPEG", quality=95).astype(int) - [255, 0, 0]).max() < 12


def test_rotation_in_exif_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate clockwise by 90 degrees
    found = opened(tmp_path / "d", Image.fromarray(pixels(1, 4, 8)), exif=exif)
    np.testing.assert_array_equal(found, np.rot90(pixels(1, 4, 8), -1))


def test_the_first_frame_of_an_animation_is_used(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue")]
    found = opened(tmp_path / "d", frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (found == [255, 0, 0]).all()


def test_an_image_with_the_suffix_of_another_format_is_decoded(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "png.jpg").write_bytes(encoded(pixels(1)))
    np.testing.assert_array_equal(open_source(tmp_path / "d").samples[0], pixels(1))


@pytest.mark.parametrize(("height", "width"), [(90, 60), (60, 95), (20, 33), (48, 48)])
def test_image_size_resizes_the_shorter_side_and_cuts_out_the_centre(tmp_path, height, width):
    smooth = np.asarray(Image.fromarray(pixels(3)).resize((width, height), Image.Resampling.BICUBIC))
    write(tmp_path / "d" / "a.png", smooth)
    found = open_source(tmp_path / "d", image_size=48).samples[0]
    scale = 48 / min(height, width)
    whole = Image.fromarray(smooth).resize((round(width * scale), round(height * scale)), Image.Resampling.BICUBIC)
    left, top = (whole.width - 48) // 2, (whole.height - 48) // 2
    expected = np.asarray(whole.crop((left, top, left + 48, top + 48)))
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_very_oblong_image_is_resized_in_little_memory(tmp_path):
    write(tmp_path / "d" / "a.png", np.zeros((50_000, 1, 3), np.uint8))
    assert open_source(tmp_path / "d", image_size=224).samples.shape == (1, 224, 224, 3)


def test_decoding_a_jpeg_at_reduced_size_makes_no_visible_difference(tmp_path):
    (tmp_path / "d").mkdir()
    photograph = Image.fromarray(pixels(5, 40, 60)).resize((1200, 800), Image.Resampling.BICUBIC)
    photograph.save(tmp_path / "d" / "a.jpg", quality=90)
    found = open_source(tmp_path / "d", image_size=64).samples[0]
    whole = Image.open(tmp_path / "d" / "a.jpg").resize((96, 64), Image.Resampling.BICUBIC)
    difference = np.abs(found.astype(int) - np.asarray(whole.crop((16, 0, 80, 64))))
    assert difference.mean() < 1
    assert difference.max() < 12


def test_different_image_sizes_are_an_error_that_names_two_files_and_the_option(tmp_path, cache):
    write(tmp_path / "d" / "a.png", pixels(1, 6, 8))
    write(tmp_path / "d" / "b.png", pixels(1, 6, 8))
    write(tmp_path / "d" / "c.png", pixels(1, 5, 8))
    with pytest.raises(InputError, match=r"a\.png is 8 x 6.*c\.png is 8 x 5.*--image-size"):
        open_source(tmp_path / "d")
    assert not list(cache.rglob("images.npy"))
    assert open_source(tmp_path / "d", image_size=5).samples.shape == (3, 5, 5, 3)


def png(width, height, bits, colour, content, transparent=None) -> bytes:
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))
    header += b"" if transparent is None else chunk(b"tRNS", struct.pack(f">{len(transparent)}H", *transparent))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(content)) + chunk(b"IEND", b"")


def bomb() -> bytes:
    return png(10_000, 10_000, 8, 2, b"")


def tiff(rows: bytes, width, height, bits, photometric, sample_format) -> bytes:
    """Return an uncompressed little-endian TIFF, by its specification."""
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 273: 8, 277: 1, 278: height}
    tags |= {279: len(rows), 339: sample_format}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHI", b"II", 42, 8 + len(rows)) + rows + struct.pack("<H", len(tags)) + entries + bytes(4)


def opened_file(folder, name, content):
    folder.mkdir()
    (folder / name).write_bytes(content)
    return open_source(folder).samples[0]


def test_unsigned_32_bit_integers_are_not_treated_as_signed(tmp_path):
    values = GREY.astype(np.uint32) * 0x01010101
    found = opened_file(tmp_path / "d", "a.tif", tiff(values.tobytes(), 4, 3, 32, 1, 1))
    np.testing.assert_array_equal(found, rgb(GREY))


def test_12_bit_images_are_scaled(tmp_path):
    packed = bytes([0x00, 0x08, 0x00, 0xFF, 0xF0, 0x00])  # 0, 2048, 4095, 0
    found = opened_file(tmp_path / "d", "a.tif", tiff(packed, 4, 1, 12, 1, 1))
    assert found[0, :, 0].tolist() == [0, 128, 255, 0]


@pytest.mark.parametrize(
    ("values", "bits", "sample_format"),
    [(GREY, 8, 1), (GREY.astype(np.uint16) * 257, 16, 1), ((GREY / 255).astype(np.float32), 32, 3)],
)
def test_images_where_0_is_white_are_inverted_at_any_depth(tmp_path, values, bits, sample_format):
    found = opened_file(tmp_path / "d", "a.tif", tiff(values.tobytes(), 4, 3, bits, 0, sample_format))
    np.testing.assert_array_equal(found, rgb(255 - GREY))


@pytest.mark.parametrize(
    ("bits", "row", "transparent", "shown"),
    [
        (16, b"\x12\x34\x12\x35\x00\x00", 0x1234, [255, 18, 0]),
        (8, b"\x12\x13\x00", 0x12, [255, 19, 0]),
        (4, b"\x12\x00", 1, [255, 34, 0]),
        (2, b"\x60", 1, [255, 170, 0]),
        (1, b"\x40", 0, [255, 255, 255]),
    ],
)
def test_a_transparent_grey_becomes_white_at_any_depth(tmp_path, bits, row, transparent, shown):
    found = opened_file(tmp_path / "d", "a.png", png(3, 1, bits, 0, b"\x00" + row, [transparent]))
    assert found[0, :, 0].tolist() == shown


def test_a_transparent_16_bit_colour_is_an_error(tmp_path):
    content = png(2, 1, 16, 2, b"\x00" + b"\x12\x34" * 3 + b"\x34\x00" * 3, [0x1234] * 3)
    with pytest.raises(InputError, match=r"a\.png \(16-bit colours"):
        opened_file(tmp_path / "d", "a.png", content)


REASONS = {
    "bomb.png": "more than 89,478,485 pixels",
    "empty.png": "empty",
    "gone.png": "no such file or directory",
    "half.jpg": "image file is truncated",
    "pipe.png": "not a regular file",
    "text.jpg": "not an image",
}


@pytest.fixture
def partly_broken(tmp_path):
    """Three intact images and one of each broken kind."""
    folder = tmp_path / "d"
    for number in range(3):
        write(folder / f"{number}.png", pixels(number))
    whole = encoded(pixels(0, 32, 32), "JPEG")
    (folder / "bomb.png").write_bytes(bomb())
    (folder / "empty.png").touch()
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    (folder / "half.jpg").write_bytes(whole[: len(whole) // 2])
    os.mkfifo(folder / "pipe.png")
    (folder / "text.jpg").write_bytes(b"this is not an image")
    return folder


@pytest.mark.parametrize("name", REASONS)
def test_an_error_names_each_kind_of_broken_image_with_its_reason(partly_broken, name):
    for other in set(REASONS) - {name}:
        (partly_broken / other).unlink()
    with pytest.raises(InputError, match=rf"1 of 4 images.*{name} \({REASONS[name]}"):
        open_source(partly_broken)


def test_an_unreadable_file_is_broken_until_it_becomes_readable(tmp_path):
    write(tmp_path / "d" / "a.png", pixels(1))
    write(tmp_path / "d" / "b.png", pixels(2))
    (tmp_path / "d" / "b.png").chmod(0)
    if os.access(tmp_path / "d" / "b.png", os.R_OK):
        pytest.skip("this user may read everything")
    assert open_source(tmp_path / "d", skip_broken=True).skipped == ("b.png",)
    (tmp_path / "d" / "b.png").chmod(0o644)
    assert open_source(tmp_path / "d").ids == ("a.png", "b.png")


def test_broken_images_are_counted_and_the_first_five_listed(partly_broken, cache):
    with pytest.raises(InputError) as caught:
        open_source(partly_broken)
    message = str(caught.value)
    assert message.startswith("6 of 9 images")
    [listed] = cache.rglob("broken.txt")
    assert "1 more" in message and str(listed) in message and "--skip-broken" in message
    assert [name in message for name in REASONS] == [True] * 5 + [False]
    assert not list(cache.rglob("meta.json"))


@pytest.mark.parametrize("skip_broken", [False, True])
def test_a_file_lists_every_broken_image_with_its_reason_while_there_are_any(partly_broken, cache, skip_broken):
    (partly_broken / "two\nlines.png").touch()
    for _ in range(2):  # decoded, then from the cache
        with nullcontext() if skip_broken else pytest.raises(InputError):
            open_source(partly_broken, skip_broken=skip_broken)
        [listed] = cache.rglob("broken.txt")
        lines = listed.read_text().splitlines()
        assert [line.split(": ")[0] for line in lines] == [*REASONS, "two\\nlines.png"]
        assert all(line.split(": ")[1].startswith(REASONS[name]) for name, line in zip(REASONS, lines, strict=False))
    for name in (*REASONS, "two\nlines.png"):
        (partly_broken / name).unlink()
    open_source(partly_broken, skip_broken=skip_broken)
    assert not list(cache.rglob("broken.txt"))


def test_the_error_does_not_mention_a_list_of_broken_images_that_could_not_be_written(partly_broken, cache):
    open_source(partly_broken, skip_broken=True)
    [listed] = cache.rglob("broken.txt")
    listed.unlink()
    listed.mkdir()
    with pytest.raises(InputError, match="6 of 9 images") as caught:
        open_source(partly_broken)
    assert "1 more" in str(caught.value) and "broken.txt" not in str(caught.value)


def test_broken_images_are_left_out_and_recorded_with_skip_broken(partly_broken):
    for _ in range(2):  # decoded, then from the cache
        source = open_source(partly_broken, skip_broken=True)
        assert source.skipped == tuple(REASONS)
        assert source.ids == ("0.png", "1.png", "2.png")
        np.testing.assert_array_equal(source.samples, [pixels(0), pixels(1), pixels(2)])
    with pytest.raises(InputError, match="6 of 9 images"):
        open_source(partly_broken)


def test_labels_stay_with_their_images_if_some_are_left_out(tmp_path):
    for number, name in enumerate(("cat/a", "cat/b", "dog/c", "owl/d")):
        write(tmp_path / "d" / f"{name}.png", pixels(number))
    (tmp_path / "d" / "cat" / "b.png").write_bytes(b"")
    source = open_source(tmp_path / "d", skip_broken=True)
    assert dict(zip(source.ids, source.labels, strict=True)) == {"cat/a.png": 0, "dog/c.png": 1, "owl/d.png": 2}
    assert source.take(np.array([0])).skipped == ("cat/b.png",)


def test_a_folder_of_only_broken_images_is_an_error_even_with_skip_broken(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"1 of 1 images.*a\.png \(empty\)"):
        open_source(tmp_path / "d", skip_broken=True)


def test_an_image_with_damaged_exif_data_is_decoded(tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(pixels(1)).save(buffer, "PNG", exif=b"Exif\x00\x00MM\x00*\x00\x00\xff\xff")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.png").write_bytes(buffer.getvalue())
    np.testing.assert_array_equal(open_source(tmp_path / "d").samples[0], pixels(1))


@pytest.mark.parametrize("white", [1.0, 255.0, 65535.0])
def test_floats_that_slightly_exceed_a_usual_range_are_clipped_to_it(tmp_path, white):
    values = np.array([[-0.05, 0, 0.5, 1, 1.02, 1.3]] * 3) * white
    found = opened(tmp_path / "d", Image.fromarray(values.astype(np.float32)), "TIFF")
    np.testing.assert_array_equal(found, rgb(np.array([[0, 0, 128, 255, 255, 255]] * 3)))


@pytest.mark.parametrize(("value", "shown"), [(0, 0), (0.2, 51), (51, 51), (-5, 0), (1e30, 0)])
def test_floats_that_are_all_equal_are_decoded(tmp_path, value, shown):
    found = opened(tmp_path / "d", Image.fromarray(np.full((3, 3), value, np.float32)), "TIFF")
    assert (found == shown).all()


def test_infinities_are_black_and_white_and_nan_is_black(tmp_path):
    values = np.array([[-np.inf, 0.2, 1, np.inf, np.nan]], np.float32)
    found = opened(tmp_path / "d", Image.fromarray(values), "TIFF")
    assert found[0, :, 0].tolist() == [0, 51, 255, 255, 0]


def test_an_image_of_only_infinities_is_black_and_white(tmp_path):
    found = opened(tmp_path / "d", Image.fromarray(np.array([[-np.inf, np.inf]], np.float32)), "TIFF")
    assert found[0, :, 0].tolist() == [0, 255]


@pytest.mark.parametrize("error", [MemoryError(), OSError("out of memory error when reading image file")])
def test_an_image_is_not_recorded_as_broken_if_memory_runs_out(tmp_path, monkeypatch, error):
    for number in range(3):
        write(tmp_path / "d" / f"{number}.png", pixels(number))
    resize = Image.Image.resize
    fits = iter([True, False])

    def resize_once(*args, **options):
        if not next(fits):
            raise error
        return resize(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "resize", resize_once)
        with pytest.raises(InputError, match=r"memory .*1\.png"):
            open_source(tmp_path / "d", image_size=6, skip_broken=True)
    assert open_source(tmp_path / "d", image_size=6, skip_broken=True).skipped == ()


def test_a_file_above_the_size_limit_is_broken(tmp_path):
    write(tmp_path / "d" / "a.png", pixels(1))
    with (tmp_path / "d" / "b.png").open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(InputError, match=r"1 of 2 images.*b\.png \(314,572,800 bytes"):
        open_source(tmp_path / "d")


class Counted(Image.Image):
    """An image of a given size whose decoding counts how many are decoded at the same time, and fails."""

    now, most = 0, 0

    def __init__(self, side):
        super().__init__()
        self._size = (side, side)

    def load(self):
        Counted.now += 1
        Counted.most = max(Counted.most, Counted.now)
        time.sleep(0.02)
        Counted.now -= 1
        raise ValueError("enough")


@pytest.mark.parametrize(("side", "least", "most"), [(9000, 1, 1), (5000, 2, 5), (100, 3, 8)])
def test_few_large_images_are_decoded_at_the_same_time(side, least, most):
    Counted.most = 0
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(decode, Counted(side), 32) for _ in range(16)]:
            with pytest.raises(BrokenImageError, match="enough"):
                done.result()
    assert least <= Counted.most <= most
