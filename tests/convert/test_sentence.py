"""Codes from a sentence model, and the error message if sentence-transformers is missing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg import InputError
from nonneg.convert import NonNegativeEmbedding, NonNegativeHead
from tests.convert.conftest import TEXTS, WIDTH


@pytest.fixture(scope="module")
def pooled(st, parts):
    return st.SentenceTransformer(modules=parts, device="cpu").encode(TEXTS)


@pytest.fixture(scope="module")
def embedding(pooled):
    return _fitted(pooled, max_active=4)


@pytest.fixture(scope="module")
def model(st, parts, embedding):
    return st.SentenceTransformer(modules=[*parts, NonNegativeHead.of(embedding)], device="cpu")


def _fitted(vectors, max_active):
    options = {"max_iter": 20, "batch_size": 16, "device": "cpu", "random_state": 0}
    return NonNegativeEmbedding(24, max_active, **options).fit(vectors)


def test_codes_equal_those_of_the_embedding(model, embedding, pooled):
    codes = model.encode(TEXTS)
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, embedding.transform(pooled).toarray(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-5)
    assert model.get_embedding_dimension() == 24


def test_no_limit_on_active_features_is_kept(st, parts, pooled):
    embedding = _fitted(pooled, max_active=None)
    expected = embedding.transform(pooled).toarray()
    for modules in ([NonNegativeHead.of(embedding)], NonNegativeHead.builtin(embedding)):
        codes = st.SentenceTransformer(modules=[*parts, *modules], device="cpu").encode(TEXTS)
        np.testing.assert_allclose(codes, expected, atol=1e-5)


def test_a_saved_model_gives_the_same_codes(st, model, tmp_path):
    model.save(str(tmp_path), safe_serialization=False)
    named = json.loads((tmp_path / "modules.json").read_text())[-1]
    assert named["type"] == "nonneg.convert.NonNegativeHead"
    assert sorted(file.name for file in (tmp_path / named["path"]).iterdir()) == ["config.json", "model.safetensors"]
    loaded = st.SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def test_builtin_modules_give_the_same_codes_and_load_without_trust(st, parts, embedding, pooled, tmp_path):
    st.SentenceTransformer(modules=[*parts, *NonNegativeHead.builtin(embedding)], device="cpu").save(str(tmp_path))
    assert "nonneg" not in (tmp_path / "modules.json").read_text()
    codes = st.SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(codes, embedding.transform(pooled).toarray(), atol=1e-5)


def test_builtin_modules_make_a_sparse_encoder(st, parts, embedding, pooled):
    codes = st.SparseEncoder(modules=[*parts, *NonNegativeHead.builtin(embedding)], device="cpu").encode(TEXTS)
    assert codes.is_sparse
    np.testing.assert_allclose(codes.to_dense().numpy(), embedding.transform(pooled).toarray(), atol=1e-5)


def test_the_head_is_a_copy(st, embedding):
    head = NonNegativeHead.of(embedding)
    before = embedding.head_.weight.clone()
    with torch.no_grad():
        head.head.weight.zero_()
    assert torch.equal(embedding.head_.weight, before)


def test_a_model_in_bfloat16_gives_unit_rows_in_float32(st, embedding):
    head = NonNegativeHead.of(embedding).bfloat16()
    codes = head({"sentence_embedding": torch.randn(5, WIDTH, dtype=torch.bfloat16)})["sentence_embedding"]
    assert codes.dtype == torch.float32
    assert torch.allclose(codes.norm(dim=1), torch.ones(5), atol=1e-5)


def test_gradients_are_finite_where_no_feature_is_active(st, embedding):
    head = NonNegativeHead.of(embedding)
    with torch.no_grad():
        head.head.bias.fill_(-1e3)
    x = torch.randn(5, WIDTH, requires_grad=True)
    codes = head({"sentence_embedding": x})["sentence_embedding"]
    assert not codes.any()
    codes.sum().backward()
    assert x.grad.isfinite().all() and head.head.weight.grad.isfinite().all()


def test_vectors_of_the_wrong_width_are_named(st, embedding):
    with pytest.raises(ValueError, match="7 numbers, expected 32"):
        NonNegativeHead.of(embedding)({"sentence_embedding": torch.randn(2, 7)})


def test_a_folder_without_a_head_is_named(st, tmp_path):
    with pytest.raises(InputError, match=r"3_NonNegativeHead.*config\.json"):
        NonNegativeHead.load(str(tmp_path), subfolder="3_NonNegativeHead", local_files_only=True)


def test_the_missing_package_and_its_extra_are_named():
    program = """
import sys
sys.modules["sentence_transformers"] = None
import numpy as np
from nonneg.convert import NonNegativeEmbedding, NonNegativeHead
embedding = NonNegativeEmbedding(4, 2, max_iter=1, device="cpu").fit(np.eye(8))
for use in (NonNegativeHead.of, NonNegativeHead.builtin):
    try:
        use(embedding)
    except ImportError as error:
        print(error)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    messages = done.stdout.splitlines()
    assert len(messages) == 2
    for message in messages:
        assert "sentence-transformers" in message and "pip install 'nonneg[sentence]'" in message
