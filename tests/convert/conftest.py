import numpy as np
import pytest
import torch

NOUNS = ["cat", "dog", "ball", "game", "market", "share", "price", "rocket", "moon"]
VERBS = ["plays", "rises", "falls", "lands", "sleeps"]
TEXTS = [f"the {noun} {verb}" for noun in NOUNS for verb in VERBS]
WIDTH = 32


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread):
    """Run small fits in one thread, which is faster."""


@pytest.fixture(scope="session")
def clusters():
    """Vectors of six clusters in 24 dimensions, and the cluster of each."""
    rng = np.random.default_rng(0)
    kinds = np.arange(300) % 6
    centres = rng.normal(size=(6, 24))
    return (centres[kinds] + 0.4 * rng.normal(size=(300, 24))).astype(np.float32), kinds


@pytest.fixture(scope="session")
def st():
    return pytest.importorskip("sentence_transformers", exc_type=ImportError)


@pytest.fixture(scope="session")
def parts(st, tmp_path_factory):
    """A transformer with random weights, and mean pooling."""
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    vocabulary = {
        word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", *NOUNS, *VERBS])
    }
    BertTokenizerFast(vocab=vocabulary).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=16, **shape)).save_pretrained(folder)
    return [Transformer(str(folder)), Pooling(WIDTH, pooling_mode="mean")]
