import io
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from PIL import Image

from nonneg.codes import dense
from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.modalities.images import Images, open_source
from nonneg.models import Model, ModelConfig
from nonneg.models._codes import CodeRows
from nonneg.models._stream import aligned_shares, embed_rows, usual_batch_size


@pytest.fixture
def digits():
    return open_source("digits", "test")


def source_of(images):
    return Source("mine", images, tuple(map(str, range(len(images)))), None, ())


def shown(media):
    return Image.open(io.BytesIO(media))


def test_embedding_is_the_forward_pass_in_evaluation_mode(digits):
    torch.manual_seed(0)
    model = Model(ModelConfig("convnet_8", Images(channels=1, mean=(0.3,), std=(0.2,)), 16, 12))
    x = (torch.from_numpy(digits.samples).permute(0, 3, 1, 2).float() / 255 - 0.3) / 0.2
    with torch.inference_mode():
        expected = model.eval()(x)
    np.testing.assert_allclose(dense(model.embed(digits, batch_size=50).codes), expected, rtol=1e-4, atol=1e-5)


def test_the_batch_size_does_not_matter_and_the_models_mode_is_restored(model, digits):
    model.train()
    model.encoder.eval()  # a frozen part stays frozen
    whole, pieces = model.embed(digits), model.embed(digits, batch_size=7)
    np.testing.assert_allclose(dense(whole.codes), dense(pieces.codes), rtol=1e-5, atol=1e-6)
    assert model.training and model.projector.training and not model.encoder.training


def test_both_layers_come_from_one_pass(model, digits):
    passes = []
    model.encoder.register_forward_hook(lambda module, inputs, output: passes.append(len(output)))
    both = model.embed(digits, "both", batch_size=200)
    assert passes == [200, 197]
    for layer, features in both.items():
        np.testing.assert_array_equal(dense(features.codes), dense(model.embed(digits, layer, batch_size=200).codes))
        assert features.provenance["layer"] == layer
        assert features.media(3) == both["encoder"].media(3)
    assert list(both) == ["encoder", "projector"]


def test_features_have_ids_labels_and_provenance(model, digits):
    features = model.embed(digits, "encoder")
    assert features.shape == (397, 512)
    assert set(features.provenance) == {"source", "layer", "precision", "left_out", "model"}
    assert features.provenance["model"]["encoder"] == "convnet_8"
    assert features.id(4) == digits.ids[4]
    np.testing.assert_array_equal(features.labels, digits.labels)


def test_low_precision_gives_nearly_the_same_codes(model, digits):
    exact, rough = (dense(model.embed(digits, precision=p).codes) for p in ("32-true", "bf16-mixed"))
    assert rough.dtype == np.float32
    assert not np.array_equal(exact, rough)
    np.testing.assert_allclose(rough, exact, atol=0.02)


def test_a_model_that_cannot_be_moved_stays_on_its_device(model, digits):
    model.to("meta")  # has no values to copy
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        model.embed(digits, device="cpu")
    assert next(model.parameters()).is_meta


def test_an_unknown_device_is_an_error(model, digits):
    with pytest.raises(InputError, match="device 'nowhere'"):
        model.embed(digits, device="nowhere")


@pytest.mark.parametrize(("rectify", "top_k", "is_sparse"), [("top_k", 2, True), ("none", 0, False)])
def test_codes_are_sparse_if_fewer_than_half_are_nonzero(digits, rectify, top_k, is_sparse):
    features = Model(ModelConfig("convnet_8", Images(channels=1), 16, 12, rectify, top_k)).embed(digits)
    assert features.is_sparse is is_sparse


def test_the_shares_of_several_processes_have_the_batches_of_one(model, digits):
    kinds = ("encoder", "projector")
    whole = {b.start: b.layers for b in embed_rows(model, digits, range(397), kinds, batch_size=32)}
    shares = aligned_shares(397, batch_size=32, parts=3)
    apart = {}
    for share in shares:
        for batch in embed_rows(model, digits, share, kinds, batch_size=32):
            apart[batch.start] = batch.layers
    assert list(apart) == list(whole) == list(range(0, 397, 32))
    for start, layers in whole.items():
        for kind in kinds:
            np.testing.assert_array_equal(apart[start][kind], layers[kind])


@pytest.mark.parametrize(("samples", "batch_size", "parts"), [(1, 8, 3), (64, 8, 3), (65, 8, 4), (1000, 1, 7)])
def test_shares_cover_every_row_once_and_differ_by_at_most_one_batch(samples, batch_size, parts):
    shares = aligned_shares(samples, batch_size, parts)
    assert [row for share in shares for row in share] == list(range(samples))
    assert all(share.start % batch_size == 0 for share in shares if share)
    assert max(map(len, shares)) - min(map(len, shares)) < 2 * batch_size


def test_a_memory_map_is_embedded_in_little_memory(tmp_path):
    images = np.lib.format.open_memmap(tmp_path / "images.npy", "w+", np.uint8, (1200, 256, 256, 3))
    images.flush()
    megabytes = images.nbytes / 2**20
    images = np.load(tmp_path / "images.npy", mmap_mode="r")
    model = Model(ModelConfig("convnet_24", Images(channels=3), 16, 12))
    used = []
    for batch in embed_rows(model, source_of(images), range(1200), batch_size=5):
        used.append(private_megabytes())
        assert not batch.preview
    assert len(used) == 240
    # The allocator keeps tens of megabytes of freed buffers; the file has 225 MB.
    assert max(used) - used[0] < megabytes / 2


def private_megabytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon"))) / 1024


@pytest.mark.parametrize("media", [False, True])
def test_rows_are_read_batch_by_batch_and_only_a_few_batches_ahead(model, media):
    class Recorded(np.ndarray):
        def __getitem__(self, rows):
            if threading.current_thread() is not threading.main_thread():
                reads.append((rows[0], rows[-1] + 1))
            return super().__getitem__(rows)

    reads = []
    images = np.zeros((100, 8, 8, 1), np.uint8).view(Recorded)
    batches = embed_rows(model, source_of(images), range(100), batch_size=10, media=media)
    next(batches)
    assert 20 <= max(stop for _, stop in reads) <= 50
    batches.close()
    assert all(stop - start == 10 for start, stop in reads)


@pytest.mark.parametrize("media", [False, True])
def test_an_abandoned_pass_restores_the_models_mode(model, digits, media):
    model.train()
    batches = embed_rows(model, digits, range(397), batch_size=10, media=media)
    next(batches)
    assert not model.training
    batches.close()
    assert model.training


@pytest.mark.parametrize(("side", "expected"), [(8, 1024), (1000, 89), (20_000, 1)])
def test_a_batch_of_large_samples_is_smaller(side, expected):
    class Rows:
        def __len__(self):
            return 5

        def __getitem__(self, rows):
            return np.broadcast_to(np.uint8(0), (len(rows), side, side, 3))

    assert usual_batch_size(Source("large", Rows()), torch.device("cpu")) == expected


def test_errors_in_the_reading_thread_are_raised(model):
    class Broken(np.ndarray):
        def __getitem__(self, rows):
            if isinstance(rows, np.ndarray):
                raise OSError("the disk is gone")
            return super().__getitem__(rows)

    with pytest.raises(OSError, match="the disk is gone"):
        model.embed(source_of(np.zeros((4, 8, 8, 1), np.uint8).view(Broken)))
    assert model.training


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(8, 8), (64, 64), (5, 31)])
def test_small_images_are_stored_exactly(channels, shape):
    images = np.random.default_rng(0).integers(0, 256, (70, *shape, channels), dtype=np.uint8)
    model = Model(ModelConfig("convnet_8", Images(channels=channels), 16, 12))
    features = model.embed(source_of(images), batch_size=67)
    for row in (0, 66, 69):
        picture = shown(features.media(row))
        assert picture.format == "PNG"
        np.testing.assert_array_equal(np.asarray(picture).reshape(images[row].shape), images[row])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_large_images_are_stored_as_thumbnails(channels):
    images = np.full((2, 90, 300, channels), 200, np.uint8)
    features = Model(ModelConfig("convnet_24", Images(channels=channels), 16, 12)).embed(source_of(images))
    assert features.pixels.shape == (2, 29, 96, channels)
    assert np.abs(np.asarray(shown(features.media(1))).astype(int) - 200).max() <= 2


def test_previews_can_be_left_out(model, digits):
    assert model.embed(digits, media=False).media(0) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": "encodr"}, "layer is 'encodr'"),
        ({"precision": "16"}, "precision is '16'.*32-true, bf16-mixed"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_an_error_names_the_argument_and_the_models_mode_is_kept(model, digits, change, message):
    with pytest.raises(InputError, match=message):
        model.embed(digits, **change)
    assert model.training


def test_data_with_other_channels_is_an_error():
    model = Model(ModelConfig("convnet_8", Images(channels=3)))
    with pytest.raises(InputError, match=r"2 channels.*3"):
        model.embed(source_of(np.zeros((4, 8, 8, 2), np.uint8)))


def test_a_source_without_samples_is_an_error(model):
    with pytest.raises(InputError, match=r"mine .*samples"):
        model.embed(source_of(np.zeros((0, 8, 8, 1), np.uint8)))


def test_rows_outside_the_source_are_an_error(model, digits):
    with pytest.raises(InputError, match=r"rows are range\(0, 398\).*397"):
        embed_rows(model, digits, range(398))


@pytest.mark.parametrize("shares", [(0.1, 0.2), (0.9, 0.8), (0.1, 0.7), (0.9, 0.2), (0.0, 0.0)])
def test_collected_blocks_equal_the_whole(shares):
    generator = np.random.default_rng(0)
    blocks = [
        generator.random((rows, 40), np.float32) * (generator.random((rows, 40)) < share)
        for rows, share in zip((30, 9), shares, strict=True)
    ]
    whole = np.concatenate(blocks)
    rows = CodeRows(40)
    rows.add(blocks[0])
    rows.add(sp.csr_array(blocks[1]))
    codes = rows.finished()
    assert sp.issparse(codes) == (np.count_nonzero(whole) < whole.size / 2)
    np.testing.assert_array_equal(dense(codes), whole)
    assert not sp.issparse(codes) or (codes.has_canonical_format and codes.indices.dtype == codes.indptr.dtype)


def test_a_resized_image_does_not_depend_on_the_others_in_its_batch():
    rng = np.random.default_rng(0)
    pale, bright = 100 + 40 * rng.integers(0, 2, (1, 12, 12, 1)), 255 * rng.integers(0, 2, (1, 12, 12, 1))
    both = torch.from_numpy(np.concatenate((pale, bright)).astype(np.uint8))
    modality = Images(channels=1, height=8, width=8)
    assert torch.equal(modality.inputs(both)[:1], modality.inputs(both[:1]))
