"""The protocol: modalities, sources and batches."""

import tracemalloc
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import pytest
import torch
from pydantic import Field
from torch import nn

import nonneg
from nonneg.errors import InputError
from nonneg.modalities import (
    ChangedRows,
    Modality,
    Shared,
    SomeRows,
    Source,
    arrays_of,
    as_tensors,
    map_arrays,
    register,
    uniform,
)
from nonneg.modalities._splits import unique_ids
from nonneg.modalities.images import Images, ViewConfig
from nonneg.modalities.own import Own
from nonneg.training import TrainConfig, as_toml, load_recipe


@dataclass(frozen=True)
class Vectors(Modality):
    """Vectors of eight entries; a view hides some of them."""

    name: ClassVar[str] = "vectors"
    hidden: Annotated[float, Field(ge=0, lt=1)] = 0.3

    def draw_views(self, batch, samples, seed, epoch, count, dtype):
        view = torch.arange(count).repeat_interleave(len(batch))
        kept = uniform(batch.shape[1], seed, epoch, samples.repeat(count), view) > self.hidden
        return (batch.repeat(count, 1) * kept).to(dtype)

    def encoder(self, name, saved=None):
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU()), 16, {}


def vectors(rows=40):
    return Source("random", np.random.default_rng(0).normal(size=(rows, 8)).astype(np.float32))


# Modalities


@pytest.mark.parametrize(
    "modality", [Images(), Images(image_size=8, mean=(0.5,), std=(1.0,), views=ViewConfig(flip_p=0.5)), Own(workers=2)]
)
def test_a_modality_is_the_same_after_writing_and_reading_its_table(modality):
    table = modality.to_table()
    assert table["name"] == modality.name
    assert Modality.from_table(table) == modality


def test_the_default_modality_of_a_table_is_images():
    assert Modality.from_table({"image_size": 8}) == Images(image_size=8)


@pytest.mark.parametrize("name", ["smells", ["smells"]])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(name):
    with pytest.raises(InputError, match=r"modality\.name is .*smells.*images, own"):
        Modality.from_table({"name": name}, "modality.")


@pytest.mark.parametrize(
    ("table", "message"),
    [({"name": "own", "worker": 1}, r"modality\.worker .*workers"), ({"name": "own", "workers": -2}, "workers is -2")],
)
def test_an_error_in_a_table_names_the_field(table, message):
    with pytest.raises(InputError, match=message):
        Modality.from_table(table, "modality.")


def test_an_unregistered_modality_is_read_by_its_own_class():
    table = Vectors(hidden=0.5).to_table()
    with pytest.raises(InputError, match="name is 'vectors'"):
        Modality.from_table(table)
    assert Vectors.from_table(table) == Vectors(hidden=0.5)


def test_a_registered_modality_is_read_by_its_name(tmp_path):
    @register
    @dataclass(frozen=True)
    class Registered(Modality):
        name: ClassVar[str] = "registered-by-a-test"
        size: int = 3

    assert Modality.from_table({"name": "registered-by-a-test", "size": 4}) == Registered(4)
    (tmp_path / "a.toml").write_text(as_toml(TrainConfig(modality=Registered(5))))
    assert load_recipe(str(tmp_path / "a.toml")).modality == Registered(5)


def test_fields_are_checked_by_name():
    with pytest.raises(InputError, match=r"hidden is 1\.5.*less than 1"):
        Vectors(hidden=1.5)


def test_the_defaults_of_the_base_class_read_no_files_and_have_no_encoders():
    plain = Modality()
    assert plain.open(source := vectors()) is source
    assert plain.fitted(source) is plain and plain.with_light_views() is plain
    assert plain.preview(source, range(3)) == {} and plain.corrupted(source) == {}
    batch = torch.ones(2)
    assert plain.inputs(batch) is batch
    with pytest.raises(InputError, match="data is 'photos'"):
        plain.open("photos")
    with pytest.raises(InputError, match="data is a ndarray"):
        plain.open(np.zeros((1000, 3)))
    with pytest.raises(InputError, match="encoder is 'resnet18'"):
        plain.encoder("resnet18")
    with pytest.raises(InputError, match="bytes"):
        plain.read(b"content")


def test_an_unregistered_modality_trains_and_loads(tmp_path):
    settings = {"epochs": 2, "warmup_epochs": 1, "batch_size": 20, "features": 6, "accelerator": "cpu"}
    config = TrainConfig(modality=Vectors(), encoder="linear", **settings)
    run = nonneg.train(config, tmp_path / "run", source=vectors(), progress=False)
    with pytest.raises(InputError, match="'vectors'"):
        nonneg.load(run)
    features = nonneg.load(run, modality=Vectors).embed(vectors())
    assert features.shape == (40, 6)


# Sources


def test_a_source_without_ids_has_its_row_numbers():
    assert Source("x", np.zeros((2, 3))).ids == ("0", "1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ids": ("a",)}, "ids: 1"),
        ({"labels": np.zeros(4, int)}, "labels: 4"),
        ({"factors": {"hue": [1]}}, "hue: 1 "),
    ],
)
def test_a_source_has_one_id_and_label_per_sample(given, message):
    with pytest.raises(InputError, match=f"{message}.*expected 3"):
        Source("waves", np.zeros((3, 2)), **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ids": ("a", "b", "a")}, "ids: some are the same"),
        ({"ids": (1, 2, 3)}, "ids: .*strings"),
        ({"labels": np.zeros(3)}, "labels: float64"),
        ({"labels": ["a", "b", "c"]}, "labels: <U1"),
        ({"labels": np.zeros((3, 2), int)}, r"labels: int64 of shape \(3, 2\)"),
        ({"samples": [1, 2, 3]}, "samples is a list"),
        ({"samples": 3}, "samples is a int"),
    ],
    ids=str,
)
def test_a_source_has_different_ids_integer_labels_and_rows(given, message):
    with pytest.raises(InputError, match=message):
        Source(**{"name": "x", "samples": np.zeros((3, 4)), **given})


@pytest.mark.parametrize("samples", [np.zeros((3, 8, 8, 1), np.float32), np.zeros((3, 64), np.uint8)])
def test_a_source_of_images_holds_uint8_images(samples):
    with pytest.raises(InputError, match=r"drawn holds .* of shape \(3, .*expected uint8 images"):
        Images().open(Source("drawn", samples))


def test_take_selects_everything_that_belongs_to_a_row():
    source = Source(
        "x",
        np.arange(12).reshape(4, 3),
        ("a", "b", "c", "d"),
        np.array([0, 1, 1, 0]),
        ("no", "yes"),
        {"size": np.array([3, 2, 1, 0])},
        {"size": ("tiny", "small", "large", "huge")},
        ("broken",),
    )
    for rows in ([3, 1], (3, 1), np.array([3, 1])):
        taken = source.take(rows)
        np.testing.assert_array_equal(taken.samples, [[9, 10, 11], [3, 4, 5]])
        assert (taken.name, taken.ids, taken.labels.tolist()) == ("x", ("d", "b"), [0, 1])
        assert taken.factors["size"].tolist() == [0, 2]
        assert (taken.label_names, taken.factor_names, taken.skipped) == (
            source.label_names,
            source.factor_names,
            source.skipped,
        )
    assert source.take([False, True, False, True]).ids == ("b", "d")
    assert len(source.take([])) == 0


def test_taking_rows_of_a_memory_map_reads_nothing(tmp_path):
    """The rows are read when they are used, so changes of the file are seen."""
    array = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.uint8, (400, 512, 512))  # 100 MB, sparse
    source = Source("x", array)
    tracemalloc.start()
    try:
        some = source.take(np.arange(399, -1, -1)).take(np.arange(0, 400, 2))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10e6
    array[397] = 7
    assert some.samples.shape == (200, 512, 512)
    assert (some.samples[[1]] == 7).all() and not some.samples[[0, 2]].any()


def test_some_rows_are_indexed_like_the_whole():
    some = SomeRows(np.arange(10) * 10, np.array([8, 2, 5]))
    assert len(some) == 3 and some.shape == (3,)
    assert some[:].tolist() == [80, 20, 50]
    assert some[[2, 0]].tolist() == [50, 80]
    assert some[np.array([False, True, False])].tolist() == [20]


def test_changed_rows_get_the_row_numbers_of_the_batch():
    changed = ChangedRows(np.zeros((5, 2), np.int64), lambda batch, rows: batch + rows[:, None])
    assert len(changed) == 5 and changed.shape == (5, 2)
    assert changed[[4, 1]].tolist() == [[4, 4], [1, 1]]
    assert changed[1:3].tolist() == [[1, 1], [2, 2]]
    assert changed[np.array([False, False, True, False, False])].tolist() == [[2, 2]]


def test_changed_rows_keep_their_numbers_when_some_are_taken():
    changed = ChangedRows(np.zeros(5, np.int64), lambda batch, rows: batch + rows)
    assert Source("x", changed).take([3, 1]).samples[:].tolist() == [3, 1]


# Batches


def nested():
    return {"image": np.zeros((2, 3)), "text": (np.ones((2, 4)), np.ones((2, 5)))}


def test_map_arrays_keeps_the_structure():
    shapes = map_arrays(np.shape, nested())
    assert shapes == {"image": (2, 3), "text": ((2, 4), (2, 5))}
    assert map_arrays(np.shape, np.zeros(7)) == (7,)


def test_arrays_of_yields_every_array_in_order():
    assert [array.shape for array in arrays_of(nested())] == [(2, 3), (2, 4), (2, 5)]
    array = np.zeros(3)
    (only,) = arrays_of(array)
    assert only is array


def test_as_tensors_shares_memory_if_it_can_and_copies_otherwise():
    array = np.zeros((2, 3))
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    tensor = torch.ones(2)
    shared, copied, strided, same = as_tensors((array, read_only, array.T, tensor))
    array[:] = 5
    assert shared.eq(5).all() and strided.eq(0).all() and not copied.any()
    copied[0] = 1
    assert read_only[0] == 0 and same is tensor


# What samples share


def test_what_samples_share_is_copied_once_and_never_divided():
    shared = Shared({"edges": torch.arange(4)})
    batch = {"rows": torch.arange(6), "graph": shared}
    halved = map_arrays(lambda part: part[:3], batch)
    assert len(halved["rows"]) == 3 and halved["graph"] is shared
    there = map_arrays(lambda part: part.to("meta"), batch)["graph"]
    assert there.tensors["edges"].is_meta and there is shared.to("meta") and shared.to("cpu") is shared
    assert map_arrays(lambda part: part.chunk(2)[1], batch)["graph"] is shared
    assert as_tensors(batch)["graph"] is shared and list(arrays_of(batch))[1] is shared


def test_the_digest_of_what_samples_share_depends_on_names_shapes_and_values():
    tensors = [{"a": torch.arange(4)}, {"b": torch.arange(4)}, {"a": torch.arange(4).view(2, 2)}, {"a": torch.ones(4)}]
    assert len({Shared(each).digest for each in tensors}) == 4
    assert Shared(tensors[0]).digest == Shared({"a": torch.arange(4)}).digest


def test_a_split_has_one_entry_per_sample_and_is_taken_with_its_samples():
    source = Source("waves", np.zeros((3, 4)), split=np.array([0, 1, 2]), notes=("three waves",))
    assert source.take([2, 0]).split.tolist() == [2, 0] and source.take([0]).notes == ("three waves",)
    with pytest.raises(InputError, match="split: 2 given"):
        Source("waves", np.zeros((3, 4)), split=np.array([0, 1]))


def test_ids_are_distinct_even_if_many_names_are_the_same():
    found = unique_ids(["a"] * 50_000 + ["a#3", "b", "a#3"])  # not all of them are compared with all others
    assert len(set(found)) == 50_003
    assert found[:3] == ("a", "a#2", "a#4") and found[-3:] == ("a#3", "b", "a#3#2")
