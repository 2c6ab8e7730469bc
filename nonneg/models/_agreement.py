"""Whether the two sides of pairs agree on what a feature means."""

from typing import TYPE_CHECKING

import torch

from nonneg import metrics
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.modalities import Source

if TYPE_CHECKING:
    from nonneg.models._model import Model


def with_agreement(
    features: Features, model: "Model", pairs: Source, embedded: Features | None = None, side: str = ""
) -> Features:
    """Return features that know how well a side of pairs predicts the other one, as `Features.agreement`.

    Args:
        features: features of the projector.
        model: the model of pairs that made them.
        pairs: a source of pairs, best of pairs that the model was not trained on.
        embedded: the projector's features of `pairs`, if they are known already.
        side: the side that predicts, as for `Model.embed`.
    """
    source = model.open(pairs, side=side)
    partners = model.modality.partners(source)
    if partners is None:
        raise InputError(f"{source.name} has no pairs, expected samples with partners")
    own = model.embed(source, media=False, side=side) if embedded is None else embedded
    found = metrics.partner_auc(own.codes, model.embed(partners[0], media=False).codes)
    values = [None if torch.isnan(value) else round(float(value), 6) for value in found.per_feature]
    return features.with_provenance({"agreement": {"data": source.name, "pairs": len(source), "auc": values}})
