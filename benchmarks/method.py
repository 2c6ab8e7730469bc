"""Rectifiers compared with plain contrastive learning on a held-out part of the training split.

    python -m benchmarks.method --data cifar100.tar --out results.jsonl
    python -m benchmarks.method --data digits --out results.jsonl --only cl topk26 --epochs 1 --limit 512

Trains each setting from scratch on 90% of the training split, evaluates it on the other 10% and never opens the test
split. Adds one JSON line per run to `--out` and prints the tables of docs/results/method.md, which also describes the
protocol and what was found.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.hardware import described
from nonneg.devices import choose_device
from nonneg.evaluate import linear_probe, neighbour_hits
from nonneg.features import Features
from nonneg.losses import info_nce
from nonneg.metrics import class_consistency, precision_at_k, sparsity
from nonneg.modalities import Source
from nonneg.modalities.images import Images, ResNet, open_source
from nonneg.rectify import rep_relu, top_k
from nonneg.training import TrainConfig, epoch_order, learning_rate, load_recipe, optimiser_of, set_learning_rate

HELD_OUT, SPLIT_SEED = 0.1, 0
MOMENTUM = 0.1  # of running means, variances and thresholds
CUT_SHARES, CUT_TOPS = (0.1, 0.05, 0.03, 0.02, 0.01), (32, 16)


@dataclass(frozen=True)
class Setting:
    """One way to end the projector, and the projector itself.

    Attributes:
        rectify: none; rep_relu; threshold: relu(z − level); share: relu(z − t), where each feature's t is a running
            quantile, such that it is active on this share of the views; top_k: the largest entries of each row.
            For the last three, z is standardised per feature over all views of the batch.
        level: the threshold, share or number of entries at the end of training.
        start: the share or number of entries at the beginning, which falls geometrically to `level`; None: constant.
        until: the part of training after which `level` is reached.
        standardise: whether to standardise each feature without rectifying it, for none.
        gelu_gradient: whether the rectifier uses the gradient of gelu, as rep_relu does, instead of that of relu.
        subtract: whether the threshold is subtracted from the values that exceed it.
        row_ratio: only the largest entries of each row are kept, at most `row_ratio` times as many as a row has on
            average, `level` times `features`; thresholds then follow the share of entries that are kept; 0: no limit.
        dense: whether to average the loss with that of the standardised values before the rectifier.
        dense_end: the weight of that loss at the end of training, to which it falls from a half; None: constant.
        also: the share of a second rectifier of the same values, with whose loss to average; 0: none.
        leak_until: the part of training over which the slope below the threshold falls from 1 to 0; 0: no slope.
        encoder_share: also rectify the encoder's output, by this share; 0 for no.
        features, hidden: width of the projector's output and of its hidden layer; hidden 0: one linear layer.
        hidden_norm: whether the hidden layer has batch norm.
        temperature: of InfoNCE.
        dense_temperature: of the loss before the rectifier.
    """

    rectify: Literal["none", "rep_relu", "threshold", "share", "top_k"]
    level: float = 0.0
    start: float | None = None
    until: float = 0.5
    standardise: bool = False
    gelu_gradient: bool = False
    subtract: bool = True
    row_ratio: float = 0.0
    dense: bool = False
    dense_end: float | None = None
    also: float = 0.0
    leak_until: float = 0.0
    encoder_share: float = 0.0
    features: int = 512
    hidden: int = 2048
    hidden_norm: bool = False
    temperature: float = 0.1
    dense_temperature: float = 0.1

    def level_at(self, progress: float) -> float:
        """Return the threshold, share or number of entries after this part of training, from 0 to 1."""
        if self.start is None:
            return self.level
        done = min(1.0, progress / self.until)
        value = self.start ** (1 - done) * self.level**done
        return round(value) if self.rectify == "top_k" else value

    def dense_weight_at(self, progress: float) -> float:
        """Return the weight of the loss before the rectifier after this part of training, from 0 to 1."""
        end = 0.5 if self.dense_end is None else self.dense_end
        return 0.5 + (end - 0.5) * min(1.0, progress / self.until)

    def __str__(self) -> str:
        """Return the rectifier in words, as in the table."""
        level, start = f"{self.level:g}", "" if self.start is None else f"{self.start:g} → "
        text = {
            "none": "CL, standardised output" if self.standardise else "CL",
            "rep_relu": "rep_relu, the paper's map",
            "threshold": f"standardised, threshold {level}",
            "share": f"share {start}{level}",
            "top_k": f"top {start}{level} per row",
        }[self.rectify]
        text += f" over the first {self.until:.0%}" if self.start is not None else ""
        text += ", gradient of gelu" if self.gelu_gradient else ""
        text += "" if self.subtract else ", threshold not subtracted"
        text += f", rows at most {self.row_ratio:g} times the mean" if self.row_ratio else ""
        text += ", also the loss before the rectifier" if self.dense else ""
        text += "" if self.dense_end is None else f" with a weight that falls to {self.dense_end:g}"
        text += f", also the loss at share {self.also:g}" if self.also else ""
        text += f", slope below it 1 → 0 over the first {self.leak_until:.0%}" if self.leak_until else ""
        text += f", encoder output rectified too (share {self.encoder_share:g})" if self.encoder_share else ""
        if self.hidden == 2048:
            return text
        return text + (f", hidden layer of {self.hidden:,}" if self.hidden else ", one linear layer")


def _wide(rectify: Any, level: float = 0.0, start: float | None = None, features: int = 2048, **more: Any) -> Setting:
    return Setting(rectify, level, start, until=0.8, features=features, hidden_norm=True, **more)


def _plain(level: float, features: int = 2048, gelu_gradient: bool = True, **more: Any) -> Setting:
    """A falling share; without hidden batch norm unless `more` asks for it."""
    return Setting("share", level, 0.5, until=0.8, features=features, gelu_gradient=gelu_gradient, **more)


def _fourth(share: float, **more: Any) -> Setting:
    return _plain(share, features=4096, gelu_gradient=False, dense=True, temperature=0.2, **more)


SETTINGS = {
    "cl-tau0.2": Setting("none", temperature=0.2),
    "cl": Setting("none"),
    "cl-std-tau0.2": Setting("none", standardise=True, temperature=0.2),
    "cl-std": Setting("none", standardise=True),
    "rep_relu-tau0.2": Setting("rep_relu", temperature=0.2),
    "t1": Setting("threshold", 1.0),
    "share0.1": Setting("share", 0.1),
    "share0.05": Setting("share", 0.05),
    "cl-std-bn-tau0.2": Setting("none", standardise=True, hidden_norm=True, temperature=0.2),
    "cl-std-bn": Setting("none", standardise=True, hidden_norm=True),
    "t1-bn": Setting("threshold", 1.0, hidden_norm=True),
    "share0.05-bn": Setting("share", 0.05, hidden_norm=True),
    "fall0.05": Setting("share", 0.05, start=0.5),
    "topk26": Setting("top_k", 26, start=128),
    "share0.05-gelu": Setting("share", 0.05, gelu_gradient=True),
    "share0.05-jump": Setting("share", 0.05, subtract=False),
    "cl-std-bn-2048": _wide("none", standardise=True),
    "fall0.05-bn-2048": _wide("share", 0.05, start=0.5),
    "topk100-bn-2048": _wide("top_k", 100, start=1000),
    "fall0.1-gelu-bn-2048": _wide("share", 0.1, start=0.5, gelu_gradient=True),
    "cl-std-bn-tau0.07": Setting("none", standardise=True, hidden_norm=True, temperature=0.07),
    "t0-bn": Setting("threshold", 0.0, hidden_norm=True),
    "t1-bn-tau0.07": Setting("threshold", 1.0, hidden_norm=True, temperature=0.07),
    "t1-gelu-bn": Setting("threshold", 1.0, gelu_gradient=True, hidden_norm=True),
    "fall0.03-bn-4096": _wide("share", 0.03, start=0.5, features=4096),
    "fall0.05-gelu-bn-2048": _wide("share", 0.05, start=0.5, gelu_gradient=True),
    "fall0.05-bn-2048-tau0.2": _wide("share", 0.05, start=0.5, temperature=0.2),
    "fall0.05-encoder0.2-bn-2048": _wide("share", 0.05, start=0.5, encoder_share=0.2),
    "cl-std-bn-2048-tau0.2": _wide("none", standardise=True, temperature=0.2),
    "cl-std-bn-4096": _wide("none", features=4096, standardise=True),
    "fall0.03-hidden4096-bn-4096": _wide("share", 0.03, start=0.5, features=4096, hidden=4096),
    "fall0.015-bn-8192": _wide("share", 0.015, start=0.5, features=8192),
    "fall0.1-gelu-bn-4096": _wide("share", 0.1, start=0.5, features=4096, gelu_gradient=True),
    "fall0.05-gelu-bn-2048-tau0.15": _wide("share", 0.05, start=0.5, gelu_gradient=True, temperature=0.15),
    # The second round.
    "cl-std-2048": Setting("none", features=2048, standardise=True),
    "cl-std-2048-tau0.2": Setting("none", features=2048, standardise=True, temperature=0.2),
    "fall0.1-gelu-2048": _plain(0.1),
    "fall0.05-gelu-2048": _plain(0.05),
    "cl-std-linear-2048": Setting("none", features=2048, standardise=True, hidden=0),
    "cl-std-linear-2048-tau0.2": Setting("none", features=2048, standardise=True, hidden=0, temperature=0.2),
    "fall0.1-gelu-linear-2048": _plain(0.1, hidden=0),
    "fall0.05-gelu-linear-2048": _plain(0.05, hidden=0),
    "fall0.05-gelu-dense-bn-2048": _plain(0.05, hidden_norm=True, dense=True),
    "fall0.05-gelu-also0.3-bn-2048": _plain(0.05, hidden_norm=True, also=0.3),
    "topk64-bn-2048": _wide("top_k", 64, start=1024),
    "fall0.05-gelu-leak0.5-bn-2048": _plain(0.05, hidden_norm=True, leak_until=0.5),
    "cl-std-hidden512-bn-2048": _wide("none", standardise=True, hidden=512),
    "fall0.05-gelu-hidden512-bn-2048": _plain(0.05, hidden_norm=True, hidden=512),
    "topk26-bn": Setting("top_k", 26, start=256, until=0.8, hidden_norm=True),
    "fall0.03-gelu-dense-bn-4096": _plain(0.03, features=4096, hidden_norm=True, dense=True),
    "fall0.05-gelu-leak0.8-2048": _plain(0.05, leak_until=0.8),
    "fall0.1-gelu-leak0.8-2048": _plain(0.1, leak_until=0.8),
    "fall0.05-gelu-dense-2048": _plain(0.05, dense=True),
    "fall0.05-gelu-leak0.5-2048": _plain(0.05, leak_until=0.5),
    "fall0.05-gelu-leak0.8-linear-2048": _plain(0.05, hidden=0, leak_until=0.8),
    "fall0.05-gelu-dense-linear-2048": _plain(0.05, hidden=0, dense=True),
    "fall0.03-gelu-leak0.8-linear-4096": _plain(0.03, features=4096, hidden=0, leak_until=0.8),
    "fall0.05-gelu-leak0.8-bn-2048": _plain(0.05, hidden_norm=True, leak_until=0.8),
    "fall0.03-gelu-dense-2048": _plain(0.03, dense=True),
    "fall0.05-dense-2048": _plain(0.05, gelu_gradient=False, dense=True),
    "share0.05-dense-2048": Setting("share", 0.05, features=2048, dense=True),
    # The third round; without tau, both losses have a temperature of 0.1.
    "fall0.03-dense-2048": _plain(0.03, gelu_gradient=False, dense=True),
    "fall0.02-dense-2048": _plain(0.02, gelu_gradient=False, dense=True),
    "share0.03-dense-2048": Setting("share", 0.03, features=2048, dense=True),
    "fall0.03-dense": _plain(0.03, features=512, gelu_gradient=False, dense=True),
    "fall0.03-dense-2048-tau0.2": _plain(0.03, gelu_gradient=False, dense=True, temperature=0.2),
    "fall0.03-dense-2048-tau0.4": _plain(0.03, gelu_gradient=False, dense=True, temperature=0.4),
    "fall0.05-dense-tau0.4": _plain(0.05, features=512, gelu_gradient=False, dense=True, temperature=0.4),
    # The fourth round: temperatures of 0.2 after the rectifier and 0.1 before it.
    "fall0.015-dense-4096": _fourth(0.015),
    "fall0.02-dense-4096": _fourth(0.02),
    "fall0.015-dense-4096-rows": _fourth(0.015, row_ratio=1.0),
    "fall0.015-dense-4096-fade": _fourth(0.015, dense_end=0.0),
    "cl-std-4096-tau0.2": Setting("none", features=4096, standardise=True, temperature=0.2),
    # The fifth round: higher shares with the loss that fades.
    "fall0.03-dense-4096-fade": _fourth(0.03, dense_end=0.0),
    "fall0.05-dense-4096-fade": _fourth(0.05, dense_end=0.0),
    "fall0.03-dense-4096-fade-linear": _fourth(0.03, dense_end=0.0, hidden=0),
    "fall0.03-dense-2048-fade": _plain(0.03, gelu_gradient=False, dense=True, temperature=0.2, dense_end=0.0),
    "cl-std-4096": Setting("none", features=4096, standardise=True),
    "cl-std-4096-tau0.5": Setting("none", features=4096, standardise=True, temperature=0.5),
}


class Rectifier(nn.Module):
    """The end of the projector: `(views, features)` to the same shape, in float32."""

    def __init__(self, width: int, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        self.standardise = setting.standardise or setting.rectify in ("threshold", "share", "top_k")
        # The threshold of a share starts where it would be for a normal distribution.
        t = NormalDist().inv_cdf(1 - setting.level) if setting.rectify == "share" else setting.level
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))
        self.register_buffer("threshold", torch.full((width,), float(t)))

    def forward(self, z: Tensor, level: Tensor, leak: Tensor | None = None) -> Tensor:
        """`level` is the share or the number of entries at this step, `leak` the slope below the threshold."""
        kind, z = self.setting.rectify, z.float()
        if self.standardise:
            z = F.batch_norm(z, self.mean, self.var, training=self.training, momentum=MOMENTUM)
        if kind == "none":
            return z
        if kind == "top_k":  # nonneg.rectify.top_k needs k on the host; this one does not wait for the device
            smallest = z.detach().sort(1, descending=True).values.gather(1, (level.long() - 1).expand(len(z), 1))
            return F.relu(z) * (z >= smallest)
        if self.setting.row_ratio:
            return self._within_rows(z, level)
        if kind == "share" and self.training:
            with torch.no_grad():
                row = ((1 - level) * len(z)).long().clamp(0, len(z) - 1)
                self.threshold.lerp_(z.sort(0).values.index_select(0, row.view(1))[0], MOMENTUM)
        if not self.setting.subtract:
            return z * (z > self.threshold)
        use_gelu = kind == "rep_relu" or self.setting.gelu_gradient
        y: Tensor = (rep_relu if use_gelu else F.relu)(z - self.threshold)
        return y if leak is None else y + leak * (z - self.threshold).clamp(max=0)

    def _within_rows(self, z: Tensor, share: Tensor) -> Tensor:
        """Apply the thresholds, keep the largest entries of each row, and move each threshold towards its share."""
        y = F.relu(z - self.threshold.clone())
        most = (self.setting.row_ratio * share * z.shape[1]).long().clamp(1, z.shape[1])
        smallest = y.detach().sort(1, descending=True).values.gather(1, (most - 1).expand(len(z), 1))
        y = y * (y >= smallest)
        if self.training:
            with torch.no_grad():
                self.threshold.add_((y > 0).float().mean(0) - share)
        return y


class Network(nn.Module):
    """ResNet-18 for small images, and a projector with one hidden layer that ends in the rectifier."""

    def __init__(self, channels: int, setting: Setting) -> None:
        super().__init__()
        self.encoder = ResNet(18, channels, "small")
        width, share = self.encoder.width, setting.encoder_share
        self.hidden = nn.Sequential()
        if setting.hidden:
            self.hidden.append(nn.Linear(width, setting.hidden, bias=not setting.hidden_norm))
            self.hidden.append(nn.BatchNorm1d(setting.hidden) if setting.hidden_norm else nn.Identity())
            self.hidden.append(nn.ReLU())
        self.last = nn.Linear(setting.hidden or width, setting.features)
        self.rectify = Rectifier(setting.features, setting)
        self.also = Rectifier(setting.features, replace(setting, level=setting.also or 0.5, start=None))
        self.dense = Rectifier(setting.features, Setting("none", standardise=True))
        self.encoder_end = Rectifier(width, Setting("share", share) if share else Setting("none"))
        self.register_buffer("encoder_share", torch.tensor(share))

    def project(self, h: Tensor, level: Tensor, leak: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the encoder's output as evaluated, the values before the rectifier, and the features."""
        h = self.encoder_end(h, self.encoder_share)
        with torch.autocast(h.device.type, torch.bfloat16, enabled=h.is_cuda):
            z = self.last(self.hidden(h)).float()
        return h, z, self.rectify(z, level, leak)

    def loss(self, h: Tensor, setting: Setting, level: Tensor, leak: Tensor | None, dense_weight: Tensor) -> Tensor:
        """Return InfoNCE of the features, averaged with those that the setting adds."""
        _, z, y = self.project(h, level, leak)
        losses = [info_nce(*y.chunk(2), setting.temperature)]
        if setting.dense:
            dense = info_nce(*self.dense(z, level).chunk(2), setting.dense_temperature)
            return losses[0].lerp(dense, dense_weight)
        if setting.also:
            also = self.also(z, torch.full_like(level, setting.also))
            losses.append(info_nce(*also.chunk(2), setting.temperature))
        return torch.stack(losses).mean()


def encode(encoder: nn.Module, images: Tensor) -> Tensor:
    with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
        output: Tensor = encoder(images)
    return output


@dataclass(frozen=True)
class Data:
    """The training split on the device; `train` and `held_out` are row numbers."""

    images: Tensor
    labels: Tensor
    train: Tensor
    held_out: Tensor
    modality: Images


def open_data(path: str, limit: int | None, modality: Images, device: torch.device) -> Data:
    source: Source = open_source(path, "train")
    if source.labels is None:
        raise SystemExit(f"--data {path}: the images have no labels, expected labels to evaluate with")
    rng = np.random.default_rng(SPLIT_SEED)
    rows = np.sort(rng.permutation(len(source))[:limit])
    labels = source.labels[rows]
    is_held_out = np.zeros(len(rows), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        is_held_out[members[: max(len(members) > 1, round(HELD_OUT * len(members)))]] = True
    train, held_out = (torch.from_numpy(np.flatnonzero(mask)).to(device) for mask in (~is_held_out, is_held_out))
    fitted = modality.fitted(source)
    fitted.to(device)
    images = torch.from_numpy(np.ascontiguousarray(source.samples[rows])).to(device)
    return Data(images, torch.from_numpy(labels).to(device), train, held_out, fitted)


def train(setting: Setting, data: Data, config: TrainConfig, functions: tuple[Callable, Callable]) -> Network:
    """Train from scratch. `functions` draw views and encode them; they are compiled on CUDA."""
    draw_views, encode_views = functions
    device = data.images.device
    torch.manual_seed(config.seed)
    network = Network(data.modality.channels, setting).to(device, memory_format=torch.channels_last).train()
    optimiser = optimiser_of(network.parameters(), config, device)
    batch = min(config.batch_size, len(data.train))
    per_epoch = len(data.train) // batch
    steps, warmup = config.epochs * per_epoch, config.warmup_epochs * per_epoch
    for epoch in range(config.epochs):
        order = data.train[epoch_order(len(data.train), config.seed, epoch).to(device)]
        number = torch.tensor(epoch, device=device)
        for i, samples in enumerate(order[: per_epoch * batch].split(batch)):
            step = epoch * per_epoch + i
            set_learning_rate(optimiser, learning_rate(config, step, steps, warmup))
            level = torch.full((), float(setting.level_at(step / steps)), device=device)
            views = draw_views(data.images[samples], samples, config.seed, number, 2, torch.float32)
            slope = max(0.0, 1 - step / steps / setting.leak_until) if setting.leak_until else 0.0
            leak = torch.full((), slope, device=device) if setting.leak_until else None
            dense_weight = torch.full((), setting.dense_weight_at(step / steps), device=device)
            optimiser.zero_grad()
            network.loss(encode_views(network.encoder, views), setting, level, leak, dense_weight).backward()
            optimiser.step()
    return network.eval()


@torch.no_grad()
def evaluate(network: Network, setting: Setting, data: Data) -> dict[str, Any]:
    """Return the figures of one trained network, in percent, and those after a threshold put on afterwards."""
    level = torch.tensor(float(setting.level), device=data.images.device)

    def codes(rows: Tensor) -> list[Tensor]:
        inputs = (data.modality.inputs(data.images[part]) for part in rows.split(1000))
        parts = [network.project(encode(network.encoder, x), level) for x in inputs]
        return [torch.cat(part) for part in zip(*parts, strict=True)]

    h, z, y = codes(data.train)
    held_h, held_z, held_y = codes(data.held_out)
    labels = data.labels[data.held_out].cpu()
    figures: dict[str, Any] = {}
    for layer, fit, test in (("encoder", h, held_h), ("projector", y, held_y)):
        fit_features = Features(fit.cpu().numpy(), labels=data.labels[data.train].cpu().numpy())
        test_features = Features(test.cpu().numpy(), labels=labels.numpy())
        probe = linear_probe(fit_features, test_features)
        figures[f"{layer}_probe"], figures[f"{layer}_C"] = 100 * probe.accuracy, probe.C
        figures[f"{layer}_20nn"] = 100 * float(neighbour_hits(fit_features, test_features, k=20).mean())
    figures |= readability(held_y, labels)
    mean, deviation = z.mean(0), z.std(0).clamp(min=1e-6)
    ordered, held_z = ((z - mean) / deviation).sort(0).values, (held_z - mean) / deviation
    cuts = {f"share {share}": F.relu(held_z - ordered[int((1 - share) * len(ordered))]) for share in CUT_SHARES}
    if setting.rectify != "none":
        cuts |= {f"top {k}": top_k(held_y, k) for k in CUT_TOPS}
    return figures | {"cuts": {name: readability(cut, labels) for name, cut in cuts.items()}}


def readability(z: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Return retrieval, activity, and the class consistency of features that are active on at least 1% of samples."""
    found = class_consistency(z, labels, min_support=max(1, len(z) // 100), permutations=5)
    support = found.support[found.supported_features].double()
    ceiling = (torch.bincount(labels).max() / support.cpu()).clamp(max=1).mean()
    values = {"precision": float(precision_at_k(z, labels, 10)), "sparsity": sparsity(z)}
    values |= {"consistency": found.supported, "floor": found.floor, "excess": found.excess, "ceiling": float(ceiling)}
    counts = {"live": found.live, "supported": found.n_supported}
    return {name: None if math.isnan(value) else 100 * value for name, value in values.items()} | counts


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def table(runs: list[dict[str, Any]]) -> str:
    """Return the main table in Markdown."""
    head = "name|rectifier|features|hidden BN|τ|seed|encoder probe|projector probe|20-NN enc / proj|p@10|live|sparsity"
    lines = [f"| {head.replace('|', ' | ')} | consistency | floor | excess | ceiling | supported |", "|---" * 17 + "|"]
    for run in runs:
        setting = SETTINGS[run["name"]]
        hidden_norm = "yes" if setting.hidden_norm else "no"
        cells = [f"`{run['name']}`", setting, setting.features, hidden_norm, setting.temperature, run["seed"]]
        cells += [_cell(run["encoder_probe"]), _cell(run["projector_probe"])]
        cells += [f"{_cell(run['encoder_20nn'])} / {_cell(run['projector_20nn'])}", _cell(run["precision"])]
        cells += [run["live"], *(_cell(run[key]) for key in ("sparsity", "consistency", "floor", "excess", "ceiling"))]
        lines.append(f"| {' | '.join(map(str, [*cells, run['supported']]))} |")
    return "\n".join(lines)


def cut_table(runs: list[dict[str, Any]]) -> str:
    """Return the table of thresholds put on afterwards: precision@10 and excess consistency per cut."""
    cuts = [f"share {share}" for share in CUT_SHARES] + [f"top {k}" for k in CUT_TOPS]
    lines = [f"| name | seed | {' | '.join(cuts)} |", "|---" * (2 + len(cuts)) + "|"]
    for run in runs:
        found = (run["cuts"].get(cut) for cut in cuts)
        cells = (f"{_cell(cut['precision'])}, {_cell(cut['excess'])}" if cut else "" for cut in found)
        lines.append(f"| `{run['name']}` | {run['seed']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, help="labelled images: a folder, a tar, or what open_source takes")
    parser.add_argument("--out", required=True, type=Path, help="JSON lines; one line is added per run")
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of weights, views and order; the split stays the same")
    parser.add_argument("--limit", type=int, help="use only this many images of the training split")
    args = parser.parse_args()
    device = choose_device()
    config = load_recipe("cifar100").replace(
        epochs=args.epochs, warmup_epochs=args.epochs // 10, seed=args.seed, lr=0.4, batch_size=256
    )
    data = open_data(args.data, args.limit, config.modality, device)
    functions: tuple[Callable, Callable] = (data.modality.draw_views, encode)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        functions = (torch.compile(functions[0], dynamic=False), torch.compile(encode, dynamic=False))
    print(f"{described()}; {len(data.train)} images to train on, {len(data.held_out)} held out", flush=True)
    runs = []
    for name in args.only:
        start = time.perf_counter()
        network = train(SETTINGS[name], data, config, functions)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = round(time.perf_counter() - start, 1)
        run = {"name": name, "seed": args.seed, "epochs": args.epochs, "seconds": seconds}
        runs.append(run | evaluate(network, SETTINGS[name], data))
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(runs[-1]) + "\n")
        print(f"{name}: trained in {seconds} s, {time.perf_counter() - start - seconds:.1f} s to evaluate", flush=True)
    print(f"\n{table(runs)}\n\nPrecision@10 and excess consistency after a cut:\n\n{cut_table(runs)}")


if __name__ == "__main__":
    main()
