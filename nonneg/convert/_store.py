"""Estimators on disk and on the hub: a config, weights and a card, without pickle."""

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
from nonneg.messages import one_line
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

{name} = {kind}.from_pretrained("hub:owner/name")  # or the folder of this file
{use}
```
"""


@dataclass(frozen=True)
class Saved:
    """How estimators of one class are stored in a folder.

    Attributes:
        kind: the class.
        name: its name in messages.
        config: the file that describes it. It is written last and completes the estimator.
        weights: the file of its tensors.
        further: other files that it needs, to be fetched from the hub as well.
        inner: the folder within a run that it is stored in.
    """

    kind: str
    name: str
    config: str = CONFIG
    weights: str = WEIGHTS
    further: tuple[str, ...] = ()
    inner: str = "model"

    def write(self, folder: Path, described: dict[str, Any], tensors: Mapping[str, Tensor], card: str) -> Path:
        """Write all files, each of them atomically."""
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
        """The folder of an estimator, given a run, that folder itself, or `hub:owner/name`."""
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
            with _hub_errors(f"{path} cannot be fetched"):  # the folder's name is the commit
                folder = Path(hub.snapshot_download(name, revision=folder.name, allow_patterns=files))
        return folder

    @contextmanager
    def opened(self, folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
        """Read what `write` wrote; errors within the `with` block are raised as one `InputError`."""
        with read_errors_as_input_errors(folder):
            text, content = (folder / self.config).read_bytes(), (folder / self.weights).read_bytes()
        try:
            described = json.loads(text)
            if described["nonneg"] != self.kind:
                raise ValueError(f"it describes a {described['nonneg']}")
            tensors = load_tensors(content)
            if described.get("sha256") not in (None, hashlib.sha256(content).hexdigest()):
                raise ValueError(f"{self.weights} was changed since it was saved (SHA-256 differs)")
            yield described, tensors
        except (*_DAMAGE, SafetensorError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else one_line(error)
            raise InputError(f"{folder / self.config} does not describe a nonneg {self.name}: {reason}") from error

    def card(self, task: str, title: str, text: str, use: str) -> str:
        """A model card in the format of the Hugging Face Hub."""
        return _CARD.format(task=task, title=title, text=text, kind=self.kind, name=self.name, use=use)


def check_tensors(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check the names and shapes of tensors, and that they hold finite numbers."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        raise ValueError(f"its weights have the shapes {found}, expected {dict(shapes)}")
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} has entries that are not finite numbers")


def push(folder: Path, repository: str, private: bool) -> str:
    """Upload a saved estimator; return the address of the upload."""
    hub = import_extra("huggingface_hub", repository, extra="hub")
    with _hub_errors(f"{repository} cannot be uploaded"):
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload with nonneg"))


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the hub's client raises many unrelated types of errors
        raise InputError(f"{what}: {one_line(error)}") from error


# Shared by the stores


def plain(value: Any) -> Any:
    """A parameter as a JSON value; NumPy numbers become Python numbers."""
    if isinstance(value, np.random.RandomState):
        return None  # the state of a used generator is not saved
    if isinstance(value, torch.device):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def restored_head(tensors: Mapping[str, Tensor], described: Any, parameters: dict[str, Any], prefix: str = "") -> Head:
    """The head whose tensors' names begin with the prefix; `check_tensors` must have checked them."""
    # The head's own limit, as the parameter may have changed since the fit.
    limited = parameters | {"max_active": described.get("max_active", parameters["max_active"])}
    features, width = tensors[f"{prefix}weight"].shape
    head = Head(width, features, checked_config(limited, 0).max_active)
    head.load_state_dict({name: tensors[f"{prefix}{name}"].to(torch.float32) for name in ("weight", "bias")})
    return head.requires_grad_(False)


def column_names(given: Any, width: int) -> npt.NDArray[Any] | None:
    """Names of columns, as scikit-learn stores them; None if there are none."""
    names = np.array([str(name) for name in given], object)
    if len(names) not in (0, width):
        raise ValueError(f"it names {len(names)} of {width} columns")
    return names if len(names) else None


def at_most(head: Head) -> str:
    """The sparsity of a head's codes, for its card."""
    return f"at most {head.max_active or head.weight.shape[0]} of them active per sample"


def figures(reports: Mapping[str, FitReport], measured: Mapping[str, float]) -> str:
    """A table of the reports, by what each is about, and of the measured figures."""
    rows: list[tuple[str, Any]] = []
    for of, report in reports.items():
        rows += [(f"live features{of}", report.live), (f"dead features{of}", report.dead)]
        rows += [(f"dense features{of}", report.dense), (f"active features per row{of}", f"{report.active:.1f}")]
    rows += [(name, f"{value:.3f}") for name, value in measured.items()]
    examined = next(iter(reports.values())).rows
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join([f"\nMeasured on {examined:,} rows of the data of the fit:\n", "| | |", "|---|---|", *lines, ""])


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
        f"Non-negative codes for vectors of {width} numbers",
        f"Turns vectors of {width} numbers into {features} non-negative features, {at_most(head)}.",
        "codes = embedding.transform(vectors)  # SciPy CSR, rows of length 1",
    )
    card += figures({"": embedding.report_}, measured or {})
    return _EMBEDDING.write(folder, described, head.state_dict(), card)


def load(path: str | Path) -> "NonNegativeEmbedding":
    """Load from a run, the folder of a model, or `hub:owner/name`."""
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
