"""What the server answers: typed, so that `openapi.json` says all of it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["image", "text"]


class Answer(BaseModel):
    """Immutable, and without fields that are not listed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sample(Answer):
    """A sample in short. `strength` is the feature's value on it, where one feature is spoken of."""

    row: int
    id: str
    label: str | None
    excerpt: str | None
    has_picture: bool
    strength: float | None = None


class Caption(Answer):
    """What a feature is called: the name people gave it, and what the data say (its words, or its commonest label)."""

    feature: int
    name: str | None
    hint: str | None


class FeatureRow(Caption):
    """One line of the table of features.

    `consistency` is the share of the commonest `label` among the samples it is active on, `entropy` that of all
    labels in nats, `redundancy` the cosine with the feature most like it. None where it cannot be said.
    """

    active: int
    frequency: float
    expected_activation: float
    label: str | None
    consistency: float | None
    entropy: float | None
    redundancy: float | None


class FeatureTable(Answer):
    """All features of a set."""

    samples: int
    rows: tuple[FeatureRow, ...]


class Strip(Answer):
    """A feature's strongest samples, strongest first; and as many from its strongest to its faintest."""

    feature: int
    samples: tuple[Sample, ...]
    across: tuple[Sample, ...]


class Histogram(Answer):
    """Counts between ascending edges; samples on which the feature is off stand apart."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    off: int


class Band(Answer):
    """Samples between two quantiles of a feature's active samples, evenly spaced from weak to strong."""

    title: str
    low: float
    high: float
    samples: tuple[Sample, ...]


class LabelShare(Answer):
    """A label among the samples a feature is active on: how many, their share, and its share of all samples."""

    label: str
    active: int
    share: float
    everywhere: float


class Relation(Answer):
    """Another feature. `value` is a cosine; `together` the share of this feature's samples on which both are active."""

    other: Caption
    value: float
    together: float
    everywhere: float


class NamingEntry(Answer):
    """Who called a feature what, and when. An empty name takes it back."""

    name: str
    author: str
    time: str


class NameScore(Answer):
    """How well a name tells whether the feature is active, on samples it was not chosen by.

    `score` is the probability that a sample with the feature fits better than one without it: 0.5 is chance.
    """

    by: str
    score: float
    active: int


class FeaturePage(Answer):
    """Everything about one feature. `labelled` is how many of the samples it is on for have a label."""

    row: FeatureRow
    histogram: Histogram
    strongest: tuple[Sample, ...]
    bands: tuple[Band, ...]
    near_misses: tuple[Sample, ...]
    labels: tuple[LabelShare, ...]
    labelled: int
    together: tuple[Relation, ...]
    resembling: tuple[Relation, ...]
    history: tuple[NamingEntry, ...]
    name_score: NameScore | None


class Part(Answer):
    """A feature of a sample: its value, and its share of the sample's squared length; all shares add up to 1."""

    caption: Caption
    activation: float
    share: float


class Contribution(Answer):
    """What one feature adds to a score."""

    feature: int
    value: float


class Hit(Answer):
    """A sample that was found. Its contributions add up to its score."""

    sample: Sample
    score: float
    contributions: tuple[Contribution, ...]


class Spoken(Answer):
    """What a feature adds to the score of a class."""

    caption: Caption
    adds: float


class Prediction(Answer):
    """What a glass-box classifier says: a class, how likely, and the features that say so, most telling first.

    The score is the intercept and what all features add, of which the first few are named.
    """

    label: str
    probability: float
    score: float
    intercept: float
    spoken: tuple[Spoken, ...]


class SamplePage(Answer):
    """A sample, the features it is made of, and its neighbours by the features that are not switched off."""

    sample: Sample
    text: str | None
    parts: tuple[Part, ...]
    off: tuple[int, ...]
    neighbours: tuple[Hit, ...]
    prediction: Prediction | None = None


class NewText(Answer):
    """A text to be looked at."""

    text: str = Field(min_length=1, max_length=100_000)


class Encoded(Answer):
    """What a new input is made of, and the samples most like it."""

    parts: tuple[Part, ...]
    neighbours: tuple[Hit, ...]


class Weight(Answer):
    """A feature of a query and how much it counts."""

    feature: int
    weight: float = Field(ge=-10, le=10, allow_inf_nan=False)


class Query(Answer):
    """Samples with these features, like these samples, and on which none of the features in `without` is active."""

    features: tuple[Weight, ...] = Field((), max_length=100)
    like: tuple[int, ...] = Field((), max_length=100)
    without: tuple[int, ...] = Field((), max_length=100)
    top: int = Field(24, ge=1, le=200)


class Found(Answer):
    """Answer to a query. `captions` are those of all features it speaks of."""

    query: Query
    captions: tuple[Caption, ...]
    like: tuple[Sample, ...]
    left: int
    hits: tuple[Hit, ...]


class SetOverview(Answer):
    """One set of features at a glance.

    `active_mean` is the mean number of active features a sample; `spread` how many features are active on which share
    of the samples, between `spread_edges`; `dense` how many are active on more than half. `is_settled` is false while
    words for features of texts are still being looked for. `usual_features` are spread evenly from the most to the
    least active.
    """

    name: str
    key: str
    kind: str
    samples: int
    features: int
    labels: int
    active_mean: float
    live: int
    dead: int
    dense: int
    spread_edges: tuple[float, ...]
    spread: tuple[int, ...]
    has_negative: bool
    is_settled: bool
    can_name: bool
    can_encode: Kind | None
    strongest_features: tuple[FeatureRow, ...]
    usual_features: tuple[FeatureRow, ...]
    example: SamplePage


class Overview(Answer):
    """All sets of features that were opened: one or two, `same_samples` if both are of the same ones, in order."""

    sets: tuple[SetOverview, ...]
    same_samples: bool


class Figures(Answer):
    """Figures of a set that take seconds.

    `consistency` is over features with 10 active samples or more, `chance` the same with shuffled labels; None without
    labels. `alone` says how much a feature tells that no other does (SEPIN, each sample its own second view, told on
    `alone_samples` of them): the mean over the best `alone_k` features.
    """

    consistency: float | None
    chance: float | None
    alone_k: tuple[int, ...]
    alone: tuple[float, ...]
    alone_samples: int


class Pair(Answer):
    """Two features matched to each other, or one without a partner; `cosine` of what they fire on."""

    first: FeatureRow | None
    second: FeatureRow | None
    cosine: float


class Comparison(Answer):
    """Two sets matched. `chance` is the agreement with shuffled samples."""

    agreement: float
    chance: float
    pairs: tuple[Pair, ...]


class NewName(Answer):
    """A name for a feature. `replaces` is the name that was shown when it was thought of."""

    name: str = Field(max_length=500)
    author: str = Field("", max_length=100)
    replaces: str | None = None


class Named(Answer):
    """A feature's name after a naming, and its history."""

    caption: Caption
    history: tuple[NamingEntry, ...]
    name_score: NameScore | None


class Refusal(Answer):
    """Why a request was not answered, in one sentence."""

    detail: str
