import pytest
import torch

from nonneg import losses

Z = torch.rand(4, 3)
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize("loss", [losses.info_nce, losses.spectral, losses.barlow_twins, losses.vicreg])
@pytest.mark.parametrize(
    ("z1", "z2", "error", "message"),
    [
        (Z, Z[:3], ValueError, r"z1.*\(4, 3\).*z2 \(3, 3\)"),
        (Z.long(), Z, TypeError, "z1.*torch.int64"),
        (Z, Z.double(), ValueError, "z1.*torch.float32.*z2 torch.float64"),
        (Z[0], Z[0], ValueError, r"z1.*\(3,\)"),
        (Z[:0], Z[:0], ValueError, r"z1.*\(0, 3\)"),
        (Z[:1], Z[:1], ValueError, "batch has 1 pair"),
        (Z.numpy(), Z, TypeError, "z1.*ndarray"),
    ],
)
def test_invalid_pairs_are_reported_by_argument(loss, z1, z2, error, message):
    with pytest.raises(error, match=message):
        loss(z1, z2)


@pytest.mark.parametrize("loss", [losses.multimodal.info_nce, losses.multimodal.spectral])
def test_modalities_of_different_shapes_are_reported_by_argument(loss):
    with pytest.raises(ValueError, match=r"a has.*\(4, 3\).*b \(4, 2\)"):
        loss(Z, Z[:, :2])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (None, TypeError, "labels.*None"),
        (LABELS.float(), TypeError, "labels.*torch.float32"),
        ([0, 1, 0, 1], TypeError, "labels.*list"),
        (LABELS[:3], ValueError, r"labels.*\(3,\).*\(4,\)"),
    ],
)
def test_invalid_labels_are_reported(labels, error, message):
    with pytest.raises(error, match=message):
        losses.supervised.sup_con(Z, labels)
    with pytest.raises(error, match=message):
        losses.supervised.cross_entropy(Z, labels, torch.rand(2, 3))


def test_a_weight_or_queue_of_another_width_is_reported():
    with pytest.raises(ValueError, match=r"weight.* 5 .* 3"):
        losses.supervised.cross_entropy(Z, LABELS, torch.rand(2, 5))
    with pytest.raises(ValueError, match=r"negatives.* 5 .* 3"):
        losses.info_nce(Z, Z, negatives=torch.rand(2, 5))


@pytest.mark.parametrize(
    ("negatives", "error", "message"),
    [
        (Z.long(), TypeError, "negatives.*torch.int64"),
        (Z[0], ValueError, r"negatives.*\(3,\)"),
        (Z[:0], ValueError, r"negatives.*\(0, 3\)"),
        (Z.numpy(), TypeError, "negatives.*ndarray"),
        (Z.to("meta"), ValueError, "negatives.*meta.*cpu"),
    ],
)
def test_an_invalid_queue_is_reported(negatives, error, message):
    with pytest.raises(error, match=message):
        losses.info_nce(Z, Z, negatives=negatives)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", None])
def test_invalid_weights_of_terms_are_reported(value):
    with pytest.raises(ValueError, match=f"redundancy is {value!r}"):
        losses.barlow_twins(Z, Z, redundancy=value)
    for name in ("similarity", "variance", "covariance"):
        with pytest.raises(ValueError, match=f"{name} is {value!r}"):
            losses.vicreg(Z, Z, **{name: value})


TEMPERED = [
    losses.info_nce,
    losses.multimodal.info_nce,
    lambda a, b, *rest, **named: losses.supervised.sup_con(a, LABELS[: len(a)], *rest, **named),
]


@pytest.mark.parametrize("loss", TEMPERED)
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), "0.2", None])
def test_a_temperature_that_is_not_positive_is_reported(loss, temperature):
    with pytest.raises(ValueError, match=f"temperature is {temperature!r}"):
        loss(Z, Z, temperature)


@pytest.mark.parametrize("loss", TEMPERED)
def test_a_temperature_of_several_numbers_is_reported(loss):
    with pytest.raises(ValueError, match=r"temperature.*\(3,\)"):
        loss(Z, Z, torch.ones(3))


@pytest.mark.parametrize("loss", [*TEMPERED, losses.spectral, losses.multimodal.spectral])
def test_a_batch_without_negatives_is_reported(loss):
    with pytest.raises(ValueError, match=r"batch has 1 (pair|row)"):
        loss(Z[:1], Z[:1])


def test_labels_and_weights_on_another_device_are_reported():
    with pytest.raises(ValueError, match=r"labels.*meta.*cpu"):
        losses.supervised.sup_con(Z, LABELS.to("meta"))
    with pytest.raises(ValueError, match=r"weight.*meta.*cpu"):
        losses.supervised.cross_entropy(Z, LABELS, torch.rand(2, 3, device="meta"))


@pytest.mark.parametrize("loss", TEMPERED)
def test_a_chunk_size_of_zero_is_reported(loss):
    with pytest.raises(ValueError, match="chunk_rows is 0"):
        loss(Z, Z, chunk_rows=0)
