"""Two encoders and one non-negative space, as in CLIP: the left and the right half of each digit.

python examples/clip_pairs.py [--epochs 60]

Replace `left` and `right` by your own arrays, such as image and text vectors; row i of both must belong together.
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from nonneg import NonNegative, losses, metrics


def head(width: int, features: int = 128) -> nn.Module:
    """Return a module that maps one modality, `(samples, width)`, to the shared space, `(samples, features)`."""
    return nn.Sequential(
        nn.Linear(width, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, features), NonNegative("rep_relu")
    )


def train_heads(left: Tensor, right: Tensor, epochs: int) -> tuple[nn.Module, nn.Module]:
    """Train two heads that give similar codes to rows that belong together."""
    torch.manual_seed(0)
    heads = nn.ModuleList([head(left.shape[1]), head(right.shape[1])])
    scale = nn.Parameter(torch.tensor(2.0))  # the temperature is learned, as in CLIP
    optimiser = torch.optim.AdamW([*heads.parameters(), scale], lr=3e-3, weight_decay=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(left)).split(256)[:-1]:
            a, b = (
                head(x[batch] + 0.1 * torch.randn_like(x[batch])) for head, x in zip(heads, (left, right), strict=True)
            )
            loss = losses.multimodal.info_nce(a, b, temperature=torch.exp(-scale))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    heads.eval()
    return heads[0], heads[1]


def main() -> None:
    """Train on 1,400 pairs and measure on the other 397."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs
    digits = load_digits()
    images = torch.from_numpy(digits.images / 16).float()
    left, right = images[:, :, :4].flatten(1), images[:, :, 4:].flatten(1)
    train, test = train_test_split(range(len(images)), test_size=397, stratify=digits.target, random_state=0)
    encode_left, encode_right = train_heads(left[train], right[train], epochs)
    with torch.inference_mode():
        a, b = encode_left(left[test]), encode_right(right[test])
    nearest = (F.normalize(a) @ F.normalize(b).T).topk(10).indices
    found = (nearest == torch.arange(len(test))[:, None]).any(1).float().mean()
    print(f"right half among the 10 nearest neighbours of its left half: {found:.1%} (by chance {10 / len(test):.1%})")
    for name, codes in (("left", a), ("right", b)):
        consistency = metrics.class_consistency(codes, digits.target[test])
        print(
            f"{name} halves: sparsity {metrics.sparsity(codes):.1%}, class consistency {consistency.supported:.1%}"
            f" (by chance {consistency.floor:.1%})"
        )
    one_hot = F.one_hot(torch.from_numpy(digits.target[test])).float()
    digit_left, digit_right = ((one_hot.T @ codes).argmax(0) for codes in (a, b))
    live = metrics.live_features(a) & metrics.live_features(b)
    same = (digit_left == digit_right)[live].float().mean()
    print(f"features that represent the same digit on both sides: {same:.1%} of {int(live.sum())} (by chance 10%)")


if __name__ == "__main__":
    main()
