"""Estimators on disk and on the hub: a config, weights and a card. No pickle is read or written."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from nonneg.convert._config import checked_config
from nonneg.convert._head import Head
from nonneg.convert._report import FitReport
from nonneg.durable import os_errors_as_input_errors, read_errors_as_input_errors, write_atomically
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.models import fetched

if TYPE_CHECKING:
    from nonneg.convert._embedding import NonNegativeEmbedding

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, RuntimeError)
_CARD = """---
library_name: nonneg
pipeline_tag: {task}
tags:
- nonneg
- non-negative-features
- sparse-embeddings
- interpretability
---

# {title}

{text}
Made with nonneg, after [Non-negative Contrastive Learning](https://arxiv.org/abs/2403.12459).

```python
from nonneg import {kind}

{name} = {kind}.from_pretrained("hub:owner/name")  # or the folder this file lies in
{use}
```
"""


@dataclass(frozen=True)
class Saved:
    """How estimators of one kind lie in a folder.

    Attributes:
        kind: the class.
        name: what it is called in sentences.
        config: the file that describes it. It is written last: with it, the estimator is whole.
        weights: the file of its tensors.
        further: other files that it needs, which have to be fetched from the hub too.
        inner: the folder of a run that it lies in.
    """

    kind: str
    name: str
    config: str = CONFIG
    weights: str = WEIGHTS
    further: tuple[str, ...] = ()
    inner: str = "model"

    def write(self, folder: Path, described: dict[str, Any], tensors: Mapping[str, Tensor], card: str) -> Path:
        """Each file whole or not at all."""
        content = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
        digest = hashlib.sha256(content).hexdigest()
        text = json.dumps({"nonneg": self.kind, **described, "sha256": digest}, indent=1, default=plain)
        with os_errors_as_input_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / self.weights, content)
        write_atomically(folder / CARD, card.encode("utf-8", "replace"))
        write_atomically(folder / self.config, text.encode())
        return folder

    def folder(self, path: str | Path) -> Path:
        """Where it lies: in a run, in a folder, or in the local copy of `hub:owner/name`."""
        folder = self._fetched(path) if isinstance(path, str) and path.startswith("hub:") else Path(path)
        with read_errors_as_input_errors(folder):
            folder = folder / self.inner if (folder / self.inner).is_dir() else folder
            for part in (folder / self.config, folder / self.weights):
                if not part.is_file():
                    raise InputError(f"{path} holds no fitted {self.name}: {part} is missing")
        return folder

    def _fetched(self, path: str) -> Path:
        folder = fetched(path)
        files = [name for name in (self.config, self.weights, *self.further) if name not in (CONFIG, WEIGHTS)]
        if files:
            hub, name = import_extra("huggingface_hub", path, extra="hub"), path.removeprefix("hub:").partition("@")[0]
            with _hub_errors(f"{path} cannot be fetched"):  # of the same commit, which the folder is named after
                folder = Path(hub.snapshot_download(name, revision=folder.name, allow_patterns=files))
        return folder

    @contextmanager
    def opened(self, folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
        """What `write` was given; whatever turns out to be wrong with it inside of the `with` is one sentence."""
        with read_errors_as_input_errors(folder):
            text, content = (folder / self.config).read_bytes(), (folder / self.weights).read_bytes()
        try:
            described = json.loads(text)
            if described["nonneg"] != self.kind:
                raise ValueError(f"it describes a {described['nonneg']}")
            tensors = load_tensors(content)
            if described.get("sha256") not in (None, hashlib.sha256(content).hexdigest()):
                raise ValueError(f"{self.weights} is not what was saved with it (SHA-256 differs)")
            yield described, tensors
        except (*_DAMAGE, SafetensorError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise InputError(f"{folder / self.config} does not describe a nonneg {self.name}: {reason}") from error

    def card(self, task: str, title: str, text: str, use: str) -> str:
        """A model card, in the form the Hugging Face Hub reads."""
        return _CARD.format(task=task, title=title, text=text, kind=self.kind, name=self.name, use=use)


def check_tensors(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """They are these, of these shapes, of finite numbers."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        raise ValueError(f"its weights have the shapes {found}, expected {dict(shapes)}")
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} has entries that are no finite numbers")


def push(folder: Path, repository: str, private: bool) -> str:
    """Upload what was saved; the address of what was uploaded."""
    hub = import_extra("huggingface_hub", repository, extra="hub")
    with _hub_errors(f"{repository} cannot be uploaded"):
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload with nonneg"))


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of HTTP, of the cache, of the names: each has its own family of errors
        raise InputError(f"{what}: {' '.join(str(error).split()) or type(error).__name__}") from error


# What stores have in common


def plain(value: Any) -> Any:
    """A parameter as JSON has it: numbers of NumPy, as its grids give them, become Python's."""
    if isinstance(value, np.random.RandomState):
        return None  # a generator that has been used cannot be written down
    if isinstance(value, torch.device):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def restored_head(tensors: Mapping[str, Tensor], described: Any, parameters: dict[str, Any], prefix: str = "") -> Head:
    """The head whose tensors begin with the prefix, once `check_tensors` has seen them."""
    # The head's own limit: the parameter may have been set anew since the fit.
    limited = parameters | {"max_active": described.get("max_active", parameters["max_active"])}
    features, width = tensors[f"{prefix}weight"].shape
    head = Head(width, features, checked_config(limited, 0).max_active)
    head.load_state_dict({name: tensors[f"{prefix}{name}"].to(torch.float32) for name in ("weight", "bias")})
    return head.requires_grad_(False)


def column_names(given: Any, width: int) -> npt.NDArray[Any] | None:
    """Names of columns, as scikit-learn keeps them; None if they have none."""
    names = np.array([str(name) for name in given], object)
    if len(names) not in (0, width):
        raise ValueError(f"it names {len(names)} columns of {width}")
    return names if len(names) else None


def at_most(head: Head) -> str:
    """How sparse its codes are, for a card."""
    return f"at most {head.max_active or head.weight.shape[0]} of them active on a sample"


def figures(reports: Mapping[str, FitReport], measured: Mapping[str, float]) -> str:
    """What was seen after the fit, by what the reports are of."""
    rows: list[tuple[str, Any]] = []
    for of, report in reports.items():
        rows += [(f"live features{of}", report.live), (f"dead features{of}", report.dead)]
        rows += [(f"dense features{of}", report.dense), (f"active features of a row{of}", f"{report.active:.1f}")]
    rows += [(name, f"{value:.3f}") for name, value in measured.items()]
    looked_at = next(iter(reports.values())).rows
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join(
        [f"\nOn the {looked_at:,} rows it was looked at on after the fit:\n", "| | |", "|---|---|", *lines, ""]
    )


# An embedding

_EMBEDDING = Saved("NonNegativeEmbedding", "embedding")


def save(embedding: "NonNegativeEmbedding", folder: Path, measured: dict[str, float] | None = None) -> Path:
    """Write the fitted embedding."""
    head: Head = embedding.head_
    features, width = head.weight.shape
    described = {
        "width": width,
        "features": features,
        "max_active": plain(head.max_active),
        "parameters": {name: plain(value) for name, value in embedding.get_params(deep=False).items()},
        "temperature": embedding.temperature_,
        "n_iter": embedding.n_iter_,
        "report": dataclasses.asdict(embedding.report_),
        "feature_names_in": list(getattr(embedding, "feature_names_in_", [])),
        "measured": measured or {},
    }
    card = _EMBEDDING.card(
        "feature-extraction",
        f"Non-negative codes of vectors of {width}",
        f"Turns vectors of {width} numbers into {features} non-negative features, {at_most(head)}.",
        "codes = embedding.transform(vectors)  # SciPy CSR, rows of length 1",
    )
    card += figures({"": embedding.report_}, measured or {})
    return _EMBEDDING.write(folder, described, head.state_dict(), card)


def load(path: str | Path) -> "NonNegativeEmbedding":
    """From a run, the folder of a model, or `hub:owner/name`."""
    from nonneg.convert._embedding import NonNegativeEmbedding

    with _EMBEDDING.opened(_EMBEDDING.folder(path)) as (described, tensors):
        embedding = NonNegativeEmbedding(**described["parameters"])
        width, features = int(described["width"]), int(described["features"])
        check_tensors(tensors, {"weight": (features, width), "bias": (features,)})
        embedding.head_ = restored_head(tensors, described, embedding.get_params())
        embedding.report_ = FitReport(**described["report"])
        embedding.temperature_, embedding.n_iter_ = float(described["temperature"]), int(described["n_iter"])
        embedding.n_features_in_, embedding._n_features_out = width, features
        names = column_names(described["feature_names_in"], width)
    if names is not None:
        embedding.feature_names_in_ = names
    return embedding
