"""What a CUDA graph needs: in every step the same operations on the same shapes, and no wait for the device."""

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from nonneg import losses
from nonneg.modalities import Modality
from nonneg.modalities.graphs import Graphs, Nodes, ViewConfig
from nonneg.models import Model
from nonneg.training import load_recipe


class Recorder(TorchDispatchMode):
    """Lists operations with the shapes of their results, and rejects those that read a value from the device."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        parts = pytree.tree_leaves((args, kwargs))
        by_mask = any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)
        waits = torch.Tag.data_dependent_output in func.tags
        waits |= torch.Tag.dynamic_output_shape in func.tags and ("index" not in str(func) or by_mask)
        assert not waits, f"{func} waits for the device"
        result = func(*args, **(kwargs or {}))
        shapes = [tuple(part.shape) for part in (result,) if isinstance(part, torch.Tensor)]
        self.operations.append((str(func), shapes))
        return result


def step(modality, model, source, epoch):
    rows = torch.arange(len(source))[torch.randperm(len(source), generator=torch.Generator().manual_seed(epoch))]
    batch = {"nodes": rows, "graph": source.samples.graph}
    inputs = modality.draw_views(batch, rows, 0, torch.tensor(epoch), 2, torch.float32)
    _, dense, z = model.forward_all(inputs)
    loss = losses.info_nce(*z.chunk(2), 0.4, chunk_rows=50) + losses.info_nce(*dense.chunk(2), 0.4, chunk_rows=50)
    loss.backward()


def operations(*step_of):
    with Recorder() as recorder:
        step(*step_of)
    return recorder.operations


@pytest.mark.parametrize("weighting", ["uniform", "degree", "page_rank"])
@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_a_step_does_the_same_in_every_epoch_and_never_waits(dense, weighting, graph_file, communities):
    views = ViewConfig((0.2, 0.4), (0.3, 0.4), weighting, (0.1, 0.0))
    modality = Nodes(width=16, views=views, batch_norm=True)
    source = modality.open(graph_file(**({"attr_matrix": 1 + communities[1].toarray()} if dense else {})))
    modality = modality.fitted(source)
    recipe = load_recipe("graph").replace(features=16, projector_width=16)
    model = Model(recipe.model(modality, 0)).train()
    step(modality, model, source, 0)  # what is computed once is computed now
    later = operations(modality, model, source, 1)
    assert operations(modality, model, source, 2) == later


def test_only_steps_of_fixed_shapes_are_recorded():
    assert Nodes().step_paths("gcn") == ("record", "off")
    assert Nodes().step_paths("gin") == Nodes(neighbours=5).step_paths("gcn") == Graphs().step_paths("gcn") == ("off",)
    assert Modality().step_paths("own")[0] == "graph"
