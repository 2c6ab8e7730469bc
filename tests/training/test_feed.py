"""Feeds give the requested batches, wherever the samples are kept, in bounded memory."""

import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest
import torch

from nonneg.modalities import SomeRows, Source, arrays_of, is_uniform
from nonneg.modalities.texts import Texts
from nonneg.processes import memory
from nonneg.training import TrainConfig, load_recipe
from nonneg.training._feed import ReadAhead, Resident, bytes_held, open_feed

CPU = torch.device("cpu")
IMAGES = np.random.default_rng(0).integers(0, 256, (50, 6, 5, 3), dtype=np.uint8)
ROWS = torch.randperm(50, generator=torch.Generator().manual_seed(0))[:48].view(12, 4)


def saved(folder, images=IMAGES):
    np.save(folder / "images.npy", images)
    return np.load(folder / "images.npy", mmap_mode="r")


KINDS = [
    "resident",
    "resident rows",
    "array",
    "map",
    "part of a map",
    "rows of a map",
    "rows of rows of a map",
    "changed map",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_feed_gives_the_same_batches(kind, tmp_path):
    more = np.concatenate((np.zeros((7, 6, 5, 3), np.uint8), IMAGES))
    images = {
        "resident": lambda: IMAGES,
        "resident rows": lambda: SomeRows(saved(tmp_path, more), np.arange(7, 57)),
        "array": lambda: IMAGES,
        "map": lambda: saved(tmp_path),
        "part of a map": lambda: saved(tmp_path, more)[7:],
        "rows of a map": lambda: SomeRows(saved(tmp_path, more), np.arange(7, 57)),
        "rows of rows of a map": lambda: SomeRows(SomeRows(saved(tmp_path, more), np.arange(57)), np.arange(7, 57)),
        "changed map": lambda: changed(saved(tmp_path, 255 - IMAGES)),
    }[kind]()
    made = Resident if kind.startswith("resident") else ReadAhead
    feed = made(source(images, np.arange(50)), CPU)
    assert ("on disk" in feed.where) == (kind.endswith("of a map") or kind == "map")
    batches = list(feed.batches(ROWS, epoch=0))
    assert len(batches) == 12
    for rows, batch in zip(ROWS, batches, strict=True):
        assert torch.equal(batch.samples, rows)
        assert torch.equal(batch.labels, rows)
        np.testing.assert_array_equal(batch.content.numpy(), IMAGES[rows.numpy()])


def changed(images):
    """A map whose changes stay in memory."""
    copied = np.load(images.filename, mmap_mode="c")
    copied[:] = 255 - copied
    return copied


def source(images, labels=None):
    return Source("x", images, labels=labels)


class TwoArrays:
    def __len__(self):
        return 50

    def __getitem__(self, rows):
        return {"a": IMAGES[rows], "b": (np.arange(50)[rows],)}


def test_a_batch_may_hold_several_arrays():
    pairs = source(TwoArrays())
    (batch,) = open_feed(pairs, TrainConfig(), CPU).batches(torch.tensor([[3, 1]]), epoch=0)
    np.testing.assert_array_equal(batch.content["a"].numpy(), IMAGES[[3, 1]])
    assert batch.content["b"][0].tolist() == [3, 1]


def test_samples_of_several_arrays_can_be_kept_on_the_device():
    samples = TwoArrays()
    feeds = [feed(source(SomeRows(samples, np.arange(40, 0, -1))), CPU) for feed in (Resident, ReadAhead)]
    rows = torch.tensor([[3, 1], [0, 39]])
    for kept, read in zip(*(feed.batches(rows, epoch=0) for feed in feeds), strict=True):
        assert torch.equal(kept.samples, read.samples)
        for one, other in zip(arrays_of(kept.content), arrays_of(read.content), strict=True):
            assert torch.equal(one, other) and one.dtype == other.dtype
    assert not is_uniform(samples)


def test_samples_that_fit_are_kept_on_the_device_unless_the_config_says_otherwise(tmp_path):
    images = saved(tmp_path)
    assert isinstance(open_feed(source(images), TrainConfig(), CPU), Resident)
    assert isinstance(open_feed(source(images), TrainConfig(data_on="disk"), CPU), ReadAhead)


def test_data_larger_than_memory_stays_on_disk(tmp_path):
    huge = np.lib.format.open_memmap(
        tmp_path / "huge.npy", "w+", np.uint8, (2**18, 1024, 1024, 3)
    )  # sparse: no bytes yet
    feed = open_feed(source(huge[:10]), TrainConfig(), CPU)
    assert isinstance(feed, Resident)
    feed = open_feed(source(huge), TrainConfig(), CPU)
    assert isinstance(feed, ReadAhead)
    (batch,) = feed.batches(torch.tensor([[2**18 - 1, 0]]), epoch=0)
    assert batch.content.shape == (2, 1024, 1024, 3)


def test_a_memory_map_is_copied_to_the_device_in_small_blocks(tmp_path):
    images = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", np.uint8, (20_000, 100, 100, 3))  # 600 MB, sparse
    tracemalloc.start()
    try:
        feed = Resident(source(images), torch.device("meta"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert feed.samples.shape == images.shape and feed.samples.device.type == "meta"
    assert most < 100e6


def test_a_read_only_memory_map_is_copied_completely(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (7000, 100, 100), dtype=np.uint8)  # more than one block
    np.testing.assert_array_equal(Resident(source(saved(tmp_path, images)), CPU).samples.numpy(), images)


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_memory_is_the_processs_share_of_its_containers_limit(name, tmp_path, monkeypatch):
    machine = memory(tmp_path)
    assert machine > 2**28
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("100000000\n")
    assert memory(tmp_path) == 100_000_000
    for variable, value in {"RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(variable, value)
    assert memory(tmp_path) == 25_000_000
    (tmp_path / name).write_text("max\n")
    assert memory(tmp_path) == machine // 4


def test_reading_ahead_takes_little_memory(tmp_path):
    saved(tmp_path, np.zeros((3000, 224, 224, 3), np.uint8))
    program = textwrap.dedent(f"""
        import numpy as np, torch, re
        from pathlib import Path
        from nonneg.modalities import Source
        from nonneg.training._feed import ReadAhead
        def resident():
            return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1e3
        images = np.load({str(tmp_path / "images.npy")!r}, mmap_mode="r")
        feed = ReadAhead(Source("x", images), torch.device("cpu"))
        rows = torch.randperm(3000)[:2976].view(-1, 32)
        most = 0
        batches = feed.batches(rows, 0)
        next(batches)
        before = resident()
        for batch in batches:
            most = max(most, resident())
        print(most - before)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert float(done.stdout) < 100, done.stderr  # of 452 MB


def test_a_file_that_was_truncated_is_an_error(tmp_path):
    feed = ReadAhead(source(saved(tmp_path)), CPU)
    with (tmp_path / "images.npy").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match=r"sample \d+.*images\.npy"):
        list(feed.batches(ROWS, epoch=0))


def tokenised(modality, source, encoder):
    modality = modality.fitted(source)
    modality.encoder(encoder)  # fits the tokenizer
    return modality.open(source)


def test_pairs_of_pictures_and_tokens_can_be_kept_on_the_device():
    recipe = load_recipe("emoji")
    opened = recipe.modality.open("emoji", "test", progress=False)
    pairs = tokenised(recipe.modality, opened, recipe.encoder)
    assert is_uniform(pairs.samples)
    kept, read = (list(feed(pairs, CPU).batches(ROWS, epoch=0)) for feed in (Resident, ReadAhead))
    for batch, expected in zip(kept, read, strict=True):
        for part, same in zip(arrays_of(batch.content), arrays_of(expected.content), strict=True):
            assert torch.equal(part, same)


def test_texts_with_partners_take_memory_for_a_few_batches_only(tmp_path):
    (tmp_path / "a.csv").write_text("text,other\n" + "".join(f"text {row},partner {row}\n" for row in range(5000)))
    modality = Texts(pairs="other")
    opened = modality.open(f"{tmp_path / 'a.csv'}:text", progress=False)
    texts = tokenised(modality, opened, "transformer")
    config = TrainConfig(modality=modality, batch_size=16, data_on="device", encoder="transformer")
    held = [bytes_held(source, config, torch.device("cuda"), 1) for source in (texts, texts.take(np.arange(500)))]
    assert 0 < held[0] == held[1]
