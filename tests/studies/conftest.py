"""Vectors with known properties, for the doctor."""

import numpy as np
import pytest

from nonneg.studies import diagnose

QUICK = {"n_components": 64, "max_active": 8, "max_iter": 40, "progress": False}


def rotation(width, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def clusters(rows=800, width=24, classes=12, noise=0.15, seed=0):
    """Each class lies along its own axis, with noise on all axes: dense, signed, axis-aligned."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    return np.eye(width)[labels] + noise / np.sqrt(width) * rng.normal(size=(rows, width)), labels


def codes(rows=1200, width=24, dead=0, seed=0):
    """Non-negative and sparse: in each row the feature of its class and two random ones are active."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, width, rows)
    z = np.zeros((rows, width + dead))
    z[np.arange(rows), labels] = 1
    for _ in range(2):
        z[np.arange(rows), rng.integers(0, width, rows)] += rng.random(rows)
    return z, labels


def sentences(diagnosis, level=None):
    return "\n".join(f.sentence for f in diagnosis.findings if level in (None, f.level))


@pytest.fixture(scope="module")
def rotated_clusters():
    vectors, labels = clusters()
    return diagnose(vectors @ rotation(24), labels, **QUICK)


@pytest.fixture(scope="module")
def noise():
    rng = np.random.default_rng(0)
    return diagnose(rng.normal(size=(1000, 128)), rng.integers(0, 4, 1000), **QUICK)
