import pytest
import torch

from nonneg import losses

Z = torch.rand(4, 3)
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize("loss", [losses.info_nce, losses.spectral])
@pytest.mark.parametrize(
    ("z1", "z2", "error", "message"),
    [
        (Z, Z[:3], ValueError, r"z1 has shape \(4, 3\) and z2 \(3, 3\)"),
        (Z.long(), Z, TypeError, "z1 has dtype torch.int64, expected a floating type"),
        (Z, Z.double(), ValueError, "z1 is torch.float32 on cpu and z2 torch.float64"),
        (Z[0], Z[0], ValueError, r"z1 has shape \(3,\), expected \(rows, features\)"),
        (Z[:0], Z[:0], ValueError, "neither of them 0"),
        (Z[:1], Z[:1], ValueError, "at least 2"),
        (Z.numpy(), Z, TypeError, "z1 is a ndarray, expected a torch tensor"),
    ],
)
def test_pairs_that_do_not_fit_are_refused_by_name(loss, z1, z2, error, message):
    with pytest.raises(error, match=message):
        loss(z1, z2)


@pytest.mark.parametrize("loss", [losses.multimodal.info_nce, losses.multimodal.spectral])
def test_modalities_that_do_not_fit_are_refused_by_name(loss):
    with pytest.raises(ValueError, match=r"a has shape \(4, 3\) and b \(4, 2\)"):
        loss(Z, Z[:, :2])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (None, TypeError, "labels are missing"),
        (LABELS.float(), TypeError, "labels are torch.float32, expected a tensor of integers"),
        ([0, 1, 0, 1], TypeError, "labels are list"),
        (LABELS[:3], ValueError, r"labels have shape \(3,\), expected \(4,\)"),
    ],
)
def test_wrong_labels_are_refused_by_name(labels, error, message):
    with pytest.raises(error, match=message):
        losses.supervised.sup_con(Z, labels)
    with pytest.raises(error, match=message):
        losses.supervised.cross_entropy(Z, labels, torch.rand(2, 3))


def test_a_weight_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"weight has shape \(2, 5\), expected \(classes, 3\)"):
        losses.supervised.cross_entropy(Z, LABELS, torch.rand(2, 5))


TEMPERED = [
    losses.info_nce,
    losses.multimodal.info_nce,
    lambda a, b, *rest, **named: losses.supervised.sup_con(a, LABELS[: len(a)], *rest, **named),
]


@pytest.mark.parametrize("loss", TEMPERED)
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), "0.2", None])
def test_a_temperature_that_is_not_positive_is_refused(loss, temperature):
    with pytest.raises(ValueError, match="expected a number above 0"):
        loss(Z, Z, temperature)


@pytest.mark.parametrize("loss", TEMPERED)
def test_a_temperature_of_many_numbers_is_refused(loss):
    with pytest.raises(ValueError, match=r"temperature has shape \(3,\), expected a single number"):
        loss(Z, Z, torch.ones(3))


@pytest.mark.parametrize("loss", [*TEMPERED, losses.spectral, losses.multimodal.spectral])
def test_a_batch_without_negatives_is_refused(loss):
    with pytest.raises(ValueError, match=r"the batch has 1 (pair|row), expected at least 2"):
        loss(Z[:1], Z[:1])


def test_labels_and_weights_elsewhere_are_refused():
    with pytest.raises(ValueError, match="z is on cpu and labels on meta"):
        losses.supervised.sup_con(Z, LABELS.to("meta"))
    with pytest.raises(ValueError, match="z is on cpu and weight on meta"):
        losses.supervised.cross_entropy(Z, LABELS, torch.rand(2, 3, device="meta"))


@pytest.mark.parametrize("loss", TEMPERED)
def test_chunks_of_no_rows_are_refused(loss):
    with pytest.raises(ValueError, match="chunk_rows is 0"):
        loss(Z, Z, chunk_rows=0)
