"""`Features`, which every step of nonneg makes or uses: codes of samples with everything needed to read them."""

from nonneg.features._card import Card
from nonneg.features._checks import sample_column
from nonneg.features._features import Features
from nonneg.features._find import find_features
from nonneg.features._frames import frame_of
from nonneg.features._given import check_features
from nonneg.features._load import journal, verify
from nonneg.features._media import content_type, data_uri
from nonneg.features._meta import check_writable, is_features, remove_leftovers
from nonneg.features._names import NameJournal, Naming
from nonneg.features._parts import Part, commit_parts, write_part
from nonneg.features._save import codes_key
from nonneg.features._suggested import SampleMap, Suggestion, read_map, write_map, write_suggestions

__all__ = [
    "Card",
    "Features",
    "NameJournal",
    "Naming",
    "Part",
    "SampleMap",
    "Suggestion",
    "check_features",
    "check_writable",
    "codes_key",
    "commit_parts",
    "content_type",
    "data_uri",
    "find_features",
    "frame_of",
    "is_features",
    "journal",
    "read_map",
    "remove_leftovers",
    "sample_column",
    "verify",
    "write_map",
    "write_part",
    "write_suggestions",
]
