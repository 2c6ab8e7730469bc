"""Parquet shards become one `Features`, whoever does the work."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from nonneg import Features, InputError, NonNegativeEmbedding, bulk, load, measure, search, train
from nonneg.bulk._shard import Shard, batches
from nonneg.features import codes_key, journal, verify
from nonneg.training import load_recipe

COLUMNS = {"ids": "id", "labels": "label", "texts": "text"}


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def embedding(digits):
    return NonNegativeEmbedding(n_components=64, max_active=8, max_iter=20, random_state=0).fit(digits[0])


def write_shards(folder, vectors, labels, bounds):
    folder.mkdir(exist_ok=True)
    for i, (start, stop) in enumerate(pairwise(bounds)):
        rows = range(start, stop)
        columns = {
            "id": [f"digit-{row}" for row in rows],
            "vector": list(vectors[start:stop].astype(np.float32)),
            "label": labels[start:stop],
            "text": [f"the digit {labels[row]}" for row in rows],
        }
        pq.write_table(pa.table(columns), folder / f"{i:03}.parquet")
    return str(folder / "*.parquet")


@pytest.fixture(scope="module")
def shards(tmp_path_factory, digits):
    return write_shards(tmp_path_factory.mktemp("shards"), *digits, [0, 500, 1200, 1797])


@pytest.fixture(scope="module")
def converted(tmp_path_factory, embedding, shards):
    out = tmp_path_factory.mktemp("out") / "digits.features"
    return out, bulk.convert_shards(embedding, shards, out, **COLUMNS)


def files_of(folder):
    return json.loads((folder / "meta.json").read_text())["files"]


def same_codes(features, codes):
    return abs(features.codes - codes).max() < 1e-6


def test_shards_open_as_one_and_equal_one_transform(converted, embedding, digits):
    _, features = converted
    assert features.shape == (1797, 64)
    assert same_codes(features, embedding.transform(digits[0]))
    assert (features.labels == digits[1]).all()
    assert features.id(1200) == "digit-1200" and features.text(1796) == f"the digit {digits[1][1796]}"


def test_arrays_of_parts_are_mapped_not_copied(converted):
    out, _ = converted
    codes = Features.load(out).codes
    assert not codes.data.flags.owndata and not codes.indices.flags.owndata
    assert not codes.data.flags.writeable
    assert sum(name.startswith("data.") for name in files_of(out)) == 3


def test_parts_are_measured_searched_and_verified(converted):
    out, features = converted
    assert verify(out).shape == features.shape
    ids = [features.id(row) for row in range(len(features))]
    whole = Features(features.codes.copy(), ids=ids, labels=features.labels)
    found = [measure(each, parts=["structure"], progress=False).to_dict() for each in (features, whole)]
    assert json.dumps(found[0]["columns"], default=str) == json.dumps(found[1]["columns"], default=str)
    hits = search.Index.build(features).query(features.codes[[700]], k=3)
    assert hits.rows[0, 0] == 700
    assert codes_key(features) == journal(out).codes  # an index that is built in Python fits the folder


def test_stored_zeros_are_not_reported_as_values(converted, embedding, digits):
    _, features = converted
    expected = embedding.transform(digits[0])
    assert features.codes.nnz > expected.nnz  # zeros fill the last page of a part
    assert (features.active == Features(expected).active).all()
    for feature in range(64):
        rows, values = features.column(feature)
        assert values.all() and len(rows) == len(expected[:, [feature]].data)


def test_shards_too_small_to_fill_a_page_are_joined_too(tmp_path, embedding, digits):
    pattern = write_shards(tmp_path / "small", digits[0][:7], digits[1], [0, 1, 3, 7])
    features = bulk.convert_shards(embedding, pattern, tmp_path / "small.features")
    assert same_codes(features, embedding.transform(digits[0][:7]))


def test_a_trained_model_embeds_shards_of_images(tmp_path):
    import io

    from PIL import Image

    run = train(load_recipe("digits").replace(epochs=1, warmup_epochs=0), tmp_path / "run", progress=False)
    pictures = np.random.default_rng(0).integers(0, 255, (40, 8, 8), dtype=np.uint8)
    encoded = []
    for picture in pictures:
        Image.fromarray(picture).save(file := io.BytesIO(), "png")
        encoded.append({"bytes": file.getvalue(), "path": None})
    labels = np.array([[10, 2], [2, -1]]).repeat(10, axis=1)  # shards with some classes only
    for i in range(2):
        table = pa.table({"image": encoded[20 * i : 20 * i + 20], "label": labels[i]})
        (tmp_path / f"year={i}").mkdir()
        pq.write_table(table, tmp_path / f"year={i}" / "part-0.parquet")
    features = bulk.convert_shards(str(run), str(tmp_path / "*" / "part-0.parquet"), tmp_path / "x.features")
    one = load(run).embed(pictures)
    assert features.shape == one.shape
    assert abs(features.codes - sp.csr_array(one.codes)).max() < 1e-5
    assert features.id(3) != features.id(23)  # ids differ over the files
    assert [features.label_name(label) for label in features.labels] == ["10"] * 10 + ["2"] * 20 + ["-1"] * 10


def test_bad_input_names_what_is_wrong_and_leaves_nothing(tmp_path, embedding, digits, shards):
    out = tmp_path / "x.features"
    with pytest.raises(InputError, match="nothing-"):
        bulk.convert_shards(embedding, str(tmp_path / "nothing-*"), out)
    with pytest.raises(InputError, match="expected author"):
        bulk.convert_shards(embedding, shards, out, texts="author")
    with pytest.raises(InputError, match="whole numbers"):
        bulk.convert_shards(embedding, shards, out, labels="text")
    table = pq.read_table(Path(shards).parent / "000.parquet")
    pq.write_table(table.append_column("text", table["text"]), tmp_path / "twice.parquet")
    with pytest.raises(InputError, match=r"twice\.parquet.*text"):
        bulk.convert_shards(embedding, tmp_path / "twice.parquet", out, texts="text")
    (tmp_path / "odd.parquet").write_text("no table")
    with pytest.raises(InputError, match=r"odd\.parquet"):
        bulk.convert_shards(embedding, str(tmp_path / "odd.parquet"), out)
    with pytest.raises(InputError, match="author is not a column"):
        bulk.convert_shards(embedding, shards, out, author="text")
    narrow = write_shards(tmp_path / "narrow", digits[0][:9, :5], digits[1], [0, 9])
    with pytest.raises(InputError, match=r"narrow.*64"):
        bulk.convert_shards(embedding, [str(Path(shards).parent / "000.parquet"), narrow.replace("*", "000")], out)
    whole = Path(shards).parent / "000.parquet"
    with pytest.raises(InputError, match="the same name"):
        bulk.convert_shards(embedding, [str(whole), str(whole)], out)
    shutil.copy(whole, tmp_path / "again.parquet")
    with pytest.raises(InputError, match="ids"):
        bulk.convert_shards(embedding, [str(whole), str(tmp_path / "again.parquet")], out, ids="id")
    table = pq.read_table(whole)
    for name, labels in (("unsigned", pa.array([2**63] * len(table), pa.uint64())), ("large", [2**40] * len(table))):
        pq.write_table(table.set_column(2, "label", pa.array(labels)), tmp_path / f"{name}.parquet")
        with pytest.raises(InputError, match=rf"{name}\.parquet.*labels"):
            bulk.convert_shards(embedding, str(tmp_path / f"{name}.parquet"), out, labels="label")
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:3000] + whole.read_bytes()[-2000:])
    os.mkfifo(tmp_path / "pipe.parquet")
    for name in ("cut", "pipe"):
        with pytest.raises(InputError, match=rf"{name}\.parquet"):
            bulk.convert_shards(embedding, [str(tmp_path / f"{name}.parquet")], out)
    assert not out.exists()


@pytest.mark.parametrize("name", ["vector", "text", "id", "large text"])
def test_a_small_file_that_stands_for_much_is_an_error_before_it_takes_memory(name, tmp_path, embedding):
    rows = 1 if name == "vector" else 1000
    width = 30_000_000 if name == "vector" else 64
    long = pa.array(["x" * 5_000_000], pa.large_string() if name == "large text" else pa.string())
    columns = {
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * width, np.float32)), width),
        "id": [str(row) for row in range(rows)],
        "text": ["short"] * rows,
    }
    if name != "vector":
        columns[name.split()[-1]] = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), long)
    path = tmp_path / "small.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=name == "large text")
    assert path.stat().st_size < 100_000
    del columns
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        with pytest.raises(InputError, match=r"small\.parquet.*(numbers per row|bytes of text)"):
            bulk.convert_shards(embedding, [str(path)], tmp_path / "x.features", ids="id", texts="text")
    finally:
        pa.set_memory_pool(usual)
    assert counted.max_memory() < 100_000_000
    assert not (tmp_path / "x.features").exists()


@pytest.mark.slow
def test_more_text_than_an_array_can_address_is_read_in_parts(tmp_path):
    rows, length = 40, 60_000_000
    columns = {
        "vector": [[0.0] * 4] * rows,
        "vector.wide": [[0.0] * 9] * rows,  # another column, in spite of its name
        "text": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * length])),
    }
    pq.write_table(pa.table(columns), tmp_path / "long.parquet", compression="zstd")
    found = 0
    for batch in batches(Shard(str(tmp_path / "long.parquet"), texts="text"), width=4):
        assert batch["text"].nbytes < 2**31
        assert set(pc.binary_length(batch["text"]).to_pylist()) == {length}
        found += len(batch)
    assert found == rows


@pytest.mark.parametrize("kind", [pa.binary(9), pa.float32()], ids=str)
def test_columns_of_other_types_are_rejected_before_they_are_read(kind, tmp_path, embedding):
    values = [1.0] * 3 if kind == pa.float32() else pa.array([b"123456789"] * 3).cast(kind)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(3 * 64, np.float32)), 64)
    pq.write_table(pa.table({"vector": vectors, "other": pa.array(values, kind)}), tmp_path / "odd.parquet")
    for title in ("texts", "labels"):
        with pytest.raises(InputError, match=rf"odd\.parquet.*{title}"):
            bulk.convert_shards(embedding, [str(tmp_path / "odd.parquet")], tmp_path / "x.features", **{title: "other"})


def test_shards_without_any_text_and_texts_that_are_ids_are_read(tmp_path, embedding):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(3 * 64, np.float32)), 64)
    texts = pa.array(["one", "two", None], pa.string_view()), pa.nulls(3)
    for number, column in enumerate(texts):
        ids = [f"{number}-{row}" for row in range(3)]
        pq.write_table(pa.table({"vector": vectors, "id": ids, "text": column}), tmp_path / f"{number}.parquet")
    shards = str(tmp_path / "*.parquet")
    bulk.convert_shards(embedding, shards, tmp_path / "some.features", ids="id", texts="text")
    some = Features.load(tmp_path / "some.features")
    assert [some.text(row) for row in range(6)] == ["one", "two", None, None, None, None]
    bulk.convert_shards(embedding, shards, tmp_path / "ids.features", ids="id", texts="id")
    same = Features.load(tmp_path / "ids.features")
    assert [same.text(row) for row in range(6)] == [same.id(row) for row in range(6)]


def test_a_part_that_was_cut_is_an_error(tmp_path, embedding, shards):
    out = tmp_path / "x.features"
    bulk.convert_shards(embedding, shards, out)
    part = out / files_of(out)["data.1"]["file"]
    with part.open("rb+") as file:
        file.truncate(part.stat().st_size - 4096)
    with pytest.raises(InputError, match=part.name):
        Features.load(out)


def test_earlier_features_are_replaced_only_if_asked(converted, embedding, shards):
    out, _ = converted
    with pytest.raises(InputError, match="overwrite"):
        bulk.convert_shards(embedding, shards, out)
    before = files_of(out)
    bulk.convert_shards(embedding, shards, out, overwrite=True, **COLUMNS)
    assert files_of(out) == before


def test_the_stage_for_frames_lists_active_features(embedding, digits):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"vector": list(digits[0][:5])})
    (found,) = bulk.encode_frames(embedding)([frame])
    codes = embedding.transform(digits[0][:5])
    assert [list(each) for each in found["features"]] == [list(row.indices) for row in codes]
    assert np.allclose(found["values"][3], codes[[3]].data)
    (empty,) = bulk.encode_frames(embedding)([frame[:0]])
    assert list(empty.columns) == ["vector", "features", "values"] and not len(empty)
    for wrong, message in (
        (frame.rename(columns={"vector": "x"}), "columns are x"),
        (frame.assign(vector=None), "vector"),
    ):
        with pytest.raises(InputError, match=message):
            list(bulk.encode_frames(embedding)([wrong]))


def test_the_stage_for_ray_lists_active_features(embedding, digits):
    found = bulk.Encode(embedding)(pa.table({"vector": list(digits[0][:5])}))
    codes = embedding.transform(digits[0][:5])
    assert found["features"].to_pylist()[2] == codes[[2]].indices.tolist()
    empty = pa.table({"vector": list(digits[0][:5])}).slice(0, 0)
    assert bulk.Encode(embedding)(empty)["features"].to_pylist() == []
    with pytest.raises(InputError, match="columns are x"):
        bulk.Encode(embedding)(pa.table({"x": list(digits[0][:5])}))


@pytest.fixture
def many(tmp_path, digits):
    """Twelve shards, so that a worker is still needed after another was killed."""
    vectors, labels = np.tile(digits[0], (40, 1)), np.tile(digits[1], 40)
    return write_shards(tmp_path / "many", vectors, labels, [*range(0, len(vectors), 6000), len(vectors)])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_ray_with_a_killed_worker_writes_the_same_files_as_one_process(tmp_path, embedding, many):
    ray = pytest.importorskip("ray")
    psutil = pytest.importorskip("psutil")
    one = tmp_path / "one.features"
    bulk.convert_shards(embedding, many, one, **COLUMNS)
    killed = []

    def kill_one():
        while not killed:
            for process in psutil.process_iter(["pid", "name", "cmdline"]):
                title = " ".join(process.info["cmdline"] or [])
                if (
                    "ray::MapWorker" in title
                    and "_RayStage" in title
                    and list((tmp_path / "ray.features").glob("data-*"))
                ):
                    os.kill(process.info["pid"], signal.SIGKILL)
                    killed.append(process.info["pid"])
                    return
            time.sleep(0.02)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        threading.Thread(target=kill_one, daemon=True).start()
        bulk.convert_with_ray(embedding, many, tmp_path / "ray.features", workers=2, **COLUMNS)
        dataset = ray.data.read_parquet(sorted(map(str, (tmp_path / "many").iterdir()))[:1])
        pool = ray.data.ActorPoolStrategy(size=1)
        staged = dataset.map_batches(
            bulk.Encode, fn_constructor_args=(embedding,), batch_format="pyarrow", compute=pool
        )
        rows = staged.sort("id").take(3)
    finally:
        ray.shutdown()
    assert killed
    for row in rows:
        number = int(row["id"].removeprefix("digit-"))
        assert list(row["features"]) == Features.load(one).units[[number]].indices.tolist()
    assert files_of(tmp_path / "ray.features") == files_of(one)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_writes_the_same_files_as_one_process(tmp_path, monkeypatch, embedding, shards):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    bulk.convert_shards(embedding, shards, tmp_path / "one.features", **COLUMNS)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        bulk.convert_with_spark(embedding, shards, tmp_path / "spark.features", spark=spark, **COLUMNS)
        frame = spark.read.parquet(str(Path(shards).parent / "000.parquet")).select("id", "vector")
        schema = "id string, vector array<float>, features array<int>, values array<float>"
        row = frame.limit(1).mapInPandas(bulk.encode_frames(embedding), schema).collect()[0]
    finally:
        spark.stop()
    assert row["features"] == Features.load(tmp_path / "one.features").units[[0]].indices.tolist()
    assert files_of(tmp_path / "spark.features") == files_of(tmp_path / "one.features")
