"""Non-negative contrastive learning in lightly, on scikit-learn's digits: one more line after the projection head.

python examples/lightly_ncl.py [--epochs 20]
"""

import argparse
import sys

import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nonneg import NonNegative, metrics

try:
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
except (ImportError, RuntimeError) as error:  # torchvision raises a RuntimeError if it was built for another torch
    sys.exit(
        f"this example needs lightly, which cannot be imported here ({error}): pip install lightly, with a"
        " torchvision built for your torch"
    )


class Pictures(Dataset):
    """A dataset that returns two views of each picture."""

    def __init__(self, pictures: list[Image.Image], transform: SimCLRTransform) -> None:
        self.pictures, self.transform = pictures, transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> list[Tensor]:
        return self.transform(self.pictures[row])


def train_model(pictures: list[Image.Image], epochs: int, is_non_negative: bool) -> nn.Module:
    """Train a backbone and a projection head, and return both as one module."""
    torch.manual_seed(0)
    backbone = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()
    )
    # Batch norm would centre each feature, which would then be active on about half of all samples.
    projector = nn.Sequential(SimCLRProjectionHead(128, 256, 128, batch_norm=False))
    if is_non_negative:
        projector.append(NonNegative())  # this line is the only difference
    model = nn.Sequential(backbone, projector)
    transform = SimCLRTransform(
        input_size=8, min_scale=0.5, cj_prob=0, random_gray_scale=0, gaussian_blur=0, hf_prob=0, normalize=None
    )
    loader = DataLoader(Pictures(pictures, transform), batch_size=256, shuffle=True, drop_last=True)
    criterion = NTXentLoss(temperature=0.2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for x1, x2 in loader:
            z1, z2 = model(torch.cat((x1, x2))).chunk(2)
            loss = criterion(z1, z2)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def main() -> None:
    """Train with and without `NonNegative()` and measure both models on held-out digits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    epochs = parser.parse_args().epochs
    digits = load_digits()
    train, test = train_test_split(range(len(digits.images)), test_size=397, stratify=digits.target, random_state=0)
    pictures = [Image.fromarray((image * 15.9).astype("uint8")) for image in digits.images[train]]
    held_out = torch.from_numpy(digits.images[test] / 16).float()[:, None]
    print(f"{'397 held-out digits':24}{'sparsity':>10}{'class consistency':>20}{'by chance':>12}")
    for name, is_non_negative in (("without NonNegative()", False), ("with NonNegative()", True)):
        model = train_model(pictures, epochs, is_non_negative)
        with torch.inference_mode():
            z = model(held_out)
        consistency = metrics.class_consistency(z, digits.target[test])
        print(f"{name:24}{metrics.sparsity(z):10.1%}{consistency.supported:20.1%}{consistency.floor:12.1%}")


if __name__ == "__main__":
    main()
