import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nonneg import metrics
from nonneg.training._watch import _LENGTH, _MOMENTUM, _STEP, Watch


def batches(count=4, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        labels = torch.randint(0, classes, (32,), generator=generator)
        h = torch.randn(32, 8, generator=generator) + 2 * F.one_hot(labels, 8)
        z = torch.randn(32, 10, generator=generator).sub(0.8).relu()
        z[:, 9] = 0  # a dead feature
        yield torch.rand((), generator=generator), h, z, labels


def watch(classes=3):
    return Watch(8, 10, classes, torch.device("cpu"), torch.float32)


def test_figures_agree_with_the_metrics_of_the_whole_epoch():
    seen, watched = list(batches()), watch()
    for batch in seen:
        watched.update(*batch)
    z, labels = torch.cat([b[2] for b in seen]), torch.cat([b[3] for b in seen])
    figures = watched.figures()
    assert figures["loss"] == pytest.approx(np.mean([float(b[0]) for b in seen]))
    assert figures["sparsity"] == pytest.approx(metrics.sparsity(z))
    assert (figures["live"], figures["dead"]) == (9, 1)
    assert figures["class_consistency"] == pytest.approx(metrics.class_consistency(z, labels).value)


def test_the_probe_is_logistic_regression_by_gradient_descent():
    watched = watch()
    weight = torch.zeros(3, 8, requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    reference = torch.optim.SGD([weight, bias], _STEP, momentum=_MOMENTUM)
    correct = 0
    for batch in batches(10):
        _, h, _, labels = batch
        logits = F.linear(_LENGTH * F.normalize(h, dim=1), weight, bias)
        correct += int((logits.argmax(1) == labels).sum())
        reference.zero_grad()
        F.cross_entropy(logits, labels).backward()
        reference.step()
        watched.update(*batch)
    torch.testing.assert_close(watched.weight, weight.detach())
    torch.testing.assert_close(watched.bias, bias.detach())
    assert watched.figures()["probe"] == pytest.approx(correct / 320)


def test_a_new_epoch_starts_with_zero_sums_and_the_same_probe():
    watched = watch()
    for batch in batches():
        watched.update(*batch)
    learned = watched.weight.clone()
    watched.clear()
    assert float(watched.views) == float(watched.loss) == float(watched.active.sum()) == 0
    assert torch.equal(watched.weight, learned)


def test_the_probe_ignores_unlabelled_samples():
    watched, alone = watch(), watch()
    loss, h, z, labels = next(batches())
    watched.update(loss, torch.cat((h, h + 5)), torch.cat((z, z)), torch.cat((labels, torch.full((32,), -1))))
    alone.update(loss, h, z, labels)
    torch.testing.assert_close(watched.weight, alone.weight)
    figures, expected = watched.figures(), alone.figures()
    for name in ("probe", "class_consistency", "sparsity", "live", "dead"):
        assert figures[name] == pytest.approx(expected[name]), name


def test_labels_are_ignored_if_there_are_no_classes():
    watched = watch(classes=0)
    for batch in batches():
        watched.update(*batch)
    assert set(watched.figures()) == {"loss", "sparsity", "live", "dead"}


def test_without_labels_there_is_no_probe_and_no_class_consistency():
    watched = watch(classes=0)
    for loss, h, z, _ in batches():
        watched.update(loss, h, z, None)
    assert set(watched.figures()) == {"loss", "sparsity", "live", "dead"}
