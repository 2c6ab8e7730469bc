"""The memory of a fit on a memory map depends on the batch size, not on the size of the data."""

import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import sys, threading
import numpy as np
from nonneg import NonNegativeEmbedding

def anonymous():
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) / 1024

small = dict(n_components=64, max_active=8, max_iter=10, random_state=0)
NonNegativeEmbedding(**small).fit(np.random.default_rng(0).normal(size=(1000, 384)))
before, most, done = anonymous(), [0], threading.Event()

def watch():
    while not done.wait(0.005):
        most.append(anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
embedding = NonNegativeEmbedding(**small).fit(np.load(sys.argv[1], mmap_mode="r"))
done.set()
watcher.join()
print(max(most) - before, embedding.n_features_in_)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path):
    path = tmp_path / "x.npy"
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (400_000, 384))  # 614 MB
    block = np.random.default_rng(0).normal(size=(20_000, 384)).astype(np.float32)
    for start in range(0, len(rows), len(block)):
        rows[start : start + len(block)] = block
    rows.flush()
    del rows
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    megabytes, width = done.stdout.split()
    assert width == "384"
    assert float(megabytes) < 200
