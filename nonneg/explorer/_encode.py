"""New images and texts to codes, with the model of a run."""

import io
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nonneg.errors import InputError

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_LARGEST = 50_000_000  # pixels


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
        from nonneg.models import imported

        library = imported("sentence_transformers", self.sentence_model, extra="sentence")
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
        import torch

        with self._lock:
            pixels = self._pixels(picture)
            with torch.inference_mode():
                images = self._model.normalised(torch.from_numpy(pixels)[None])
                codes: npt.NDArray[np.float32] = self._model(images)[0].float().numpy()
        return codes

    @cached_property
    def _model(self) -> Any:
        from nonneg.models import load

        model = load(self.run)
        if model.config.features != self.features:
            raise InputError(
                f"{self.run} makes {model.config.features} features, expected {self.features}, as those that are shown"
            )
        return model

    def _pixels(self, picture: bytes) -> npt.NDArray[np.uint8]:
        """`(height, width, channels)`."""
        from PIL import Image

        config = self._model.config
        try:
            with Image.open(io.BytesIO(picture), formats=("PNG", "JPEG")) as opened:
                if opened.width * opened.height > _LARGEST:
                    raise InputError(f"the image has {opened.width} x {opened.height} pixels, expected fewer")
                image = opened.convert(_MODES[config.channels])
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("the image cannot be read, expected a whole PNG or JPEG") from error
        side = config.image_size
        if side:
            middle = min(image.size)
            left, top = (image.width - middle) // 2, (image.height - middle) // 2
            image = image.crop((left, top, left + middle, top + middle)).resize((side, side), Image.Resampling.BICUBIC)
        pixels = np.array(image, np.uint8)
        return pixels[:, :, None] if pixels.ndim == 2 else pixels
