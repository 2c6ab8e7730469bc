"""Training with the caller's own encoder, dataset and transform."""

import dataclasses
import random

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import nonneg
from nonneg.errors import InputError, StoppedError
from nonneg.modalities import Source
from nonneg.modalities.images import open_source
from nonneg.modalities.own import Own, as_input, source_of
from nonneg.training import load_recipe, read_log, train

CONFIG = dataclasses.replace(load_recipe("digits"), epochs=2, warmup_epochs=1, accelerator="cpu", batch_size=100)
HERE = dataclasses.replace(CONFIG, modality=Own(workers=0))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU())

    def forward(self, images):
        return self.layers(images)


class Digits(torch.utils.data.Dataset):
    """Images with labels, as torchvision's datasets give them."""

    def __init__(self, count=300):
        source = open_source("digits")
        self.images, self.targets = source.samples[:count, ..., 0], source.labels[:count].tolist()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        return Image.fromarray(self.images[row]), self.targets[row]


def noisy(image):
    """A transform that uses the three global random number generators."""
    pixels = torch.from_numpy(np.array(image)).float()[None] / 255
    return pixels + 0.1 * torch.randn(1, 8, 8) + 0.1 * random.random() + 0.1 * np.random.rand()  # noqa: NPY002


def shifted(image):
    return image + 0.1 * torch.randn(1)


def weights(run, encoder):
    return nonneg.load(run, encoder=encoder).state_dict()


def same(a, b):
    return all(torch.equal(tensor, b[name]) for name, tensor in a.items())


def test_any_module_can_be_the_encoder_of_a_run_that_is_loaded_again(tmp_path):
    encoder = Network()
    before = encoder.layers[1].weight.detach().clone()
    run = train(CONFIG, tmp_path / "run", encoder=encoder, progress=False)
    assert not torch.equal(encoder.layers[1].weight, before)
    model = nonneg.load(run, encoder=Network())
    assert model.encoder_width == 40
    assert torch.equal(model.encoder.layers[1].weight, encoder.layers[1].weight)
    assert model.embed(open_source("digits", "test")).shape == (397, 128)


def test_a_map_style_dataset_and_a_transform_train_in_loader_processes(tmp_path):
    torch.manual_seed(0)
    config = dataclasses.replace(CONFIG, modality=Own(workers=2))
    run = train(config, tmp_path / "run", source=Digits(), encoder=Network(), views=noisy, progress=False)
    log = read_log(run)
    assert log[1]["loss"] < log[0]["loss"]
    assert "probe" in log[0]  # the labels were found


def test_views_do_not_depend_on_the_number_of_loader_processes(tmp_path):
    class RandomDigits(Digits):
        """Its own transform draws random numbers."""

        def __getitem__(self, row):
            return noisy(self.images[row]), self.targets[row]

    found = []
    for workers in (0, 2):
        torch.manual_seed(0)
        config = dataclasses.replace(CONFIG, epochs=1, modality=Own(workers=workers))
        dataset = RandomDigits()
        run = train(config, tmp_path / str(workers), source=dataset, encoder=Network(), views=shifted, progress=False)
        found.append(weights(run, Network()))
    assert same(*found)


def test_a_stopped_run_with_an_own_encoder_and_transform_resumes_exactly(tmp_path):
    class Stopping(Digits):
        """Sends a signal in the middle of the second epoch."""

        reads = 0

        def __getitem__(self, row):
            Stopping.reads += 1
            if Stopping.reads == 520:
                import os
                import signal

                os.kill(os.getpid(), signal.SIGTERM)
            return super().__getitem__(row)

    def encoder():
        return nn.Sequential(Network(), nn.Dropout(0.5))

    def run(name, dataset):
        torch.manual_seed(0)
        return train(HERE, tmp_path / name, source=dataset, encoder=encoder(), views=noisy, progress=False)

    whole = weights(run("whole", Digits()), encoder())
    with pytest.raises(StoppedError):
        run("stopped", Stopping())
    resumed = weights(run("stopped", Digits()), encoder())
    assert same(whole, resumed)


def test_an_encoder_may_hold_a_mask_of_infinite_numbers(tmp_path):
    class Masked(Network):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
            self.register_buffer("empty", torch.empty(0))

    config = dataclasses.replace(HERE, epochs=1)
    run = train(config, tmp_path / "run", source=Digits(), encoder=Masked(), views=noisy, progress=False)
    assert read_log(run)[0]["loss"] > 0


def test_a_transform_may_work_in_place():
    def brighter_in_place(image):
        return image.add_(torch.rand(()))

    images = torch.zeros(3, 4)
    source = source_of(torch.utils.data.TensorDataset(images), brighter_in_place)
    (batch,) = Own(workers=0).load_views(source, torch.arange(3)[None], 0, 0, 2)
    first, second = batch.unbind(1)
    assert not torch.equal(first, second) and not images.any()


def test_an_encoder_needs_no_parameters(tmp_path):
    run = train(HERE, tmp_path / "run", source=Digits(), encoder=nn.Flatten(), views=noisy, progress=False)
    assert nonneg.load(run, encoder=nn.Flatten()).encoder_width == 64


def test_samples_of_different_sizes_need_preprocessing(tmp_path):
    images = [torch.zeros(1, 8, 8 + row % 2) for row in range(200)]
    with pytest.raises(InputError, match="preprocess"):
        train(HERE, tmp_path / "run", source=images, encoder=nn.Flatten(), views=noisy, progress=False)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_array_of_images_is_a_source(reverse, tmp_path):
    images = open_source("digits").samples[:200][:: -1 if reverse else 1]
    run = train(CONFIG, tmp_path / "run", source=images, progress=False)
    assert load_recipe(str(run / "config.toml")).data == "array/train"


def test_embedding_an_own_source_uses_its_preprocessing(tmp_path):
    run = train(HERE, tmp_path / "run", source=Digits(), encoder=Network(), views=noisy, progress=False)
    model = nonneg.load(run, encoder=Network())
    features, inverted = (
        model.embed(Digits(50)),
        model.embed(source_of(Digits(50), preprocess=lambda image: 1 - as_input(image))),
    )
    assert features.shape == (50, 128) and features.labels.tolist() == Digits(50).targets
    assert abs(features.codes - inverted.codes).max() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"views": noisy}, "views.*source"),
        ({"preprocess": noisy}, "preprocess.*views"),
        ({"source": 3, "views": noisy}, "source .*int"),
        ({"source": open_source("digits"), "views": noisy}, "views .*Source 'digits"),
        ({"encoder": nn.Conv2d(1, 2, 3)}, "encoder Conv2d"),
        ({"encoder": nn.Linear(65, 3)}, r"encoder Linear .*\(2, 1, 8, 8\)"),
        ({"encoder": "resnet18"}, "encoder is a str"),
        ({"encoder": nn.Flatten}, "encoder is a type"),
        ({"source": Digits(), "views": "crop"}, "views is a str"),
        ({"source": Digits(), "views": noisy, "preprocess": 3}, "preprocess is a int"),
        ({"loggers": None}, "loggers is None"),
        ({"config": "digits"}, "config is a str"),
        ({"config": None}, "config is None"),
        ({"out": None}, "out is None"),
    ],
)
def test_errors_name_the_argument_and_nothing_is_written(arguments, message, tmp_path):
    with pytest.raises(InputError, match=message):
        train(**{"config": CONFIG, "out": tmp_path / "run", "progress": False, **arguments})
    assert not (tmp_path / "run").exists()


def test_a_dataset_without_a_transform_is_an_error_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="views is missing"):
        train(HERE, tmp_path / "run", source=Digits(), encoder=Network(), progress=False)
    assert not (tmp_path / "run").exists()


def test_a_config_with_an_own_encoder_needs_a_module(tmp_path):
    with pytest.raises(InputError, match="encoder is 'own'"):
        train(dataclasses.replace(CONFIG, encoder="own"), tmp_path / "run", progress=False)


def test_a_path_is_an_error_for_a_modality_that_reads_no_files(tmp_path):
    with pytest.raises(InputError, match="data is 'digits'"):
        train(HERE, tmp_path / "run", encoder=Network(), progress=False)


class Drawn(torch.utils.data.Dataset):
    """Samples that are made when they are read; they may be random."""

    def __init__(self, sample, count=40):
        self.sample, self.count = sample, count

    def __len__(self):
        return self.count

    def __getitem__(self, row):
        return self.sample(row)


class Picked(nn.Module):
    """A linear layer on one part of its input."""

    def __init__(self, part):
        super().__init__()
        self.part, self.linear = part, nn.Linear(4, 16)

    def forward(self, inputs):
        return self.linear(inputs[self.part])


SMALL = dataclasses.replace(HERE, batch_size=20, epochs=1, warmup_epochs=0)


@pytest.mark.parametrize(
    ("sample", "views", "encoder"),
    [
        (lambda row: torch.randint(0, 50, (6,)), lambda tokens: tokens, lambda: nn.EmbeddingBag(50, 16)),
        (lambda row: np.random.rand(4), lambda numbers: numbers + 0.1, lambda: nn.Linear(4, 16)),  # noqa: NPY002
        (lambda row: {"a": torch.rand(4)}, lambda item: {"a": item["a"] + torch.randn(4)}, lambda: Picked("a")),
        (lambda row: ((torch.rand(4), torch.rand(2)), 3), lambda item: (item[0] + 0.1, item[1]), lambda: Picked(0)),
    ],
    ids=["integers", "float64", "dictionaries", "tuples"],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_samples_of_any_structure_train_and_embed(sample, views, encoder, workers, tmp_path):
    config, dataset = SMALL.replace(workers=workers), Drawn(sample)
    run = train(config, tmp_path / "run", source=dataset, views=views, encoder=encoder(), progress=False)
    model = nonneg.load(run, encoder=encoder())
    features = model.embed(dataset)
    assert features.shape == (40, 128)
    again = model.embed(dataset)  # random samples are drawn alike each time
    assert abs(features.codes - again.codes).max() == 0


def test_a_selection_of_a_dataset_trains(tmp_path):
    source = source_of(Digits(), noisy).take(range(100, 250)).take(range(120))
    assert len(read_log(train(HERE, tmp_path / "run", source=source, encoder=Network(), progress=False))) == 2


@pytest.mark.parametrize(
    ("source", "views", "message"),
    [
        (Drawn(lambda row: "words"), noisy, "preprocess .*a str"),
        (Drawn(lambda row: torch.rand(4)), lambda sample: None, "views .*a NoneType"),
        (Drawn(lambda row: torch.rand(4)), lambda sample: torch.rand(random.randint(2, 9)), "views .*joined"),
        (Source("rows", np.zeros((40, 4), np.float32)), None, "views is missing"),
    ],
    ids=["words", "nothing", "lengths", "array"],
)
def test_what_cannot_be_a_batch_is_an_error_that_names_its_maker(source, views, message, tmp_path):
    with pytest.raises(InputError, match=message):
        train(SMALL, tmp_path / "run", source=source, views=views, encoder=nn.Linear(4, 16), progress=False)


def test_an_unknown_field_is_an_error_that_names_it():
    with pytest.raises(InputError, match="epoch is not a field"):
        CONFIG.replace(epoch=3)
