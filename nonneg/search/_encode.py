"""New inputs to codes: an image through a trained run, a vector or a text through a run of `nonneg convert`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.convert import NonNegativeEmbedding
from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.features import Features
from nonneg.models import Layer, Model, load, source_for
from nonneg.tables import open_vectors


def encoded(
    features: Features, kind: str, given: str, run: str | Path | None, sentence_model: str | None = None
) -> sp.csr_array:
    """The code `(1, features)` of a new input, as these features have it.

    Args:
        features: to go by: their layer, and which columns of the run's codes were kept.
        kind: image, vector or text.
        given: the path of an image or of a file with one vector; or the text.
        run: what made the features: a trained run for images, a run of `nonneg convert` for vectors and texts.
        sentence_model: the sentence-transformers model that made the vectors, for texts.
    """
    if run is None:
        raise InputError(f"{kind} is given, but no run to encode it, expected the run that made the features")
    _require_kind(run, kind)
    if kind == "image":
        layer = "encoder" if features.provenance.get("layer") == "encoder" else "projector"
        codes = _of_image(Path(given), str(run), layer)
    else:
        codes = _of_vector(_vector(given) if kind == "vector" else _sentence(given, sentence_model), run, kind)
    if features.model_columns is not None:
        codes = Features(codes).with_columns(features.model_columns).codes
    if codes.shape[1] != features.shape[1]:
        found = f"{run} makes codes of {codes.shape[1]} features"
        raise InputError(f"{found}, expected {features.shape[1]}: it is not the run that made the features")
    return sp.csr_array(codes)


def _require_kind(run: str | Path, kind: str) -> None:
    """A run that lies here must be one for such inputs; one of the hub is told by what it cannot load."""
    folder = Path(run) / "model" if (Path(run) / "model").is_dir() else Path(run)
    try:
        described = json.loads((folder / "config.json").read_bytes())
        takes_images, takes_vectors = "encoder" in described, described.get("nonneg") == "NonNegativeEmbedding"
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return  # loading it says what is wrong
    if kind == "image" and takes_vectors:
        expected = "a vector (--vector) or a text (--text with --sentence-model)"
        raise InputError(f"image is given, but {run} was made from vectors, expected {expected}")
    if kind != "image" and takes_images:
        raise InputError(f"{kind} is given, but {run} was trained on images, expected an image (--image)")


def _of_image(path: Path, run: str, layer: Any) -> Any:
    from nonneg.modalities.images.sources._decode import MOST_BYTES, too_long

    with read_errors_as_input_errors(path):
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file, expected an image")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is no image: {too_long(path.stat().st_size)}")
        content = path.read_bytes()
    return image_codes(content, load(run), layer, str(path))


def image_codes(content: bytes, model: Model, layer: Layer, what: str) -> Any:
    """The code `(1, features)` of an encoded image, decoded, resized and cut as for the model's training.

    Args:
        content: the bytes of an image file.
        model: what to encode with.
        layer: of it.
        what: the image is called in a refusal.
    """
    from PIL import Image

    from nonneg.modalities.images.sources._decode import BrokenImageError, decode

    try:
        pixels = decode(content, model.config.resize or model.config.image_size)
    except BrokenImageError as error:
        raise InputError(f"{what} is no image that can be read: {error}") from error
    if model.config.channels == 1:
        pixels = np.asarray(Image.fromarray(pixels).convert("L"))[..., None]
    source: Any = pixels[None]  # an array is data, too
    return model.embed(source_for(model, source, progress=False), layer, media=False).codes


def _vector(given: str) -> Any:
    path = Path(given)
    if path.suffix == ".npy" and path.is_file():
        try:
            with read_errors_as_input_errors(path):
                vector = np.atleast_2d(np.load(path, allow_pickle=False))
        except (ValueError, EOFError) as error:
            raise InputError(f"{path} is not a plain NumPy array, expected one vector") from error
    else:
        vector = np.asarray(open_vectors(given, progress=False))
    if vector.ndim != 2 or len(vector) != 1 or vector.dtype.kind not in "fiu" or not np.isfinite(vector).all():
        raise InputError(f"{given} holds {vector.dtype} of shape {vector.shape}, expected one vector of finite numbers")
    return vector


def _sentence(text: str, model: str | None) -> Any:
    if model is None:
        raise InputError("text is given, but no sentence model, expected the name of the one that made the vectors")
    library = import_extra("sentence_transformers", model, extra="sentence")
    try:
        return np.asarray(library.SentenceTransformer(model).encode([text], show_progress_bar=False))
    except Exception as error:  # of files, of the network, of the model: each has its own family of errors
        raise InputError(f"sentence model {model!r} cannot be used: {' '.join(str(error).split())}") from error


def _of_vector(vector: Any, run: str | Path, kind: str) -> Any:
    embedding = NonNegativeEmbedding.from_pretrained(run)
    if vector.shape[1] != embedding.n_features_in_:
        raise InputError(
            f"the {kind} has {vector.shape[1]} numbers, expected {embedding.n_features_in_}, as {run} was fitted on"
        )
    return embedding.transform(vector)
