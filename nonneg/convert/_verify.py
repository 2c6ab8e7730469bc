"""Verifying saved estimators."""

from pathlib import Path

from nonneg.convert._classifier import NonNegativeClassifier
from nonneg.convert._embedding import NonNegativeEmbedding
from nonneg.convert._pair import NonNegativePair
from nonneg.durable import read_object
from nonneg.errors import InputError
from nonneg.runs import check_finished

_KINDS = {kind.__name__: kind for kind in (NonNegativeEmbedding, NonNegativePair, NonNegativeClassifier)}


def verify(path: str | Path) -> str:
    """Load all estimators in the folder of an estimator or of a run, and compare their weights with the stored hashes.

    Returns:
        The names of their classes.

    Raises:
        InputError: naming the file that is not what was saved.
    """
    check_finished(Path(path))
    folders = [Path(path) / inner for inner in ("", "model", "classifier")]
    configs = [folder / name for folder in folders for name in ("config.json", "classifier.json")]
    kinds = {config.parent: str(read_object(config).get("nonneg")) for config in configs if config.is_file()}
    loaded = [_KINDS[kind].from_pretrained(folder) for folder, kind in kinds.items() if kind in _KINDS]
    if not loaded:
        raise InputError(f"{path} holds no fitted estimator, expected one, or a finished run of nonneg convert")
    return ", ".join(type(estimator).__name__ for estimator in loaded)
