"""From the path that somebody names to the features that are meant."""

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
    beside = folder.with_name(f"{folder.name}.features")
    for known in (folder, beside):
        if is_features(known):
            return known
    others = [other for other in sorted(folder.parent.glob(f"{folder.name}-*.features")) if _is_of(other, folder.name)]
    if len(others) > 1:
        found = ", ".join(map(str, others))
        raise InputError(f"{folder} has {len(others)} features beside it, expected one of {found} to be named")
    if not others:
        found = "is neither features nor a run with features beside it" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {found}, expected features or a run that has some")
    return others[0]


def _is_of(folder: Path, run: str) -> bool:
    """Another run may be called `x-2`, and its features `x-2.features`."""
    return is_features(folder) and Features.load(folder).provenance.get("run") == run
