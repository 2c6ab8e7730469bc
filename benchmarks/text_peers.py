"""sentence-transformers' own trainer on the data of `benchmarks.text`: a dense model and a sparse one."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

KINDS = ("dense", "sparse")


def views(texts: Sequence[str], delete: float, epochs: int, seed: int) -> dict[str, list[str]]:
    """Return two views of each text per epoch, without some of its words: what `nonneg` draws from tokens."""
    rng = np.random.default_rng(seed)

    def view(text: str) -> str:
        words = text.split()
        kept = [word for word, number in zip(words, rng.random(len(words)), strict=True) if number >= delete]
        return " ".join(kept or words[:1])

    pairs: dict[str, list[str]] = {"anchor": [], "positive": []}
    for _ in range(epochs):
        for row in rng.permutation(len(texts)):
            pairs["anchor"].append(view(texts[row]))
            pairs["positive"].append(view(texts[row]))
    return pairs


def model_of(kind: str, minilm: str, features: int, active: int, length: int, frozen: bool) -> tuple[Any, ...]:
    """Return a model, its loss, and the classes of its trainer and of the trainer's settings.

    The dense one has MultipleNegativesRankingLoss; the sparse one a sparse autoencoder of `features`, of which `active`
    are kept, with CSRLoss. `frozen` keeps MiniLM's weights.
    """
    import sentence_transformers as library

    # The weights are stored in float16, but trained in float32, as ours are.
    dense = library.SentenceTransformer(minilm, model_kwargs={"dtype": torch.float32})
    dense.max_seq_length = length
    dense.requires_grad_(not frozen)
    if kind == "dense":
        from sentence_transformers.sentence_transformer import losses as dense_losses

        loss = dense_losses.MultipleNegativesRankingLoss(dense)
        return dense, loss, library.SentenceTransformerTrainer, library.SentenceTransformerTrainingArguments
    from sentence_transformers.sparse_encoder import losses
    from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder

    few = min(512, features // 2)  # 512 is the library's default
    coder = SparseAutoEncoder(dense.get_embedding_dimension(), hidden_dim=features, k=active, k_aux=few)
    sparse = library.SparseEncoder(modules=[dense[0], dense[1], coder])
    sparse.max_seq_length = length
    return sparse, losses.CSRLoss(sparse), library.SparseEncoderTrainer, library.SparseEncoderTrainingArguments


def in_order(dataset: Any, **options: Any) -> Any:
    """Return batches of pairs in the order given."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from torch.utils.data import SequentialSampler

    return DefaultBatchSampler(SequentialSampler(dataset), **options)


def trained(
    kind: str, minilm: Path, pairs: dict[str, list[str]], out: Path, settings: dict[str, Any], batch_size: int = 256
) -> tuple[Any, list[float]]:
    """Train on pairs in the order given; return the model and the time at the end of each step.

    `lr` is the learning rate, and `encoder_lr` that of MiniLM as a multiple of it, 0 to keep its weights: the sparse
    autoencoder starts from random weights.
    """
    from datasets import Dataset, disable_progress_bars
    from transformers import TrainerCallback

    disable_progress_bars()
    torch.manual_seed(settings["seed"])
    own = settings["features"], settings["active"], settings["length"]
    multiple = settings.get("encoder_lr", 1.0)
    model, loss, trainer, arguments = model_of(kind, str(minilm), *own, frozen=not multiple)
    rates = {r"model\.2\.": settings["lr"]} if kind == "sparse" else {}
    ends: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())

    args = arguments(
        output_dir=str(out),
        num_train_epochs=1,
        per_device_train_batch_size=batch_size,
        learning_rate=settings["lr"] * (multiple or 1.0),
        learning_rate_mapping=rates,
        batch_sampler=in_order,  # a batch never holds a text twice, as in ours
        warmup_steps=len(pairs["anchor"]) // batch_size // 10,
        lr_scheduler_type="cosine",
        bf16=torch.cuda.is_available(),
        dataloader_drop_last=True,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=settings["seed"],
    )
    trainer(model=model, args=args, train_dataset=Dataset.from_dict(pairs), loss=loss, callbacks=[Clock()]).train()
    return model, ends


def codes(model: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return what the model encodes texts into, dense."""
    with torch.no_grad():
        found = model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False, batch_size=256)
    return (found.to_dense() if found.is_sparse else found).float().cpu().numpy()
