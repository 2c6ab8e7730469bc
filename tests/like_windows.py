"""Run as a script, with a folder: use the core of nonneg on a system that behaves like Windows.

There is no fcntl, no fork and no sysconf; folders can be neither opened nor flushed; and a file that this process has
open or memory-mapped can be neither replaced nor removed. Linux lists these files in /proc.
"""

import gc
import os
import shutil
import stat
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sklearn.decomposition  # noqa: F401 (libraries are imported before the system changes)
import torch  # noqa: F401


def is_in_use(path):
    place = os.path.realpath(path)
    mapped = (line.split(maxsplit=5)[5:] for line in Path("/proc/self/maps").read_text().splitlines())
    handles = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [place] in mapped or any(str(each.readlink()) == place for each in handles)


def denied(path):
    return PermissionError(13, "Permission denied", str(path))


def refuse_files_in_use(name):
    real = getattr(os, name)

    def changed(*paths, **options):
        for path in paths:
            if is_in_use(path):
                raise denied(path)
        return real(*paths, **options)

    setattr(os, name, changed)


def refuse_folders(name, is_folder):
    real = getattr(os, name)

    def changed(place, *arguments, **options):
        if is_folder(place):
            raise denied(place)
        return real(place, *arguments, **options)

    setattr(os, name, changed)


def behave_like_windows():
    sys.modules["fcntl"] = None
    for name in ("fork", "register_at_fork", "sysconf", "sched_getaffinity", "geteuid", "mkfifo"):
        delattr(os, name)
    shutil._use_fd_functions = False  # Windows has no functions that take descriptors of folders
    for name in ("replace", "rename", "unlink", "remove"):
        refuse_files_in_use(name)
    refuse_folders("open", os.path.isdir)
    refuse_folders("fsync", lambda descriptor: stat.S_ISDIR(os.fstat(descriptor).st_mode))


def check_features(root):
    from nonneg import Features
    from nonneg.features import verify

    folder = root / "x.features"
    codes = np.eye(4, dtype=np.float32)
    first = Features(codes, ids=list("abcd"), labels=[0, 1, 1, 0], names={1: "ears"})
    first.save(folder)
    opened = Features.load(folder)
    opened.with_names({2: "tail"}).save(folder, overwrite=True)  # replaces the files that `opened` has mapped
    assert dict(verify(folder).names) == {1: "ears", 2: "tail"}
    Features(codes * 2, ids=list("efgh")).save(folder, overwrite=True)
    assert opened.id(0) == "a" and verify(folder).id(0) == "e"
    assert len(list(folder.glob("codes-*"))) == 2  # the mapped one could not be removed
    del opened
    Features(codes * 2, ids=list("efgh")).save(folder, overwrite=True)
    assert len(list(folder.glob("codes-*"))) == 1 and verify(folder).id(0) == "e"


def check_index(root):
    from nonneg import Features
    from nonneg.search import Index, verify

    codes = np.eye(6, dtype=np.float32)
    index = Index.build(Features(codes, ids=list("abcdef")))
    index.save(root / "x.index")
    reader = Index.open(root / "x.index")
    index.save(root / "x.index", overwrite=True)
    index.add(codes[:4], list("ghij"))
    index.delete(["a", "g"])
    index.add(codes[:1], ["a"])
    verify(root / "x.index")
    assert len(reader) == 6 and reader.ids(reader.query(codes[0]).rows[0]) == ["a"]
    del reader
    gc.collect()  # the next change can now remove what the reader had mapped
    index.add(codes[1:2], ["k"])
    again = Index.open(root / "x.index")
    assert again.ids(again.query(codes[0]).rows[0]) == ["a"] and len(again) == 10
    listed = {entry["file"] for entry in again._meta.entries()}
    assert {path.name for path in (root / "x.index").iterdir() if "-" in path.name and path.name[0] != "."} == listed


def check_estimator(root):
    from nonneg import NonNegativeEmbedding

    vectors = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    estimator = NonNegativeEmbedding(n_components=16, max_active=4, max_iter=2, random_state=0).fit(vectors)
    codes = estimator.transform(vectors)
    for _ in range(2):
        estimator.save_pretrained(root / "model")
        estimator = NonNegativeEmbedding.from_pretrained(root / "model")
    assert (estimator.transform(vectors) != codes).nnz == 0


def check_tables(root):
    from nonneg import InputError
    from nonneg.tables import open_vectors

    os.environ["NONNEG_CACHE"] = str(root / "cache")
    vectors = np.random.default_rng(0).normal(size=(20, 3)).tolist()
    pq.write_table(pa.table({"v": vectors}), root / "good.parquet")
    pq.write_table(pa.table({"v": [*vectors, [1.0]]}), root / "bad.parquet")
    assert open_vectors(str(root / "good.parquet")).shape == open_vectors(str(root / "good.parquet")).shape == (20, 3)
    try:
        open_vectors(str(root / "bad.parquet"))
    except InputError as error:
        assert "bad.parquet" in str(error)


def main():
    warnings.simplefilter("error")
    behave_like_windows()
    import nonneg.explorer  # noqa: F401

    for check in (check_features, check_index, check_estimator, check_tables):
        check(Path(sys.argv[1]))
        print(check.__name__)


if __name__ == "__main__":
    main()
