"""The sweep over sizes of a conversion: what is measured, what is recommended, and the command."""

import json

import numpy as np
import pytest

from nonneg import InputError, NonNegativeEmbedding
from nonneg.studies import Size, Sizes, sweep_sizes


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 6, 300)
    centres = rng.normal(size=(6, 12))
    return (centres[kinds] + 0.3 * rng.normal(size=(300, 12))).astype(np.float32), kinds


@pytest.fixture(scope="module")
def sizes(blobs, one_thread):
    quick = NonNegativeEmbedding(n_components=32, max_active=4, max_iter=20)
    return sweep_sizes(*blobs, embedding=quick, progress=False)


def size(n_components, max_active, neighbours, probe, stored):
    return Size(n_components, max_active, neighbours, probe, stored, 0)


def test_a_quarter_to_twice_the_sizes_are_fitted_and_measured(sizes):
    found = {(point.n_components, point.max_active) for point in sizes.points}
    assert found == {(n, k) for n in (8, 16, 32, 64) for k in (1, 2, 4, 8) if 2 * k <= n}
    for point in sizes.points:
        assert point.bytes <= 8 * point.max_active and 0 < point.neighbours_kept < 1 and point.probe > 0.3
    largest, smallest = sizes.points[-1], sizes.points[0]
    assert largest.neighbours_kept > smallest.neighbours_kept
    assert sizes.raw_probe > 0.9


def test_the_recommended_size_is_the_smallest_that_is_nearly_as_good_as_the_best():
    good = [size(64, 4, 0.56, 0.895, 32), size(32, 4, 0.57, 0.90, 32), size(64, 8, 0.6, 0.9, 64)]
    points = (size(8, 2, 0.30, 0.80, 16), *good)
    assert Sizes(points, 0.9, {}).recommended == points[2]
    assert Sizes(points[:1] + points[3:], 0.9, {}).recommended == points[3]
    assert Sizes((size(8, 2, 0.5, None, 16), size(8, 4, 0.54, None, 32)), None, {}).recommended.max_active == 2
    apart = (size(8, 2, 0.5, 0.9, 16), size(8, 4, 0.8, 0.8, 32))  # no size is near both best figures
    assert Sizes(apart, 0.9, {}).recommended == apart[1]


def test_the_command_prints_a_table_with_a_recommendation_and_draws_it(blobs, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", blobs[0])
    np.save("y.npy", blobs[1])
    asked = ["convert", "x.npy", "--sweep", "--n-components", "16", "--max-active", "2", "--max-iter", "2"]
    code, out, error = command(*asked, "--labels", "y.npy", "--out", "sizes.png")
    assert code == 0, error
    assert "Recommended: --n-components" in out and "| probe |" in out and "Drawn: sizes.png" in out
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "y.npy", "sizes.png"}
    for wrong, named in (
        (["--out", "sizes.png"], "--overwrite"),
        (["--out", "sizes.txt"], "sizes.txt"),
        (["--compare"], "--compare"),
        (["--pairs", "x.npy"], "--pairs"),
        (["--max-active", "None"], "max_active"),
    ):
        code, _, error = command(*asked, *wrong)
        assert code == 2 and named in error


def test_the_result_is_plain_json_and_an_svg_is_drawn(sizes, tmp_path):
    held = json.loads(json.dumps(sizes.to_dict()))
    assert held["recommended"]["n_components"] == sizes.recommended.n_components
    assert "recommended" in sizes.plot(tmp_path / "x.svg").read_text()


def test_sizes_that_do_not_fit_together_are_rejected(blobs):
    with pytest.raises(InputError, match="max_active"):
        sweep_sizes(blobs[0], n_components=[8], max_active=[16], progress=False)
    with pytest.raises(InputError, match="supervised"):
        sweep_sizes(*blobs, embedding=NonNegativeEmbedding(supervised=True), progress=False)
