"""Estimators on disk and on the hub: a config, weights and a card, without pickle."""

import hashlib
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nonneg.convert._config import plain
from nonneg.convert._head import FitReport
from nonneg.durable import os_errors_as_input_errors, read_errors_as_input_errors, sealed, unsealed, write_atomically
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.models import fetched

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RuntimeError, SafetensorError)
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
class Format:
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

    def write(self, folder: Path, description: "Description", measured: Mapping[str, float]) -> None:
        """Write all files, each of them atomically."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in description.tensors.items()}
        content = save_tensors(tensors)
        digest = hashlib.sha256(content).hexdigest()
        described = {"nonneg": self.kind, **description.config, "measured": measured, "sha256": digest}
        described = json.loads(json.dumps(described, default=as_json))  # as it will be read
        card = _CARD.format(kind=self.kind, name=self.name, **description.card)
        card += _figures(description.reports, measured)
        with os_errors_as_input_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / self.weights, content)
        write_atomically(folder / CARD, card.encode("utf-8", "replace"))
        write_atomically(folder / self.config, json.dumps(sealed(described), indent=1).encode())

    def folder(self, path: str | Path) -> Path:
        """The folder of an estimator, given a run, that folder itself, or `hub:owner/name`."""
        is_on_hub = isinstance(path, str) and path.startswith("hub:")
        folder = fetched(str(path), (self.config, self.weights, *self.further)) if is_on_hub else Path(path)
        with read_errors_as_input_errors(folder):
            folder = folder / self.inner if (folder / self.inner).is_dir() else folder
            for part in (folder / self.config, folder / self.weights):
                if not part.is_file():
                    raise InputError(f"{path} holds no fitted {self.name}: {part} is missing")
        return folder

    def read(self, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Read the config and the tensors; a `ValueError`, `KeyError` or `SafetensorError` means damage."""
        with read_errors_as_input_errors(folder):
            text, content = (folder / self.config).read_bytes(), (folder / self.weights).read_bytes()
        config = unsealed(json.loads(text))
        if config["nonneg"] != self.kind:
            raise ValueError(f"it describes a {config['nonneg']}")
        tensors = load_tensors(content)
        if config.get("sha256") not in (None, hashlib.sha256(content).hexdigest()):
            raise ValueError(f"{self.weights} was changed since it was saved (SHA-256 differs)")
        return config, tensors


class Description(NamedTuple):
    """What is written about a fitted estimator.

    Attributes:
        config: everything that is needed to restore it, besides the tensors.
        tensors: its weights.
        card: what its model card says: `task`, `title`, `text` and `use`, a Python example.
        reports: the reports on its features, by what each is about.
    """

    config: dict[str, Any]
    tensors: Mapping[str, Tensor]
    card: dict[str, str]
    reports: Mapping[str, FitReport]


class Pretrained(ABC):
    """An estimator that can be saved to a folder and shared on the hub."""

    _format: ClassVar[Format]

    @abstractmethod
    def _described(self, folder: Path) -> Description:
        """What to write to the folder."""

    @classmethod
    @abstractmethod
    def _restored(cls, config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Self:
        """The estimator that was described; an error of any kind means that the folder is damaged."""

    def save_pretrained(self, folder: str | Path, measured: Mapping[str, float] | None = None) -> Path:
        """Write the config, the weights and a model card with the reports and the measured figures to a folder."""
        check_is_fitted(self)
        self._format.write(Path(folder), self._described(Path(folder)), measured or {})
        return Path(folder)

    @classmethod
    def from_pretrained(cls, path: str | Path) -> Self:
        """Load a fitted estimator from a run of `nonneg convert`, a folder, or the hub: `hub:owner/name`."""
        folder = cls._format.folder(path)
        try:
            return cls._restored(*cls._format.read(folder), folder)
        except _DAMAGE as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else one_line(error)
            described = f"{folder / cls._format.config} does not describe a nonneg {cls._format.name}"
            raise InputError(f"{described}: {reason}") from error

    def push_to_hub(self, repository: str, private: bool = False) -> str:
        """Upload to the Hugging Face Hub, as `owner/name`; return the address of the upload."""
        hub = import_extra("huggingface_hub", repository, extra="hub")
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            try:
                api = hub.HfApi()
                api.create_repo(repository, private=private, exist_ok=True)
                message = "Upload with nonneg"
                return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))
            except Exception as error:  # the hub's client raises many unrelated types of errors
                raise InputError(f"{repository} cannot be uploaded: {one_line(error)}") from error


def check_tensors(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check the names and shapes of tensors, and that they hold finite numbers."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != shapes:
        raise ValueError(f"its weights have the shapes {found}, expected {dict(shapes)}")
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} has entries that are not finite numbers")


def as_json(value: Any) -> Any:
    """A parameter as a JSON value; the state of a used random generator is not saved."""
    if isinstance(value, np.random.RandomState):
        return None
    return str(value) if isinstance(value, torch.device) else plain(value)


def _figures(reports: Mapping[str, FitReport], measured: Mapping[str, float]) -> str:
    """A table of the reports, by what each is about, and of the measured figures."""
    rows: list[tuple[str, Any]] = []
    for of, report in reports.items():
        rows += [(f"live features{of}", report.live), (f"dead features{of}", report.dead)]
        rows += [(f"dense features{of}", report.dense), (f"active features per row{of}", f"{report.active:.1f}")]
    rows += [(name, f"{value:.3f}") for name, value in measured.items()]
    examined = next(iter(reports.values())).rows
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join([f"\nMeasured on {examined:,} rows of the data of the fit:\n", "| | |", "|---|---|", *lines, ""])
