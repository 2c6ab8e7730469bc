"""Encoder → projector → NonNegative: the model, whole, so that training and evaluation cannot differ."""

import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from nonneg.data import Source
from nonneg.durable import read_plainly, said_plainly, write_bytes
from nonneg.errors import InputError
from nonneg.features import Features
from nonneg.models._encoders import encoder
from nonneg.rectify import NonNegative

Layer = Literal["encoder", "projector"]


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to build the network again."""

    encoder: str
    channels: int
    projector_width: int
    features: int
    rectify: str
    """A kind of `NonNegative`, or "none" for plain contrastive learning."""
    top_k: int
    """How many features stay active, for rectify "top_k"; 0 otherwise."""


class Model(nn.Module):
    """A network from images to features.

    Shape: `(batch, channels, height, width)` floats in 0 to 1, to `(batch, features)`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, width = encoder(config.encoder, config.channels)
        self.projector = nn.Sequential(
            nn.Linear(width, config.projector_width),
            nn.ReLU(),
            nn.Linear(config.projector_width, config.features),
        )
        if config.rectify != "none":
            self.projector.append(NonNegative(config.rectify, k=config.top_k or None))

    def forward(self, images: Tensor, layer: Layer = "projector") -> Tensor:
        if layer not in ("encoder", "projector"):
            raise InputError(f"layer is {layer!r}, expected encoder or projector")
        h: Tensor = self.encoder(images)
        return h if layer == "encoder" else self.projector(h)

    @torch.inference_mode()
    def embed(self, source: Source, layer: Layer = "projector", batch_size: int = 1024) -> Features:
        """The features of every sample, batch norm in evaluation mode, thumbnails embedded."""
        if source.images.shape[-1] != self.config.channels:
            found = source.images.shape[-1]
            raise InputError(f"{source.name} has images of {found} channels, the model expects {self.config.channels}")
        was_training = self.training
        device = next(self.parameters()).device
        batches = []
        self.eval()
        try:
            for start in range(0, len(source), batch_size):
                images = torch.from_numpy(source.images[start : start + batch_size]).to(device)
                batches.append(self(images.permute(0, 3, 1, 2).float() / 255, layer).float().cpu())
        finally:
            self.train(was_training)
        codes = torch.cat(batches).numpy()
        # A stored entry costs its column number too: sparse pays off below one half.
        compact = sp.csr_array(codes) if np.count_nonzero(codes) < codes.size / 2 else codes
        return Features(
            compact,
            ids=source.ids,
            labels=source.labels,
            label_names=source.label_names,
            media=[_png(image) for image in source.images],
            provenance={"source": source.name, "layer": layer, "model": asdict(self.config)},
        )

    def save(self, folder: Path) -> None:
        """Write `config.json` and `model.safetensors`."""
        with said_plainly(folder):
            folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        write_bytes(folder / "model.safetensors", save_tensors(tensors))
        write_bytes(folder / "config.json", json.dumps(asdict(self.config), indent=1).encode())


def load(path: str | Path) -> Model:
    """The model of a run (`runs/x`) or of a model folder (`runs/x/model`), ready to `embed`."""
    folder = Path(path)
    with read_plainly(folder):
        folder = folder / "model" if (folder / "model").is_dir() else folder
        described, weights = folder / "config.json", folder / "model.safetensors"
        for part in (described, weights):
            if not part.is_file():
                raise InputError(f"{path} holds no trained model: {part} is missing")
        text, content = described.read_bytes(), weights.read_bytes()
    try:
        config = ModelConfig(**json.loads(text))
        fits = all(type(getattr(config, field.name)) is field.type for field in fields(config))
    except (ValueError, TypeError, RecursionError):
        fits = False
    if not fits:
        expected = ", ".join(field.name for field in fields(ModelConfig))
        raise InputError(f"{described} does not describe a nonneg model, expected the fields {expected}")
    try:
        with torch.device("meta"):  # takes no memory, whatever sizes the file claims
            model = Model(config)
        model.load_state_dict(load_tensors(content), assign=True)
    except (SafetensorError, RuntimeError, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{weights} does not fit its config.json: {reason}") from error
    return model.eval()


def _png(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, "png")
    return buffer.getvalue()
