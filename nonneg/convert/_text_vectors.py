"""Vectors of texts, made by a model of sentence-transformers."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nonneg.cache import cache_folder, kept_array, writing
from nonneg.durable import atomic_writer, digest_of
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.progress import progress_bar

_BLOCK = 512  # texts per file in the cache
_DIGITS = 24  # of a hash in a file's name


class SentenceModel:
    """A model of sentence-transformers, which is loaded when it is first used.

    Args:
        name: its name on the hub, or its folder.
        device: device to compute on, as for `NonNegativeEmbedding`.
        may_download: if false, a model that is not on this machine is an error.
    """

    def __init__(self, name: str, device: str = "auto", *, may_download: bool = True) -> None:
        self.name = name
        self._options: dict[str, Any] = {} if device == "auto" else {"device": device}
        self._options |= {} if may_download else {"local_files_only": True}

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors `(texts, width)` of texts."""
        with self._errors_as_input_errors():
            return np.asarray(self._model.encode(list(texts), show_progress_bar=False), np.float32)

    def encode_once(self, texts: Sequence[str], progress: bool = True) -> npt.NDArray[np.float32]:
        """Do the same block by block, and keep the vectors in the cache folder, so that they are not computed again."""
        folder = cache_folder(None) / "sentences" / self.digest[:_DIGITS]
        blocks = [texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK)]
        with progress_bar(progress) as bar:
            return np.concatenate([self._kept(folder, block) for block in bar.track(blocks, description="encoding")])

    @cached_property
    def digest(self) -> str:
        """The SHA-256 hash of the model's layers and weights."""
        found = hashlib.sha256(repr(self._model).encode())
        for name, tensor in self._model.state_dict().items():
            found.update(name.encode())
            found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return found.hexdigest()

    def _kept(self, folder: Path, texts: Sequence[str]) -> Any:
        place = folder / f"{digest_of({'texts': texts})[:_DIGITS]}.npy"

        def write() -> None:
            vectors = self.encode(texts)
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
                with atomic_writer(place) as file:
                    np.save(file, vectors)

        return kept_array(place, write)

    @cached_property
    def _model(self) -> Any:
        library = import_extra("sentence_transformers", self.name, extra="sentence")
        with self._errors_as_input_errors():
            return library.SentenceTransformer(self.name, **self._options)

    @contextmanager
    def _errors_as_input_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # files, the network and the model each raise their own family of errors
            raise InputError(f"sentence model {self.name!r} cannot be used: {one_line(error)}") from error
