"""The promises in SECURITY.md: each names a test that exists; those without a place elsewhere are tested here."""

import os
import pickle
import re
from pathlib import Path

import pytest

from nonneg import load
from nonneg.modalities.images import Images
from nonneg.models import Model, ModelConfig

ROOT = Path(__file__).parents[1]
PROMISES = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())


@pytest.mark.parametrize(("file", "test"), PROMISES, ids=[test for _, test in PROMISES])
def test_every_promise_names_a_test(file, test):
    assert f"def {test}(" in (ROOT / file).read_text()


def test_every_promise_is_held_by_a_test():
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if re.match(r"\| [A-Z]", line)]
    assert rows and all("::test_" in row for row in rows)


def test_code_in_a_model_folder_is_not_run(tmp_path, monkeypatch):
    folder, trace = tmp_path / "model", tmp_path / "ran"
    Model(ModelConfig("convnet_8", Images(channels=1), projector_width=16, features=12)).save(folder)

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(trace),)

    for name in ("__init__.py", "modeling.py", "config.py", "nonneg.py", "convnet_8.py", "sitecustomize.py"):
        (folder / name).write_text(f"import os; os.mkdir({str(trace)!r})")
    for name in ("pytorch_model.bin", "model.pt", "model.pkl", "config.pkl"):
        (folder / name).write_bytes(pickle.dumps(Evil()))
    monkeypatch.chdir(folder)
    assert load(folder).config.features == 12 and not trace.exists()
