"""The static report: models side by side on one self-contained page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from nonneg import metrics
from nonneg.codes import dense
from nonneg.durable import write_atomically
from nonneg.errors import InputError
from nonneg.features import Features, data_uri
from nonneg.report import _figures

FEATURES_SHOWN, SAMPLES_SHOWN = 12, 10
_EXCERPT = 160  # characters of a text


@dataclass(frozen=True)
class Side:
    """One of the models compared.

    Attributes:
        name: a short name, such as NCL.
        description: one sentence on how it differs from the others.
        features: its held-out features, with labels, and images or texts.
        log: its training log, one entry per epoch.
        notes: feature to further information about it, such as the factor that it follows.
    """

    name: str
    description: str
    features: Features
    log: Sequence[Mapping[str, Any]]
    notes: Mapping[int, str]


@dataclass(frozen=True)
class Table:
    """Formatted results of the models side by side.

    Attributes:
        columns: the names of the models.
        rows: label, one formatted value per model, and the meaning of the row.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], str], ...]


@dataclass(frozen=True)
class Search:
    """What a query finds.

    Attributes:
        query: the words of the query.
        found: the name of a model to the pictures that it finds, best first, as `picture_of` returns them.
    """

    query: str
    found: Mapping[str, Sequence[Mapping[str, str]]]


def write_report(
    path: Path,
    title: str,
    lead: str,
    sides: Sequence[Side],
    table: Table,
    facts: Mapping[str, str],
    searches: Sequence[Search] = (),
) -> None:
    """Write one self-contained HTML file, which needs neither a network nor other files."""
    for side in sides:
        if side.features.labels is None:
            raise InputError(f"features of {side.name} have no labels, expected one label per sample")
    consistency = {s.name: metrics.class_consistency(s.features.codes, s.features.labels) for s in sides}
    figures = {
        "consistency": _figures.consistency_bars(
            {name: c.per_feature[c.supported_features].numpy() for name, c in consistency.items()},
            {name: c.floor for name, c in consistency.items()},
        ),
        "correlation": _figures.correlation_maps({s.name: live_correlation(s.features) for s in sides}),
        "time": _figures.over_time({s.name: s.log for s in sides}),
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(resources.files("nonneg.report").joinpath("page.html").read_text("utf-8"))
    page = template.render(
        title=title,
        lead=lead,
        sides=[
            {"name": s.name, "description": s.description, "rows": _strips(s), "notes": sorted(s.notes.items())}
            for s in sides
        ],
        table=table,
        searches=searches,
        facts=facts,
        figures={name: Markup(svg) for name, svg in figures.items()},
    )
    write_atomically(path, page.encode())


def _strips(side: Side) -> list[dict[str, Any]]:
    """Return the most active features, each with its strongest samples."""
    features = side.features
    rows = []
    for feature in features.ranked()[:FEATURES_SHOWN]:
        card = features.feature(feature, top=SAMPLES_SHOWN)
        labels = [features.label_name(int(features.labels[row])) for row in card.top]  # type: ignore[index]
        most_common = max(sorted(set(labels)), key=labels.count)
        samples = [
            {"label": label, "is_other": label != most_common, **_shown(features, row)}
            for row, label in zip(card.top, labels, strict=True)
        ]
        rows.append(
            {
                "feature": feature,
                "frequency": card.frequency,
                "summary": f"{labels.count(most_common)} of {len(labels)} are “{most_common}”",
                "agree": labels.count(most_common) / len(labels),
                "note": side.notes.get(feature, ""),
                "samples": samples,
            }
        )
    return rows


def _shown(features: Features, row: int) -> dict[str, str]:
    """Return what is shown of a sample: its image if it has one, with its text as a tooltip, otherwise its text."""
    text = features.text(row)
    if text is None or features.has_media:
        return {"image": data_uri(features.media(row) or b""), "words": f": {text[:_EXCERPT]}" if text else ""}
    return {"text": text[:_EXCERPT]}


def picture_of(features: Features, row: int) -> dict[str, str]:
    """Return the image of a sample with its text, for a `Search`."""
    text = features.text(row) or features.id(row)
    return {"image": data_uri(features.media(row) or b""), "text": text.partition(",")[0][:_EXCERPT]}


def live_correlation(features: Features) -> Any:
    """Return the correlations of live features, ordered by their strongest class so that blocks are visible."""
    codes = dense(features.codes)
    labels = np.asarray(features.labels)
    live = np.flatnonzero(features.active)
    means = np.stack([codes[labels == label].mean(0) for label in np.unique(labels)])
    strongest_class = means[:, live].argmax(0)
    order = live[np.argsort(strongest_class, kind="stable")]
    return metrics.correlation_matrix(codes[:, order]).numpy() if len(order) else np.zeros((0, 0))
