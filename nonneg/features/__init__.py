"""The artefact that everything meets in: codes of samples, with what is needed to read them."""

from nonneg.features._features import Card, Features
from nonneg.features._names import NameJournal, Naming
from nonneg.features._store import is_features, journal, verify

__all__ = ["Card", "Features", "NameJournal", "Naming", "is_features", "journal", "verify"]
