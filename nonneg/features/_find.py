"""Finding a features folder from a path that a user gives."""

from glob import escape
from pathlib import Path

from nonneg.durable import read_errors_as_input_errors
from nonneg.errors import InputError
from nonneg.features._features import Features
from nonneg.features._meta import is_features
from nonneg.runs import check_finished


def find_features(path: str | Path) -> Path:
    """Return the path itself if it is a features folder, otherwise the features folder next to a run.

    Next to the run `runs/x`, `nonneg embed` writes `runs/x.features` or `runs/x-….features`. The second form must be
    unique among the folders that the run has made.
    """
    folder = Path(path)
    if is_features(folder):
        return folder
    folder = folder if folder.name else folder.resolve()
    beside = folder.parent / f"{folder.name}.features"
    if is_features(beside):
        return beside
    with read_errors_as_input_errors(folder):
        is_file = folder.is_file()  # of vectors, say, and no run, whatever the features beside it are called
    pattern = f"{escape(folder.name)}-*.features"
    others = [] if is_file else sorted(other for other in folder.parent.glob(pattern) if is_features(other))
    others = [other for other in others if _is_made_by(other, folder.name)] or others[:2]
    if len(others) > 1:
        found = ", ".join(map(str, others))
        raise InputError(f"{folder} has several features folders next to it, expected one of them: {found}")
    if not others:
        check_finished(folder)
        with read_errors_as_input_errors(folder):
            found = "is neither features nor a run with features next to it" if folder.exists() else "does not exist"
            if is_file:
                found = "is a file (nonneg convert makes features of vectors)"
        raise InputError(f"{folder} {found}, expected features or a run that has some")
    return others[0]


def _is_made_by(folder: Path, run: str) -> bool:
    """Whether a run has made these features: neither another run (named `x-2`, say) nor a selection of features."""
    try:
        provenance = Features.load(folder).provenance
    except InputError:  # damaged features are not considered
        return False
    return provenance.get("run") == run and "selected" not in provenance
