"""The server's requests as typed models, so that `openapi.json` describes all of them."""

from pydantic import BaseModel, ConfigDict, Field


class Message(BaseModel):
    """An immutable model that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Rows(Message):
    """Rows of samples to describe."""

    rows: tuple[int, ...] = Field(max_length=200)


class NewText(Message):
    """A text to encode."""

    text: str = Field(min_length=1, max_length=100_000)


class MarksAsked(NewText):
    """A text and the feature whose words are wanted."""

    feature: int


class Weight(Message):
    """A feature of a query and its weight."""

    feature: int
    weight: float = Field(ge=-10, le=10, allow_inf_nan=False)


class Query(Message):
    """A query for samples that have these features, resemble the rows in `like`, and lack the features in `without`.

    All features in `require` are active on each hit, which has the label, if one is given.
    """

    features: tuple[Weight, ...] = Field((), max_length=100)
    like: tuple[int, ...] = Field((), max_length=100)
    without: tuple[int, ...] = Field((), max_length=100)
    require: tuple[int, ...] = Field((), max_length=100)
    label: str | None = Field(None, max_length=10_000)
    top: int = Field(24, ge=1, le=200)


class NewName(Message):
    """A name for a feature. `replaces` is the name that its author saw."""

    name: str = Field(max_length=500)
    author: str = Field("", max_length=100)
    replaces: str | None = None
