"""Non-negative contrastive learning in PyTorch Lightning, on scikit-learn's digits, with two CPU processes.

python examples/lightning_ncl.py [--epochs 20] [--processes 2] [--logs FOLDER]

Metrics are logged to Weights & Biases in offline mode if wandb is installed, otherwise to a CSV file.
"""

import argparse
import importlib.util
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nonneg import NonNegative, losses, metrics

try:
    import lightning as L
    from lightning.pytorch.loggers import CSVLogger, WandbLogger
except ImportError as error:
    sys.exit(f"this example needs lightning, which cannot be imported here ({error}): pip install lightning wandb")


class NonNegativeContrastiveLearning(L.LightningModule):
    """An encoder and a projector that ends in `NonNegative`, trained with InfoNCE."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128), NonNegative("rep_relu"))

    def forward(self, x: Tensor) -> Tensor:
        return self.projector(self.encoder(x))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x = batch[0].repeat(2, 1)  # two views: different noise, and different pixels set to zero
        z1, z2 = self((x + 0.2 * torch.randn_like(x)) * (torch.rand_like(x) > 0.3)).chunk(2)
        # With a group, negatives come from all processes and the loss is that of the joint batch.
        loss = losses.info_nce(z1, z2, temperature=0.2, group=dist.group.WORLD if dist.is_initialized() else None)
        self.log_dict({"loss": loss, "sparsity": metrics.sparsity(z1)}, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    """Train on 1,400 digits and measure the features of the other 397."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--logs", default="logs", help="the folder for logs")
    arguments = parser.parse_args()
    digits = load_digits()
    pixels = torch.from_numpy(digits.data / 16).float()
    train, test = train_test_split(range(len(pixels)), test_size=397, stratify=digits.target, random_state=0)
    L.seed_everything(0, verbose=False)
    has_wandb = importlib.util.find_spec("wandb") is not None
    trainer = L.Trainer(
        accelerator="cpu",
        devices=arguments.processes,
        strategy="ddp" if arguments.processes > 1 else "auto",
        max_epochs=arguments.epochs,
        logger=WandbLogger(save_dir=arguments.logs, offline=True) if has_wandb else CSVLogger(arguments.logs),
        log_every_n_steps=5,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = NonNegativeContrastiveLearning()
    trainer.fit(model, DataLoader(TensorDataset(pixels[train]), batch_size=128, shuffle=True, drop_last=True))
    if trainer.is_global_zero:
        model.eval()
        with torch.inference_mode():
            z = model(pixels[test])
        consistency = metrics.class_consistency(z, digits.target[test])
        print(f"trained on {trainer.world_size} processes, loss {float(trainer.callback_metrics['loss']):.3f}")
        print(
            f"sparsity {metrics.sparsity(z):.1%}, class consistency {consistency.supported:.1%}"
            f" (by chance {consistency.floor:.1%})"
        )


if __name__ == "__main__":
    main()
