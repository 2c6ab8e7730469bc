"""SimCLR on scikit-learn's digits in plain PyTorch; one line makes it non-negative contrastive learning.

python examples/simclr_one_line.py [--epochs 60]
"""

import argparse
import math

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from nonneg import NonNegative, metrics


def view(images: Tensor) -> Tensor:
    """Rotate, scale and shift each image of `(batch, 1, 8, 8)` slightly and add noise."""
    angle, size, across, down = torch.empty(4, len(images)).uniform_(-1, 1) * torch.tensor(
        [[0.26], [0.2], [0.2], [0.2]]
    )
    rows = [angle.cos(), -angle.sin(), across, angle.sin(), angle.cos(), down]
    affine = torch.stack(rows, 1).view(-1, 2, 3) * (1 + size)[:, None, None]
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False) + 0.1 * torch.randn_like(images)


def nt_xent(z1: Tensor, z2: Tensor, temperature: float = 0.2) -> Tensor:
    """Return the loss of SimCLR (`nonneg.losses.info_nce` is the same)."""
    z = F.normalize(torch.cat((z1, z2)))
    similarity = (z @ z.T / temperature).fill_diagonal_(-math.inf)
    return F.cross_entropy(similarity, torch.arange(len(z)).roll(len(z1)))


def train_model(images: Tensor, epochs: int, is_non_negative: bool) -> nn.Module:
    """Train an encoder and a projector, and return both as one module."""
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()
    )
    projector = nn.Sequential(nn.Linear(128, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))
    if is_non_negative:
        projector.append(NonNegative())  # this line is the only difference
    model = nn.Sequential(encoder, projector)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(256)[:-1]:
            z1, z2 = model(torch.cat((view(images[batch]), view(images[batch])))).chunk(2)
            loss = nt_xent(z1, z2)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def main() -> None:
    """Train with and without `NonNegative()` and measure both models on held-out digits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs
    digits = load_digits()
    images = torch.from_numpy(digits.images / 16).float()[:, None]
    train, test = train_test_split(range(len(images)), test_size=397, stratify=digits.target, random_state=0)
    print(f"{'397 held-out digits':24}{'sparsity':>10}{'class consistency':>20}{'by chance':>12}")
    for name, is_non_negative in (("without NonNegative()", False), ("with NonNegative()", True)):
        model = train_model(images[train], epochs, is_non_negative)
        with torch.inference_mode():
            z = model(images[test])
        consistency = metrics.class_consistency(z, digits.target[test])
        print(f"{name:24}{metrics.sparsity(z):10.1%}{consistency.supported:20.1%}{consistency.floor:12.1%}")


if __name__ == "__main__":
    main()
