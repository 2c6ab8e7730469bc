"""The speed of training, and of CLIP training as it is usually written in PyTorch, with the same encoders and pictures.

    python -m benchmarks.plain_clip --data fashion --out speed.json

The plain loop is one process; loader processes decode a picture and draw its view with Pillow; bf16 autocast,
channels-last, AdamW and CLIP's loss; nothing is compiled. open_clip's loop has the same parts; its code is not used.
"""

import io
import json
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks import pillow_views
from benchmarks.fashion import SIZE
from benchmarks.hardware import described
from benchmarks.pairs import config_for, opened, settings_parser, trained
from nonneg.devices import choose_device
from nonneg.training import TrainConfig, new_model, read_log

_EPOCHS = 3  # of our own run; the first one includes compiling
_STEPS = 60
_WARM_UP = 15


class Products(Dataset[tuple[Tensor, Tensor]]):
    """Pictures as bytes of files, and the tokens of names."""

    def __init__(self, pictures: list[bytes], tokens: Tensor, config: TrainConfig) -> None:
        self.pictures, self.tokens, self.first = pictures, tokens, config.modality.first  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        width, height = SIZE
        picture = Image.open(io.BytesIO(self.pictures[row])).convert("RGB")
        drawn = pillow_views.parameters(self.first.views, height, width, random.Random())
        pixels = torch.from_numpy(np.array(pillow_views.view(picture, drawn, (height, width)))).permute(2, 0, 1)
        mean, std = (torch.tensor(each)[:, None, None] for each in (self.first.mean, self.first.std))
        return (pixels.float() / 255 - mean) / std, self.tokens[row]


def pairs_per_second(config: TrainConfig, folder: Path, rows: Any, loaders: int) -> float:
    """Return pairs per second through training by the plain loop, after a warm-up."""
    device = choose_device()
    source = config.modality.open(config.data, progress=False).take(rows)
    network = new_model(config, source).to(device)
    tokens = torch.as_tensor(network.modality.open(source).samples[np.arange(len(rows))]["text"])
    table = pq.read_table(folder / "products.parquet", columns=["image"])["image"].take(rows)
    pictures = [each["bytes"].as_py() for each in table]
    loader = DataLoader(
        Products(pictures, tokens, config),
        config.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=loaders,
        pin_memory=device.type == "cuda",
        persistent_workers=loaders > 0,
    )
    on_gpu = device.type == "cuda"
    network.train().to(memory_format=torch.channels_last if on_gpu else torch.preserve_format)  # type: ignore[call-overload]
    scale = torch.nn.Parameter(torch.tensor(2.66, device=device))
    optimiser = torch.optim.AdamW([*network.parameters(), scale], config.lr, weight_decay=config.weight_decay)
    start, loss = 0.0, torch.zeros(())
    for step, (images, texts) in enumerate(_endless(loader)):
        if step in (_WARM_UP, _WARM_UP + _STEPS):
            _ = loss.item()  # waits for the device
            if start:
                break
            start = time.perf_counter()
        views = {"image": images.to(device, non_blocking=True), "text": {"tokens": texts.to(device)}}
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            a, b = F.normalize(network(views).float(), dim=1).chunk(2)
        logits = scale.exp() * a @ b.T
        own = torch.arange(len(a), device=device)
        loss = (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return _STEPS * config.batch_size / (time.perf_counter() - start)


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def main() -> None:
    parser = settings_parser(__doc__)
    parser.add_argument("--loaders", type=int, default=12, help="loader processes of the plain loop")
    given = parser.parse_args()
    config = config_for(given, "NCL", "0.1", 0, _EPOCHS)
    data = opened(given, config, False)
    line: dict[str, Any] = {"batch_size": config.batch_size, "loaders": given.loaders, "hardware": described()}
    start = time.perf_counter()
    line["plain"] = pairs_per_second(config, given.data, data.task.train, given.loaders)
    line["plain_seconds"] = time.perf_counter() - start
    given.out.write_text(json.dumps(line, indent=1) + "\n")
    source = data.part(data.task.train)
    for path in dict.fromkeys(("off", given.compile)):  # compiling may take longer than there is time
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            run, used = trained(config.replace(compile=path), source, Path(folder) / "run", "speed")
            speed = max(each["views_per_second"] for each in read_log(run)[1:]) / 2
        seconds = time.perf_counter() - start
        line[f"ours, compile {used}"] = {"pairs": speed, "ratio": speed / line["plain"], "seconds": seconds}
        given.out.write_text(json.dumps(line, indent=1) + "\n")
    print(json.dumps(line, indent=1))


if __name__ == "__main__":
    main()
