"""A generated graph to try things on: papers that cite each other, with known fields and topics."""

import numpy as np

from nonneg.modalities.graphs._raw import RawGraph

_PAPERS = 1200
_CITED = 4  # papers that each paper cites
_SAME_TOPIC, _SAME_FIELD = 0.7, 0.2  # shares of citations; the others go anywhere
_OF_TOPIC, _OF_ANY = 0.35, 0.02  # chances that a paper uses a word of its topic, and any other word
_TOPICS = {
    "biology": {
        "genetics": "gene genome mutation allele chromosome heredity",
        "neuroscience": "neuron synapse cortex axon hippocampus dopamine",
        "ecology": "species habitat predator forest biodiversity climate",
        "immunology": "antibody antigen vaccine lymphocyte cytokine pathogen",
    },
    "computing": {
        "databases": "query transaction index relational schema join",
        "learning": "classifier gradient kernel overfitting regression label",
        "networks": "router packet latency protocol bandwidth wireless",
        "graphics": "rendering shader texture polygon illumination mesh",
    },
    "physics": {
        "optics": "laser photon lens interference fibre refraction",
        "cosmology": "galaxy redshift inflation universe supernova halo",
        "particles": "quark boson collider neutrino hadron decay",
        "materials": "crystal lattice semiconductor alloy graphene phonon",
    },
    "economics": {
        "finance": "portfolio asset volatility hedge equity return",
        "labour": "wage employment union unemployment worker skill",
        "trade": "tariff export import globalisation exchange currency",
        "games": "equilibrium auction payoff bargaining strategy incentive",
    },
}
_GENERAL = "method result data model theory experiment analysis effect approach problem system measure test study"


def citations() -> RawGraph:
    """Return 1,200 papers of four fields with four topics each, always the same.

    Each paper cites four earlier ones, mostly of its topic, and uses words, mostly of its topic. Labels are fields.

    Example:
        >>> graph = citations()
        >>> graph.nodes, graph.attributes.shape, graph.label_names
        (1200, (1200, 110), ('biology', 'computing', 'physics', 'economics'))
    """
    rng = np.random.default_rng(0)
    words = [topic.split() for field in _TOPICS.values() for topic in field.values()]
    per_field = len(words) // len(_TOPICS)
    topic = rng.integers(0, len(words), _PAPERS)
    field = topic // per_field
    names = [*(word for some in words for word in some), *_GENERAL.split()]
    home = np.repeat(np.arange(len(words) + 1), [*map(len, words), len(_GENERAL.split())])
    chance = np.where(home == len(words), _OF_TOPIC, np.where(home == topic[:, None], _OF_TOPIC, _OF_ANY))
    used = rng.random((_PAPERS, len(names))) < chance
    ends = []
    for paper in range(_CITED, _PAPERS):
        for reach in rng.random(_CITED):
            wanted = topic if reach < _SAME_TOPIC else field if reach < _SAME_TOPIC + _SAME_FIELD else None
            earlier = np.arange(paper) if wanted is None else np.flatnonzero(wanted[:paper] == wanted[paper])
            if len(earlier):
                ends.append((paper, int(rng.choice(earlier))))
    topics = tuple(name for some in _TOPICS.values() for name in some)
    count = np.zeros(len(topics), int)
    ids = []
    for number in topic.tolist():
        count[number] += 1
        ids.append(f"{topics[number]}-{count[number]}")
    return RawGraph(
        "citations",
        "citations",
        _PAPERS,
        np.array(ends, np.int64).T,
        attributes=used.astype(np.float32),
        labels=field,
        label_names=tuple(_TOPICS),
        ids=tuple(ids),
        attribute_names=tuple(names),
        factors={"field": (field, tuple(_TOPICS)), "topic": (topic, topics)},
    )
