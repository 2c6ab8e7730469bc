"""The memory that a run takes is known, printed and compared with the machine's before anything is written."""

import numpy as np
import pytest
from torch import nn

from nonneg.errors import InputError
from nonneg.modalities import Source
from nonneg.modalities.images import open_source
from nonneg.training import load_recipe, new_model, train
from nonneg.training._step import step_bytes

CONFIG = load_recipe("digits").replace(epochs=1, warmup_epochs=0, accelerator="cpu", batch_size=100)


def huge(count):
    """Large images that take no memory."""
    return Source("huge", np.broadcast_to(np.zeros((1, 512, 512, 1), np.uint8), (count, 512, 512, 1)))


def test_a_run_that_takes_more_memory_than_there_is_is_an_error_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match=r"about 1\.1 GB for data and [\d,.]+ GB for a step.*batch_size"):
        train(CONFIG.replace(batch_size=4096), tmp_path / "run", source=huge(4096), progress=False)
    assert not (tmp_path / "run").exists()


def test_samples_that_stay_on_disk_count_by_the_batches_read_ahead(tmp_path):
    with pytest.raises(InputError, match=r"about 2\.1 GB for data"):
        train(CONFIG.replace(batch_size=2048, data_on="disk"), tmp_path / "run", source=huge(2048), progress=False)


def test_an_estimate_counts_weights_and_what_is_kept_for_the_gradient():
    source = open_source("digits")
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 10**5), nn.ReLU(), nn.Linear(10**5, 8))
    config = CONFIG.replace(encoder="own", accumulate=2)
    weights, activations = 4 * 4 * (64 + 1 + 8) * 10**5, 4 * 100 * 10**5  # 50 samples, two views
    kept = activations + 4 * 8 * 10**5  # the gradient needs the second weight as well
    assert step_bytes(new_model(config, source, encoder), source, config, 1) == pytest.approx(weights + kept, rel=0.01)
    assert step_bytes(new_model(config, source, encoder), source, config, 2) < weights + kept - activations / 3


def test_a_module_that_needs_numbers_counts_by_its_weights():
    class Deciding(nn.Flatten):
        def forward(self, images):
            return super().forward(images if float(images.mean()) > 0 else -images)

    source, config = open_source("digits"), CONFIG.replace(encoder="own")
    network = new_model(config, source, Deciding())
    assert step_bytes(network, source, config, 1) == 16 * sum(p.numel() for p in network.parameters())


def test_an_estimate_of_texts_grows_with_the_batch():
    pytest.importorskip("tokenizers")
    config = load_recipe("text").replace(data="intents", batch_size=64)
    network = new_model(config, config.modality.open("intents"))
    source = network.modality.open(config.modality.open("intents"))
    few, many = (step_bytes(network, source, config.replace(batch_size=size), 1) for size in (64, 512))
    assert many > 1.5 * few
