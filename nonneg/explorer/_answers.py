"""The server's answers as typed models, so that `openapi.json` describes all of them."""

from typing import Literal

from nonneg.explorer._requests import Message, Query

Kind = Literal["image", "text"]


class Answer(Message):
    """What the server answers."""


class Sample(Answer):
    """A short description of a sample. `strength` is its value of the feature in question, if there is one."""

    row: int
    id: str
    label: str | None
    excerpt: str | None
    has_picture: bool
    strength: float | None = None


class Caption(Answer):
    """A feature's name given by people, and a hint from the data: a suggested name or its most common label.

    `score` is the score of the suggested name on held-out texts; the name is a guess if `is_guess` is true.
    """

    feature: int
    name: str | None
    hint: str | None
    score: float | None = None
    is_guess: bool = False


class FeatureRow(Caption):
    """One row of the feature table.

    `active` counts the samples the feature is active on, `frequency` is their share of all samples, `consistency` the
    share of the most common `label` among them, `entropy` the entropy of their labels in nats, and `redundancy` the
    largest absolute cosine with another feature. For samples of pairs, `agreement` is the AUC of a feature's value on
    a sample for whether it is active on the sample's partner. Values that are undefined are None.
    """

    active: int
    frequency: float
    expected_activation: float
    label: str | None
    consistency: float | None
    entropy: float | None
    redundancy: float | None
    agreement: float | None = None


class Family(Answer):
    """Features that are near-duplicates of each other, and a name for all of them."""

    name: str
    features: tuple[int, ...]


class FeatureTable(Answer):
    """All features of a set, and families of near-duplicates among them."""

    samples: int
    rows: tuple[FeatureRow, ...]
    families: tuple[Family, ...]


class FoundSamples(Answer):
    """Samples that contain some words: their number, their rows, and the first of them."""

    total: int
    rows: tuple[int, ...]
    samples: tuple[Sample, ...]


class Samples(Answer):
    """Short descriptions of samples."""

    samples: tuple[Sample, ...]


class MapPage(Answer):
    """A map of the samples.

    `positions` holds x and y of each sample as 16-bit integers, `labels` the number of its label in `label_names`,
    65535 for none, both little-endian in Base64. `method` says how the positions were computed.
    """

    method: str
    positions: str
    label_names: tuple[str, ...]
    labels: str | None


class MapColours(Answer):
    """A feature's values on all samples as shares of the largest one, 0 to 255, as bytes in Base64."""

    feature: int
    largest: float
    values: str


class Strip(Answer):
    """A feature's strongest samples in descending order, and samples evenly spaced from strongest to weakest."""

    feature: int
    strongest: tuple[Sample, ...]
    spread: tuple[Sample, ...]


class Histogram(Answer):
    """Counts of active samples between ascending edges, and the number of inactive samples."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    inactive: int


class Band(Answer):
    """Samples between two quantiles of a feature's active samples, evenly spaced from strong to weak."""

    title: str
    low: float
    high: float
    samples: tuple[Sample, ...]


class LabelShare(Answer):
    """A label among a feature's active samples: their number, their share, and the label's share of all samples."""

    label: str
    active: int
    share: float
    overall: float


class Relation(Answer):
    """Another feature, its cosine with this one, and the share of this feature's samples on which both are active."""

    other: Caption
    cosine: float
    co_activation: float


class NamingEntry(Answer):
    """A name given to a feature, its author and its time. An empty name removes the previous one."""

    name: str
    author: str
    time: str


class NameScore(Answer):
    """How well a name predicts whether its feature is active, on held-out samples.

    `score` is the probability that an active sample fits the name better than an inactive one; 0.5 is chance.
    `criterion` describes what was compared with the name, `active` counts the held-out active samples.
    """

    criterion: str
    score: float
    active: int


class FeatureFigure(Answer):
    """A share that was measured for a feature when the data was embedded, with its chance level."""

    title: str
    value: float
    chance: float


class Term(Answer):
    """A term with its share of a feature's active samples and its share of all samples."""

    term: str
    share: float
    overall: float


class FeatureTerms(Answer):
    """Terms that are more common where a feature is active, such as attributes of nodes; the best term first."""

    title: str
    terms: tuple[Term, ...]


class Partner(Answer):
    """The feature of the other set with which a feature is matched, and their cosine over the samples."""

    feature: int
    cosine: float


class FeaturePage(Answer):
    """Everything about one feature. `labelled` counts its active samples that have a label.

    `partner` is None if there is none, or if the two sets have not been compared yet.
    """

    row: FeatureRow
    histogram: Histogram
    strongest: tuple[Sample, ...]
    bands: tuple[Band, ...]
    near_misses: tuple[Sample, ...]
    labels: tuple[LabelShare, ...]
    labelled: int
    co_active: tuple[Relation, ...]
    similar: tuple[Relation, ...]
    history: tuple[NamingEntry, ...]
    name_score: NameScore | None
    figures: tuple[FeatureFigure, ...]
    terms: tuple[FeatureTerms, ...]
    partner: Partner | None


class Part(Answer):
    """An active feature of a sample: its value and its share of the squared length. All shares sum to 1."""

    caption: Caption
    activation: float
    share: float


class Contribution(Answer):
    """A feature's contribution to a score."""

    feature: int
    value: float


class Hit(Answer):
    """A sample that matches a query. Its largest contributions and `rest`, the sum of the others, sum to its score."""

    sample: Sample
    score: float
    contributions: tuple[Contribution, ...]
    rest: float


class Evidence(Answer):
    """A feature's contribution to the score of a class."""

    caption: Caption
    value: float


class Prediction(Answer):
    """The class that a glass-box classifier predicts, its probability and the strongest evidence for it.

    The score is the intercept plus the contributions of all features, of which only the largest are listed.
    `missing` counts the classifier's features that are not among those shown; they count as 0.
    """

    label: str
    probability: float
    score: float
    intercept: float
    evidence: tuple[Evidence, ...]
    missing: int = 0


class SamplePage(Answer):
    """A sample, its active features, and its neighbours computed without the features in `off`."""

    sample: Sample
    text: str | None
    parts: tuple[Part, ...]
    off: tuple[int, ...]
    neighbours: tuple[Hit, ...]
    prediction: Prediction | None = None


class WordMark(Answer):
    """A word of a text by its first and last character (exclusive), and how much weaker the feature is without it."""

    start: int
    stop: int
    effect: float


class Marks(Answer):
    """The value of a feature on a text, and the effect of each word, found by leaving it out."""

    feature: int
    value: float
    words: tuple[WordMark, ...]


class Encoded(Answer):
    """The active features of a new input, the samples most similar to it, and why it is out of range, if it is."""

    warning: str | None = None
    parts: tuple[Part, ...]
    neighbours: tuple[Hit, ...]


class SearchResult(Answer):
    """The answer to a query. `captions` covers all features of the query; `candidates` counts the samples searched."""

    query: Query
    captions: tuple[Caption, ...]
    like: tuple[Sample, ...]
    candidates: int
    hits: tuple[Hit, ...]


class SetOverview(Answer):
    """A summary of one set of features.

    `source` says which model and data the features come from. `active_mean` is the mean number of active features per
    sample. `frequency_counts` is a histogram of the features' frequencies over `frequency_edges`, and `dense` counts
    the features that are active on more than half of the samples. `is_settled` is false while names are being
    suggested. `spread_features` are evenly spaced over the ranking by expected activation.
    """

    name: str
    source: str
    key: str
    kind: str
    legend: str
    has_media: bool
    samples: int
    label_names: tuple[str, ...]
    features: int
    labels: int
    active_mean: float
    live: int
    dead: int
    dense: int
    frequency_edges: tuple[float, ...]
    frequency_counts: tuple[int, ...]
    has_negative: bool
    is_settled: bool
    can_name: bool
    can_encode: Kind | None
    strongest_features: tuple[FeatureRow, ...]
    spread_features: tuple[FeatureRow, ...]
    example: SamplePage


class Overview(Answer):
    """The one or two open sets. `same_samples` is true if both contain the same samples in the same order."""

    sets: tuple[SetOverview, ...]
    same_samples: bool


class Figures(Answer):
    """Statistics of a set that take seconds to compute.

    `consistency` is the mean class consistency of features with at least 10 active samples and `chance` its value
    under shuffled labels; both are None without labels. `sepin` is SEPIN@k for each k in `sepin_k`, with each sample
    serving as its own second view.
    """

    consistency: float | None
    chance: float | None
    sepin_k: tuple[int, ...]
    sepin: tuple[float, ...]


class Pair(Answer):
    """Two matched features and their cosine over the samples, or one feature without a partner."""

    first: FeatureRow | None
    second: FeatureRow | None
    cosine: float


class Comparison(Answer):
    """Two sets of features matched one to one. `chance` is the agreement after shuffling the samples."""

    agreement: float
    chance: float
    pairs: tuple[Pair, ...]


class NamingResult(Answer):
    """A feature's caption, naming history and name score after a change of its name."""

    caption: Caption
    history: tuple[NamingEntry, ...]
    name_score: NameScore | None


class Problem(Answer):
    """Why a request failed, in one sentence."""

    detail: str
