import re

import pytest
import torch

from nonneg import theory
from nonneg.theory import Check, Population


@pytest.fixture(scope="module", params=[0, pytest.param(1, marks=pytest.mark.slow)])
def checks(request) -> list[Check]:
    return theory.check_all(request.param)


def test_every_statement_holds(checks):
    assert [c.statement for c in checks if not c.holds] == []
    assert len(checks) == 13


def test_most_non_negative_starts_reach_the_optimum_and_the_others_are_counted(checks):
    detail = next(c.detail for c in checks if "NCL is unique" in c.statement)
    reached, stopped = map(int, re.search(r"(\d+) of 20 .* (\d+) stop", detail).groups())
    assert reached >= 10
    assert reached + stopped == 20


def test_a_drawn_population_is_a_distribution_with_the_given_structure():
    population = Population.drawn(classes=4, pure=2, mixed=4, seed=3)
    torch.testing.assert_close(population.joint.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(population.joint.sum(0), population.marginal)
    classes = (population.given_class > 0).sum(1).tolist()
    assert classes[:8] == [1] * 8
    assert all(c >= 2 for c in classes[8:])


def test_sampled_pairs_follow_the_joint_distribution():
    population = Population.drawn(classes=3, pure=1, mixed=2, seed=0)
    first, second = population.pairs(200_000, torch.Generator().manual_seed(0))
    counts = torch.bincount(first * 5 + second, minlength=25).double().view(5, 5) / 200_000
    torch.testing.assert_close(counts, population.joint, atol=4e-3, rtol=0)


def test_a_false_statement_does_not_hold():
    """Classes without samples of their own cannot be identified, so uniqueness must fail."""
    ambiguous = Population(
        torch.full((4,), 0.25, dtype=torch.float64),
        (torch.ones(4, 4) - torch.eye(4)).double() / 3,
    )
    assert theory.optimum(ambiguous).holds
    assert not theory.uniqueness(ambiguous, 0).holds


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_statements_hold_for_populations_of_other_sizes(classes):
    population = Population.drawn(classes=classes, pure=2, mixed=2, seed=1)
    for check in (
        theory.equivalence(population, 0),
        theory.optimum(population),
        theory.rotation(population, 0),
        theory.sparsity(population),
        theory.uniqueness(population, 0),
        theory.disagreement(population, 0),
        theory.bayes_head(population, 0),
        theory.multimodal(population, 0),
        theory.matrix_factorisation(population, 0),
    ):
        assert check.holds, check


def test_solutions_that_agree_up_to_signs_do_not_count_as_disagreeing():
    population = Population.drawn(classes=3, pure=2, mixed=2, seed=1)
    equal = [population.optimum, population.optimum, -population.optimum]
    assert not theory.disagreement_of(equal).holds


@pytest.mark.parametrize(
    ("prior", "given", "message"),
    [
        ([0.5, 0.9], [[0.5, 0.5], [0.5, 0.5]], "prior"),
        ([0.5, 0.5], [[0.5, 0.5], [0.5, 0.9]], "given_class"),
        ([1.0], [[0.5, 0.5], [0.5, 0.5]], r"prior.*\(1,\).*given_class \(2, 2\)"),
        ([0.5, 0.5], [[1.5, 0.5], [-0.5, 0.5]], "given_class is negative"),
        ([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]], "prior is 0"),
        ([0.5, 0.5], [[1.0, 1.0], [0.0, 0.0]], "row of given_class is zero"),
    ],
)
def test_invalid_distributions_are_reported(prior, given, message):
    with pytest.raises(ValueError, match=message):
        Population(torch.tensor(prior), torch.tensor(given))


def test_features_that_are_not_optimal_have_a_larger_loss():
    population = Population.drawn(classes=4, pure=2, mixed=4, seed=0)
    worse = population.optimum.clone()
    worse[0] *= 1.1
    assert float(population.loss(worse)) > population.least_loss + 1e-4
