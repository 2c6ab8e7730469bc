"""Codes of new samples, made by the model of a run of `nonneg train` or `nonneg convert`."""

import importlib
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nonneg.durable import read_errors_as_input_errors, read_object
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.runs import check_finished
from nonneg.tables import open_vectors


def encoder_for(
    features: Features,
    run: str | Path,
    sentence_model: str | None = None,
    kind: str | None = None,
    *,
    use_recorded: bool = True,
) -> "Encoder":
    """Return an encoder that makes codes of new samples for these features, or say why the run's model cannot.

    The run's description is read and compared with the features; its weights are loaded when first used.

    Args:
        features: the codes will have their layer, and their selection and order of columns.
        run: the run that made the features: a run of `nonneg train` or `nonneg convert`; the folder of its model or
            `hub:owner/name` work as well.
        sentence_model: the sentence-transformers model that made the vectors of a run of `nonneg convert`; with it
            the encoder takes texts instead of vectors. By default the one that the features record, if it is on
            this machine.
        kind: for a run trained on pairs, what the encoder is to take, such as "image"; by default the second side.
        use_recorded: if false, a recorded sentence model is not used, so that the encoder takes vectors.
    """
    described = _description(run)
    made_by = features.provenance.get("weights")
    if made_by is not None and made_by != described.get("sha256"):
        raise InputError(f"{run} has other weights than the model that made the features, expected that model")
    recorded, is_recorded = recorded_sentence_model(features), False
    # Features may come from strangers: what they name is used if it is on this machine, but never fetched.
    if sentence_model is None and use_recorded and recorded is not None and _is_local(recorded):
        sentence_model, is_recorded = recorded, True
    side = ""
    if "encoder" in described:
        is_encoder = features.layer == "encoder" or described.get("projector_depth") == 0
        width = described.get("encoder_width" if is_encoder else "features")  # None or 0: known once it is loaded
        modality = described.get("modality")
        name = str(modality.get("name")) if isinstance(modality, dict) else "images"
        if name == "pairs":
            side, kind = _side(modality, kind)
        else:
            kind = name.removesuffix("s")
    elif described.get("nonneg") == "NonNegativeEmbedding":
        if features.layer == "encoder":
            raise InputError(f"the features are of layer encoder, expected projector, the only layer of {run}")
        kind, width = "vector" if sentence_model is None else "text", described.get("features")
    else:
        found = described.get("nonneg", "another model")
        raise InputError(f"{run} holds {found}, expected a run of nonneg train or nonneg convert")
    if isinstance(width, int) and width:
        _check_width(features, width, str(run))
    is_trained = "encoder" in described
    return Encoder(
        features,
        str(run),
        kind,
        is_trained=is_trained,
        sentence_model=sentence_model,
        may_download=not is_recorded,
        side=side,
    )


def _side(pairs: Any, kind: str | None) -> tuple[str, str]:
    """Return the side of a model of pairs that takes this kind of sample, by default the second, and its kind."""
    tables = [pairs.get(place, {}) for place in ("first", "second")]
    kinds = [str(table.get("name") if isinstance(table, dict) else "").removesuffix("s") for table in tables]
    place = kinds.index(kind) if kind in kinds else 1
    return ("first", "second")[place] if kinds[0] == kinds[1] else kinds[place], kinds[place]


def recorded_sentence_model(features: Features) -> str | None:
    """Return the name of the sentence model that made the vectors, if the features record it."""
    recorded = features.provenance.get("sentence_model")
    return recorded if isinstance(recorded, str) else None


def _is_local(sentence_model: str) -> bool:
    """Whether a sentence model is in the cache of the hub's client.

    A folder does not count: it may have come with the features, and its code would be run.
    """
    try:
        if Path(sentence_model).exists():
            return False
        hub = importlib.import_module("huggingface_hub")
        names = (sentence_model, f"sentence-transformers/{sentence_model}")
        return any(isinstance(hub.try_to_load_from_cache(name, "modules.json"), str) for name in names)
    except Exception:  # no such package, or a name that the hub does not allow
        return False


def select_columns(codes: Any, features: Features, model: str = "the model") -> Any:
    """Select and order the columns of a model's output as these features have them.

    Args:
        codes: `(rows, width)`, one column per output of the model, dense or sparse: codes, or a classifier's weights.
        features: the features whose columns to take.
        model: the name of the model in error messages.

    Returns:
        `(rows, features)`, of the kind of matrix it was given.

    Example:
        >>> features = Features(np.eye(3, dtype=np.float32)).with_columns([2, 0])
        >>> select_columns(np.array([[1.0, 2.0, 3.0]]), features)
        array([[3., 1.]])
    """
    _check_width(features, codes.shape[1], model)
    columns = features.model_columns
    return codes if columns is None else Features(codes).with_columns(columns).codes


def _check_width(features: Features, width: int, model: str) -> None:
    columns = features.model_columns
    expected = features.shape[1] if columns is None else int(columns.max()) + 1
    if width < expected or (columns is None and width > expected):
        needed = f"{'' if columns is None else 'at least '}{expected}"
        raise InputError(f"{model} makes codes of {width} features, expected {needed}: it did not make these features")


class Encoder:
    """Makes codes of new samples for a set of features. Use `encoder_for` to create one.

    Attributes:
        kind: what it takes: "vector", or one sample of its modality: "image", "text", ….
        run: the run whose model it uses.
    """

    def __init__(
        self,
        features: Features,
        run: str,
        kind: str,
        *,
        is_trained: bool,
        sentence_model: str | None,
        may_download: bool = True,
        side: str = "",
    ) -> None:
        self.kind, self.run, self._side, self._may_download = kind, run, side, may_download
        self._features, self._is_trained, self._sentence_model = features, is_trained, sentence_model
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load the model of a run of `nonneg train` now, which takes seconds, instead of with the first sample."""
        with self._lock:
            if self._is_trained:
                _ = self._model

    def codes(self, sample: Any) -> sp.csr_array:
        """Return the code `(1, features)` of one sample.

        Args:
            sample: an image as the bytes of its file or as a path; a vector as numbers or as the path of a file
                that holds one; a text as a string; for another modality, what its `read` takes.
        """
        with self._lock:
            codes = self._trained_codes(sample) if self._is_trained else self._converted_codes(sample)
        return sp.csr_array(select_columns(codes, self._features, self.run))

    def text_codes(self, texts: Sequence[str]) -> sp.csr_array:
        """Return the codes `(texts, features)` of several texts at once, for an encoder of texts."""
        if self.kind != "text":
            raise InputError(f"texts are given, but {self.run} encodes a new {self.kind}")
        with self._lock:
            if self._is_trained:
                codes = self._model.embed(list(texts), self._features.layer, media=False, side=self._side).codes
            else:
                codes = self._model.encode(self._sentences.encode(texts))
        return sp.csr_array(select_columns(codes, self._features, self.run))

    def _trained_codes(self, sample: Any) -> Any:
        try:
            source = self._model.modality.side(self._side).read(sample)
        except InputError as error:
            is_named = isinstance(sample, bytes) or self.kind == "text" or str(sample) in str(error)
            raise InputError(f"{error}" if is_named else f"{sample}: {error}") from error
        return self._model.embed(source, self._features.layer, media=False).codes

    def _converted_codes(self, sample: Any) -> Any:
        vector = self._sentences.encode([sample]) if self.kind == "text" else _vector(sample)
        if vector.shape[1] != self._model.n_features_in_:
            found = f"the {self.kind} has {vector.shape[1]} numbers"
            raise InputError(f"{found}, expected {self._model.n_features_in_}, as {self.run} was fitted on")
        return self._model.encode(vector)

    @cached_property
    def _model(self) -> Any:
        if self._is_trained:
            from nonneg.models import load

            return load(self.run)
        from nonneg.convert import NonNegativeEmbedding

        return NonNegativeEmbedding.from_pretrained(self.run)

    @cached_property
    def _sentences(self) -> Any:
        from nonneg.convert import SentenceModel

        return SentenceModel(str(self._sentence_model), may_download=self._may_download)


def _description(run: str | Path) -> dict[str, Any]:
    if isinstance(run, str) and run.startswith("hub:"):
        from nonneg.models import fetched

        folder = fetched(run)
    else:
        folder = Path(run)
    with read_errors_as_input_errors(folder):
        config = (folder / "model" if (folder / "model").is_dir() else folder) / "config.json"
        if not config.is_file():
            check_finished(folder)
            raise InputError(
                f"{run} holds no model: {config} is missing, expected a finished run of nonneg train or nonneg convert"
            )
    return read_object(config)


def _vector(sample: Any) -> Any:
    if isinstance(sample, str | Path):
        vector, name = np.asarray(open_vectors(str(sample), progress=False, one=True)), str(sample)
    else:
        vector, name = np.atleast_2d(np.asarray(sample)), "the vector"
    if vector.ndim != 2 or len(vector) != 1 or vector.dtype.kind not in "fiu" or not np.isfinite(vector).all():
        raise InputError(f"{name} holds {vector.dtype} of shape {vector.shape}, expected one vector of finite numbers")
    if not vector.any():
        raise InputError(f"{name} contains only zeros, expected a vector with a direction")
    return vector
