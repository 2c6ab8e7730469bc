"""Figures of the paper (ICLR 2024), for comparison with those measured here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A figure of the paper for CL and NCL, in percent, and its protocol."""

    cl: str
    ncl: str
    protocol: str


_LINEAR = "linear layer by SGD on views, encoder"
_FINE_TUNED = "all weights trained, encoder"
_CONSISTENCY = "projector; features of any support, no chance floor"
_SPARSITY = "projector"
_SEPIN = "divided by 100; the paper does not state its variant"

# Recipe to the key and layer of a figure of `measure`, and the paper's figure for it.
PUBLISHED: dict[str, dict[tuple[str, str], Published]] = {
    "cifar10": {
        ("augmented_probe", "encoder"): Published("87.6 ± 0.2", "87.8 ± 0.2", _LINEAR),
        ("fine_tuning", "encoder"): Published("92.3 ± 0.1", "92.6 ± 0.1", _FINE_TUNED),
        ("class_consistency", "projector"): Published("14.7", "46.6", _CONSISTENCY),
        ("sparsity", "projector"): Published("about 0", "93.3", _SPARSITY),
    },
    "cifar100": {
        ("augmented_probe", "encoder"): Published("58.6 ± 0.2", "59.7 ± 0.4", _LINEAR),
        ("fine_tuning", "encoder"): Published("72.6 ± 0.1", "73.0 ± 0.2", _FINE_TUNED),
        ("class_consistency", "projector"): Published("1.7", "7.4", _CONSISTENCY),
        ("sparsity", "projector"): Published("about 0", "91.5", _SPARSITY),
    },
    "imagenet100": {
        ("augmented_probe", "encoder"): Published("68.7 ± 0.3", "69.4 ± 0.3", _LINEAR),
        ("fine_tuning", "encoder"): Published("77.3 ± 0.5", "79.2 ± 0.4", _FINE_TUNED),
        ("class_consistency", "projector"): Published("2.2", "8.6", _CONSISTENCY),
        ("sparsity", "projector"): Published("about 0", "95.9", _SPARSITY),
        ("sepin_at_1", "projector"): Published("0.0088", "0.0743", _SEPIN),
        ("sepin_at_10", "projector"): Published("0.0079", "0.0593", _SEPIN),
        ("sepin_at_100", "projector"): Published("0.0069", "0.0387", _SEPIN),
        ("sepin_all", "projector"): Published("0.0047", "0.0048", _SEPIN),
        ("corruptions", "encoder"): Published("34.5", "36.1", "ImageNet-C"),
    },
}

# The same for shifted images on which a run's probe is evaluated, by a likely part of their path.
PUBLISHED_SHIFTED = {
    "imagenet100": {
        "styl": Published("19.6", "21.2", "Stylized ImageNet"),
        "sketch": Published("27.1", "28.0", "ImageNet-Sketch"),
    }
}

# Linear probe / precision@10 of the projector's features, in percent.
PUBLISHED_SELECTION = {
    "imagenet100": "The paper, 512 of 2,048 features: CL all 66.8 / 10.9, random 66.2 / 10.0, expected activation"
    " without relu 66.3 / 9.9, with it 66.5 / 10.2; NCL all 68.9 / 14.2, random 64.3 / 8.2, without relu 66.7 / 11.1,"
    " with it 68.9 / 14.2."
}

# Accuracy from scratch / fine-tuned, in percent.
PUBLISHED_SUPERVISED = {
    "imagenet100": {
        "CE": "76.1 / 78.6",
        "NCE": "78.6 / 80.2",
        "CE + MLP": "78.4 / 81.1",
        "NCE + MLP": "79.2 / 82.0",
    }
}
