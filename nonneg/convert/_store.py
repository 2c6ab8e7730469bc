"""An embedding on disk and on the hub: a config, weights and a card. No pickle is read or written."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from nonneg.convert._head import Head
from nonneg.convert._report import FitReport
from nonneg.durable import read_plainly, said_plainly, write_bytes
from nonneg.errors import InputError
from nonneg.models import fetched, imported

if TYPE_CHECKING:
    from nonneg.convert._embedding import NonNegativeEmbedding

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_KIND = "NonNegativeEmbedding"
_CARD = """---
library_name: nonneg
pipeline_tag: feature-extraction
tags:
- nonneg
- non-negative-features
- sparse-embeddings
- interpretability
---

# Non-negative codes of vectors of {width}

Turns vectors of {width} numbers into {features} non-negative features, at most {most} of them active on a sample.
Made with nonneg, after [Non-negative Contrastive Learning](https://arxiv.org/abs/2403.12459).

```python
from nonneg import NonNegativeEmbedding

embedding = NonNegativeEmbedding.from_pretrained("hub:owner/name")  # or the folder this file lies in
codes = embedding.transform(vectors)  # SciPy CSR, rows of length 1
```

On the {rows:,} rows it was looked at on after the fit:

| | |
|---|---|
{table}
"""


def save(embedding: "NonNegativeEmbedding", folder: Path, measured: dict[str, float] | None = None) -> Path:
    """Write the fitted embedding, each file whole or not at all."""
    head: Head = embedding.head_
    report: FitReport = embedding.report_
    parameters = {name: _plain(value) for name, value in embedding.get_params(deep=False).items()}
    described = {
        "nonneg": _KIND,
        "width": head.weight.shape[1],
        "features": head.weight.shape[0],
        "parameters": parameters,
        "temperature": embedding.temperature_,
        "n_iter": embedding.n_iter_,
        "report": dataclasses.asdict(report),
        "feature_names_in": list(getattr(embedding, "feature_names_in_", [])),
        "measured": measured or {},
    }
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
    write_bytes(folder / WEIGHTS, save_tensors(tensors))
    write_bytes(folder / CARD, _card(head, report, measured or {}).encode())
    write_bytes(folder / CONFIG, json.dumps(described, indent=1).encode())  # last: with it, the model is whole
    return folder


def _plain(value: Any) -> Any:
    """A parameter as JSON has it: numbers of NumPy, as its grids give them, become Python's."""
    if isinstance(value, np.random.RandomState):
        return None  # a generator that has been used cannot be written down
    return value.item() if isinstance(value, np.generic) else value


def _card(head: Head, report: FitReport, measured: dict[str, float]) -> str:
    figures: dict[str, Any] = {
        "live features": report.live,
        "dead features": report.dead,
        "dense features": report.dense,
        "active features of a row": f"{report.active:.1f}",
        **{name: f"{value:.3f}" for name, value in measured.items()},
    }
    return _CARD.format(
        width=head.weight.shape[1],
        features=head.weight.shape[0],
        most=head.max_active or head.weight.shape[0],
        rows=report.rows,
        table="\n".join(f"| {name} | {value} |" for name, value in figures.items()),
    )


def load(path: str | Path) -> "NonNegativeEmbedding":
    """From a run, the folder of a model, or `hub:owner/name`."""
    from nonneg.convert._embedding import NonNegativeEmbedding

    folder = fetched(path) if isinstance(path, str) and path.startswith("hub:") else Path(path)
    folder = folder / "model" if (folder / "model").is_dir() else folder
    described, weights = folder / CONFIG, folder / WEIGHTS
    for part in (described, weights):
        if not part.is_file():
            raise InputError(f"{path} holds no fitted embedding: {part} is missing")
    with read_plainly(folder):
        text, content = described.read_bytes(), weights.read_bytes()
    try:
        config = json.loads(text)
        if config["nonneg"] != _KIND:
            raise ValueError(f"it describes a {config['nonneg']}")
        embedding = NonNegativeEmbedding(**config["parameters"])
        width, features, most = int(config["width"]), int(config["features"]), embedding.max_active
        tensors = load_tensors(content)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if shapes != {"weight": (features, width), "bias": (features,)}:
            raise ValueError(f"its weights have the shapes {shapes}")
        head = Head(width, features, most)
        head.load_state_dict({name: tensor.to(torch.float32) for name, tensor in tensors.items()})
        report = FitReport(**config["report"])
        names = np.array([str(name) for name in config["feature_names_in"]], object)
        if len(names) not in (0, width):
            raise ValueError(f"it names {len(names)} columns of {width}")
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{described} does not describe a nonneg embedding: {reason}") from error
    embedding.head_ = head.requires_grad_(False)
    embedding.report_, embedding.temperature_, embedding.n_iter_ = report, config["temperature"], config["n_iter"]
    embedding.n_features_in_, embedding._n_features_out = width, features
    if len(names):
        embedding.feature_names_in_ = names
    return embedding


def push(folder: Path, repository: str, private: bool) -> str:
    """Upload a saved embedding; the address of what was uploaded."""
    hub = imported("huggingface_hub", repository, extra="hub")
    api = hub.HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload with nonneg"))
