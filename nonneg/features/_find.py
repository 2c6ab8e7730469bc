"""From the path that somebody names to the features that are meant."""

from glob import escape
from pathlib import Path

from nonneg.errors import InputError
from nonneg.features._features import Features
from nonneg.features._meta import is_features


def find_features(path: str | Path) -> Path:
    """A features folder itself, or the one beside a run.

    Beside `runs/x` that is `runs/x.features`, or the only `runs/x-….features` that the run has made, which is where
    `nonneg embed` writes them.
    """
    folder = Path(path)
    if is_features(folder):
        return folder
    folder = folder if folder.name else folder.resolve()
    beside = folder.with_name(f"{folder.name}.features")
    if is_features(beside):
        return beside
    others = sorted(other for other in folder.parent.glob(f"{escape(folder.name)}-*.features") if is_features(other))
    others = [other for other in others if _is_made_by(other, folder.name)] or others[:2]
    if len(others) > 1:
        found = ", ".join(map(str, others))
        raise InputError(f"{folder} has several features beside it, expected one of them to be named: {found}")
    if not others:
        found = "is neither features nor a run with features beside it" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {found}, expected features or a run that has some")
    return others[0]


def _is_made_by(folder: Path, run: str) -> bool:
    """Another run may be called `x-2`, and its features `x-2.features`; selections of features name the run, too."""
    try:
        provenance = Features.load(folder).provenance
    except InputError:  # damaged ones are not these
        return False
    return provenance.get("run") == run and "selected" not in provenance
