"""Saving a model to disk and loading it from disk or the hub: a config, weights and a card, without pickle."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from nonneg.durable import (
    TEMPORARY_PREFIX,
    os_errors_as_input_errors,
    read_errors_as_input_errors,
    read_object,
    sealed,
    unsealed,
    write_atomically,
)
from nonneg.errors import InputError
from nonneg.extras import import_extra
from nonneg.messages import one_line
from nonneg.modalities import Modality
from nonneg.models._card import LIBRARY, model_card
from nonneg.models._config import OWN_ENCODER, ModelConfig, from_json, to_json
from nonneg.models._model import Model
from nonneg.runs import check_finished
from nonneg.validation import check_type

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_HUB = re.compile(r"hub:([\w.-]+/[\w.-]+)(?:@(.+))?")
_LARGEST_TABLES = 2**30  # bytes of the tables that a network computes when it is built


def save(model: Model, folder: Path) -> None:
    """Write the model; each file is written completely or not at all."""
    further = model.modality.files(model.encoder, model.projector)
    with os_errors_as_input_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in folder.iterdir() if not path.name.startswith(TEMPORARY_PREFIX)}
        foreign = there - {CONFIG, WEIGHTS, CARD, *(Path(name).parts[0] for name in further)}
        if CARD in there and LIBRARY not in (folder / CARD).read_text("utf-8", "replace"):
            foreign.add(CARD)
    if foreign:
        raise InputError(f"{folder} holds other files ({min(foreign)}), expected a new folder or a model's folder")
    weights = save_tensors(_separate(model.state_dict()))
    content = json.loads(json.dumps(to_json(model.config, model.backbone)))  # as it will be read back
    described = sealed({**content, "sha256": hashlib.sha256(weights).hexdigest()})
    write_atomically(folder / WEIGHTS, weights)
    for name, file in further.items():
        with os_errors_as_input_errors(folder / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, file)
    write_atomically(folder / CARD, model_card(model.config).encode())
    write_atomically(folder / CONFIG, json.dumps(described, indent=1).encode())  # last: it completes the model


def _separate(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous tensors that share no memory with each other, as safetensors requires."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in state.items():
        own = tensor.detach().contiguous()
        separate[name] = own.clone() if own.untyped_storage().data_ptr() in seen else own
        seen.add(separate[name].untyped_storage().data_ptr())
    return separate


def load(path: str | Path, *, encoder: nn.Module | None = None, modality: type[Modality] = Modality) -> Model:
    """Load a trained model, ready to `embed`.

    Args:
        path: a run (`runs/x`), a model's folder (`runs/x/model`), or a model on the Hugging Face Hub,
            `hub:owner/name` or `hub:owner/name@revision`.
        encoder: a module like the one passed to `train`, for a run with an own encoder; its weights are replaced by
            the trained ones.
        modality: the class of the run's modality, if it is not registered.
    """
    content, weights = _described(path)
    if str(content.get("nonneg")).startswith("NonNegative"):
        found = f"{path} is a run of nonneg convert, expected one of nonneg train"
        raise InputError(f"{found}; to encode new vectors use {content['nonneg']}.from_pretrained")
    try:
        config, backbone = from_json(content, modality)
    except InputError as error:
        raise InputError(f"{weights.with_name(CONFIG)} does not describe a nonneg model: {error}") from error
    if config.encoder == OWN_ENCODER and encoder is None:
        raise InputError(f"encoder is missing: {path} was trained with an own encoder, expected such a module")
    try:
        with read_errors_as_input_errors(weights):
            tensors = load_file(weights)
        model = _restored(config, encoder, backbone, tensors).eval()
        _check_weights(weights, content)
        return model
    except InputError as error:
        raise InputError(f"{path} cannot be loaded: {error}") from error
    except (SafetensorError, RuntimeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{weights} does not fit its {CONFIG}: {one_line(error)}") from error


def verify(path: str | Path) -> str:
    """Check a model's weights and config against the hashes in its config, and return its modality and encoder."""
    content, weights = _described(path)
    _check_weights(weights, content)
    return f"{content.get('modality', {}).get('name')}, encoder {content.get('encoder')}"


def weights_digest(path: str | Path) -> str | None:
    """Return the SHA-256 of a model's weights as its config states it: features name their model by it."""
    return _described(path)[0].get("sha256")


def _described(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The content of a model's config, and the path of its weights."""
    check_type("path", path, str | Path, "the folder of a run or model, or hub:owner/name")
    folder = fetched(path) if isinstance(path, str) and path.startswith("hub:") else Path(path)
    with read_errors_as_input_errors(folder):
        folder = folder / "model" if (folder / "model").is_dir() else folder
        for part in (folder / CONFIG, folder / WEIGHTS):
            if not part.is_file():
                check_finished(Path(path))
                raise InputError(f"{path} holds no trained model: {part} is missing")
    try:
        return read_object(folder / CONFIG), folder / WEIGHTS
    except InputError as error:
        raise InputError(f"{folder / CONFIG} does not describe a nonneg model: {error}") from error


def _check_weights(weights: Path, content: dict[str, Any]) -> None:
    with read_errors_as_input_errors(weights), weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != content.get("sha256"):
        raise InputError(f"{weights} is damaged: it was changed after it was saved (SHA-256 differs)")
    unsealed(content, weights.with_name(CONFIG))  # last: a value that cannot be right has a sentence of its own


def _restored(
    config: ModelConfig, encoder: nn.Module | None, backbone: dict[str, Any], tensors: dict[str, Tensor]
) -> Model:
    # The meta device takes no memory, whatever sizes the file claims.
    with torch.device("meta"), _at_most_parameters(4 * len(tensors) + 1000):
        model = Model(config, encoder, backbone)
    expected = model.state_dict()
    if expected.keys() != tensors.keys():
        raise RuntimeError(f"it lacks or adds {min(expected.keys() ^ tensors.keys())}")
    tensors = {name: _as_expected(name, tensor, expected[name]) for name, tensor in tensors.items()}
    model.load_state_dict(tensors, assign=True)
    unsaved = [tensor for tensor in chain(model.parameters(), model.buffers()) if tensor.is_meta]
    if unsaved:
        # Tables that are computed and not saved, such as the positions of a Swin. All saved sizes are checked by now.
        if sum(tensor.nbytes for tensor in unsaved) > _LARGEST_TABLES:
            raise RuntimeError("its network computes tables of more than 1 GiB")
        model = Model(config, encoder, backbone)
        model.load_state_dict(tensors, assign=True)
    return model


def _as_expected(name: str, tensor: Tensor, ours: Tensor) -> Tensor:
    """Check a tensor's shape and type, before it is used, and convert its precision."""
    is_label = name.endswith("_extra_state")  # a few characters of any length
    if tensor.shape != ours.shape and not is_label:
        raise RuntimeError(f"size mismatch for {name}: {tuple(tensor.shape)}, expected {tuple(ours.shape)}")
    if tensor.is_floating_point() and (ours.is_floating_point() or name.endswith(".batches")):
        return tensor.to(ours.dtype)  # the number of batches was once saved as a float
    if tensor.dtype != ours.dtype or (is_label and (tensor.ndim != 1 or len(tensor) > 64)):
        raise RuntimeError(f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, expected {ours.dtype}")
    return tensor


@contextmanager
def _at_most_parameters(limit: int) -> Iterator[None]:
    """Stop building a network if the config asks for many more layers than there are weights."""
    thread, count = threading.get_ident(), 0

    def counted(module: nn.Module, name: str, parameter: Any) -> None:
        nonlocal count
        if threading.get_ident() == thread:
            count += 1
            if count > limit:
                raise RuntimeError("it asks for more layers than there are weights")

    hook = register_module_parameter_registration_hook(counted)
    try:
        yield
    finally:
        hook.remove()


def fetched(path: str, files: Sequence[str] = (CONFIG, WEIGHTS), *, local_only: bool = False) -> Path:
    """Download these files of a model from the hub, unless there is a local copy, and return their folder.

    With `local_only`, nothing is downloaded or asked for: without a local copy, that is an error.
    """
    named = _HUB.fullmatch(path)
    if named is None:
        raise InputError(f"{path!r} names no model, expected hub:owner/name or hub:owner/name@revision")
    hub = import_extra("huggingface_hub", path, extra="hub")
    try:
        offline = {"local_files_only": True} if local_only else {}
        found = hub.snapshot_download(named[1], revision=named[2], allow_patterns=list(files), **offline)
    except Exception as error:  # HTTP, the cache and names each have their own family of errors
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & {"RepositoryNotFoundError", "RevisionNotFoundError"}:
            reason = "there is no such model or revision on the Hugging Face Hub, or it is not public"
        elif local_only:
            reason = "there is no copy on this machine"
        elif kinds & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError"}:
            reason = "the Hugging Face Hub cannot be reached, and there is no copy here yet"
        else:
            reason = one_line(error)
        raise InputError(f"{path} cannot be fetched: {reason}") from error
    return Path(found)
