"""New images and texts to codes, with the model of a run."""

import io
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nonneg.errors import InputError

_LARGEST = 50_000_000  # pixels of an image that is resized
_LARGEST_WHOLE = 1_000_000  # and of one that goes through the network as it is


class TextEncoder:
    """A sentence model and the embedding of a run of `nonneg convert`, loaded when first asked.

    Args:
        run: the run's folder.
        features: how many features its codes must have to fit those shown.
        sentence_model: the one that made the vectors, as sentence-transformers calls it.
    """

    kind: Literal["text"] = "text"

    def __init__(self, run: Path, features: int, sentence_model: str) -> None:
        self.run, self.features, self.sentence_model = run, features, sentence_model
        self._lock = threading.Lock()

    def codes(self, text: str) -> npt.NDArray[np.float32]:
        """`(features,)` of a text."""
        with self._lock:
            sentences, embedding = self._models
            vector = np.asarray(sentences.encode([text], show_progress_bar=False), np.float32)
            if vector.shape[1] != embedding.n_features_in_:
                found = f"{self.sentence_model} makes vectors of {vector.shape[1]} numbers"
                raise InputError(f"{found}, expected {embedding.n_features_in_}, as {self.run} was fitted on")
            codes: npt.NDArray[np.float32] = embedding.transform(vector).toarray()[0]
        return codes

    @cached_property
    def _models(self) -> tuple[Any, Any]:
        from nonneg.convert import NonNegativeEmbedding
        from nonneg.extras import import_extra

        library = import_extra("sentence_transformers", self.sentence_model, extra="sentence")
        try:
            sentences = library.SentenceTransformer(self.sentence_model)
        except Exception as error:  # of files, of the network, of the model: each has its own family of errors
            reason = " ".join(str(error).split())
            raise InputError(f"sentence model {self.sentence_model!r} cannot be used: {reason}") from error
        embedding = NonNegativeEmbedding.from_pretrained(self.run)
        if embedding.head_.weight.shape[0] != self.features:
            found = f"{self.run} makes {embedding.head_.weight.shape[0]} features"
            raise InputError(f"{found}, expected {self.features}, as those that are shown")
        return sentences, embedding


class ImageEncoder:
    """A trained run's model, loaded when first asked; images are resized and cut as for its training.

    Args:
        run: a run's folder.
        features: how many features its codes must have to fit those shown.
    """

    kind: Literal["image"] = "image"

    def __init__(self, run: Path, features: int) -> None:
        self.run, self.features = run, features
        self._lock = threading.Lock()

    def codes(self, picture: bytes) -> npt.NDArray[np.float32]:
        """`(features,)` of an encoded image."""
        from nonneg.search import image_codes

        with self._lock:
            self._require_small(picture)
            codes = image_codes(picture, self._model, "projector", "the image")
        code: npt.NDArray[np.float32] = np.asarray(codes.toarray() if sp.issparse(codes) else codes, np.float32)[0]
        return code

    @cached_property
    def _model(self) -> Any:
        from nonneg.models import load

        model = load(self.run)
        if model.config.features != self.features:
            raise InputError(
                f"{self.run} makes {model.config.features} features, expected {self.features}, as those that are shown"
            )
        return model

    def _require_small(self, picture: bytes) -> None:
        """What is larger than it looks is refused before it is decoded."""
        from PIL import Image

        most = _LARGEST if self._model.config.image_size else _LARGEST_WHOLE
        try:
            with Image.open(io.BytesIO(picture)) as opened:
                width, height = opened.size
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise InputError("the image cannot be read, expected a whole PNG or JPEG") from error
        if width * height > most:
            raise InputError(f"the image has {width} x {height} pixels, expected at most {most:,} in all")
