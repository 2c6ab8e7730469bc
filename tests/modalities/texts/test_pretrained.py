"""Encoders of transformers and sentence-transformers: trained or frozen, saved whole, without running their code."""

import importlib.util
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import nonneg
from nonneg.codes import dense
from nonneg.errors import InputError, StoppedError
from nonneg.modalities.pairs import Pairs
from nonneg.modalities.texts import Texts, ViewConfig, fit_tokenizer
from nonneg.training import TrainConfig, load_recipe, train

pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
spec = importlib.util.spec_from_file_location("two_processes_texts", Path(__file__).parent / "two_processes.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
TEXTS = script.TEXTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny BERT with a tokenizer, as transformers saves it."""
    place = tmp_path_factory.mktemp("bert")
    tokenizer = fit_tokenizer(TEXTS, 300, lowercase=True, with_cls=True)
    reader = transformers.PreTrainedTokenizerFast(tokenizer_file=written(place / "fitted.json", tokenizer.content))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    settings = transformers.BertConfig(vocab_size=320, max_position_embeddings=32, **sizes)
    transformers.BertModel(settings).save_pretrained(place)
    reader.save_pretrained(place)
    return place


def written(path, content):
    path.write_text(content)
    return str(path)


def config(place, **changes):
    modality = Texts(length=16, views=ViewConfig(delete=0.3), **changes)
    return TrainConfig(
        encoder=f"transformers:{place}",
        modality=modality,
        epochs=2,
        warmup_epochs=0,
        batch_size=32,
        features=24,
        projector_width=24,
        accelerator="cpu",
    )


def reference(place, text, pooling="mean"):
    """One text's vector as transformers itself computes it."""
    model, reader = (
        kind.from_pretrained(place) for kind in (transformers.AutoModel, transformers.PreTrainedTokenizerFast)
    )
    with torch.no_grad():
        hidden = model.eval()(**reader(text, return_tensors="pt", return_token_type_ids=False)).last_hidden_state[0]
    return {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.amax(0)}[pooling].numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_frozen_encoder_keeps_its_vectors_and_only_the_projector_is_trained(folder, tmp_path, pooling):
    run = train(config(folder, frozen=True, pooling=pooling), tmp_path / "run", source=TEXTS, progress=False)
    model = nonneg.load(run)
    vectors = model.embed(TEXTS[:3], "encoder").codes
    for text, vector in zip(TEXTS, vectors, strict=False):
        np.testing.assert_allclose(vector, reference(folder, text, pooling), atol=1e-5)
    start = torch.manual_seed(0) and nonneg.models.Model(model.config).projector
    assert not torch.equal(model.projector[0].weight, start[0].weight)


def test_a_trained_encoder_is_saved_with_its_tokenizer(folder, tmp_path):
    run = train(config(folder), tmp_path / "run", source=TEXTS, progress=False)
    model = nonneg.load(run)
    assert not np.allclose(model.embed(TEXTS[:1], "encoder").codes[0], reference(folder, TEXTS[0]), atol=1e-3)
    content = json.loads((run / "model" / "config.json").read_text())
    assert "tokenizer" in content["backbone"] and "auto_map" not in content["backbone"]["config"]


def test_adapters_are_trained_alone_and_merged_into_the_saved_encoder(folder, tmp_path):
    pytest.importorskip("peft")
    run = train(config(folder, adapters=4).replace(lr=0.01), tmp_path / "run", source=TEXTS, progress=False)
    model = nonneg.load(run)
    before = transformers.AutoModel.from_pretrained(folder).state_dict()
    after = model.encoder.backbone.state_dict()
    assert not any("lora" in name for name in after)
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert changed and all(name.endswith("weight") and "Norm" not in name for name in changed)
    assert not any("embeddings" in name for name in changed)
    ranks = [int(torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-3)) for name in changed]
    assert max(ranks) <= 4
    codes = model.embed(TEXTS[:4]).codes
    assert np.isfinite(codes if isinstance(codes, np.ndarray) else codes.toarray()).all()


def test_a_stopped_run_with_adapters_resumes_to_the_same_weights(folder, tmp_path):
    pytest.importorskip("peft")
    settings = config(folder, adapters=2).replace(checkpoint_steps=2)
    whole = train(settings, tmp_path / "whole", source=TEXTS, progress=False)
    hook = register_optimizer_step_post_hook(lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    try:
        with pytest.raises(StoppedError):
            train(settings, tmp_path / "run", source=TEXTS, progress=False)
    finally:
        hook.remove()
    train(settings, tmp_path / "run", source=TEXTS, progress=False)
    one, two = (nonneg.load(run).state_dict() for run in (whole, tmp_path / "run"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_gradient_caching_draws_the_same_dropout_in_both_passes(folder, tmp_path):
    """The first update is the same as in one part, where that part is the whole batch."""
    plain, cached = (
        train(config(folder).replace(encode_rows=rows, epochs=1), tmp_path / str(rows), source=TEXTS, progress=False)
        for rows in (0, 32)
    )
    ends = [nonneg.load(run).state_dict() for run in (plain, cached)]
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], atol=1e-4, rtol=1e-3)


def test_a_folder_of_sentence_transformers_decides_the_pooling(folder, tmp_path, capsys):
    place = tmp_path / "sentences"
    (place / "1_Pooling").mkdir(parents=True)
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    for file in folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    run = train(config(place, frozen=True, pooling="cls"), tmp_path / "run", source=TEXTS)
    assert "pooling is max" in capsys.readouterr().err
    assert load_recipe(str(run / "config.toml")).modality.pooling == "max"
    vector = nonneg.load(run).embed(TEXTS[:1], "encoder").codes[0]
    np.testing.assert_allclose(vector, reference(folder, TEXTS[0], "max"), atol=1e-5)
    _, remarks = Pairs(second=Texts(depth=5)).for_encoder(f"resnet18+transformers:{place}")
    assert [remark.split()[0] for remark in remarks] == ["second.pooling", "second.depth"]
    modules.insert(2, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (place / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="Dense"):
        train(config(place), tmp_path / "other", source=TEXTS, progress=False)


def test_settings_that_only_the_encoder_transformer_has_are_named_for_another(folder, tmp_path, capsys):
    unused = {"vocabulary": 300, "lowercase": False, "width": 96, "heads": 3, "depth": 5, "dropout": 0.5}
    train(config(folder, **unused).replace(epochs=1), tmp_path / "run", source=TEXTS)
    printed = capsys.readouterr().err
    assert all(f"{name} is not used by this encoder" in printed for name in unused)
    assert Texts(**unused).for_encoder("transformer") == (Texts(**unused), ())
    assert Texts().for_encoder(f"transformers:{folder}") == (Texts(), ())


def copied(folder, place):
    place.mkdir()
    for file in folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


@pytest.mark.parametrize("kind", ["evil", "bert"])
def test_a_model_folder_with_code_is_refused_and_its_code_never_run(folder, tmp_path, kind):
    place, ran = copied(folder, tmp_path / "theirs"), tmp_path / "ran"
    (place / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nEvil = None\n")
    settings = json.loads((place / "config.json").read_text())
    code = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    (place / "config.json").write_text(json.dumps({**settings, "auto_map": code, "model_type": kind}))
    with pytest.raises(InputError, match="code of its own, which is never run"):
        train(config(place), tmp_path / "run", source=TEXTS, progress=False)
    assert not ran.exists() and not (tmp_path / "run").exists()


def test_a_tokenizer_with_code_of_its_own_is_refused(folder, tmp_path):
    place = copied(folder, tmp_path / "theirs")
    settings = json.loads((place / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="code of its own, which is never run"):
        train(config(place), tmp_path / "run", source=TEXTS, progress=False)


def test_a_tokenizer_that_needs_a_token_it_lacks_is_an_error(folder, tmp_path):
    place = copied(folder, tmp_path / "theirs")
    content = json.loads((place / "tokenizer.json").read_text())
    content["model"] = {"type": "WordPiece", "vocab": {"card": 0}, "unk_token": "[UNK]", "max_input_chars_per_word": 9}
    content["model"]["continuing_subword_prefix"] = "##"
    content |= {"added_tokens": [], "post_processor": None, "pre_tokenizer": {"type": "Whitespace"}}
    (place / "tokenizer.json").write_text(json.dumps(content))
    (place / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    with pytest.raises(InputError, match=r"tokenizer cannot be read.*\[UNK\]"):
        train(config(place), tmp_path / "run", source=["card " * 8] * 40 + TEXTS, progress=False)


def test_a_model_folder_without_its_tokenizer_is_an_error(folder, tmp_path):
    place = copied(folder, tmp_path / "without")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (place / name).unlink()
    with pytest.raises(InputError, match="tokenizer is missing"):
        train(config(place), tmp_path / "run", source=TEXTS, progress=False)


def test_weights_that_lack_a_layer_are_an_error(folder, tmp_path):
    place = copied(folder, tmp_path / "shallow")
    settings = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 2}))
    with pytest.raises(InputError, match=r"weights lack 16 .*bert, such as encoder\.layer\.1"):
        train(config(place), tmp_path / "run", source=TEXTS, progress=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"vocab_size": 40}, "vocab|tokens|size"), ({"model_type": "t5"}, "t5|encoder")],
)
def test_a_model_that_does_not_fit_is_an_error(folder, tmp_path, change, message):
    place = tmp_path / "other"
    place.mkdir()
    settings = transformers.BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    transformers.BertModel(settings).save_pretrained(place)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (place / name).write_bytes((folder / name).read_bytes())
    content = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(InputError, match=message):
        train(config(place), tmp_path / "run", source=TEXTS, progress=False)


def test_a_length_beyond_the_models_positions_and_a_frozen_new_encoder_are_errors(folder, tmp_path):
    with pytest.raises(InputError, match="length is 64"):
        train(config(folder).replace(length=64), tmp_path / "run", source=TEXTS, progress=False)
    with pytest.raises(InputError, match="frozen is true"):
        TrainConfig(encoder="transformer", modality=Texts(frozen=True))
    with pytest.raises(InputError, match="adapters is 4"):
        TrainConfig(encoder="transformer", modality=Texts(adapters=4))
    with pytest.raises(InputError, match="frozen is true with adapters 4"):
        Texts(frozen=True, adapters=4)


# The other way


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "mean"},
        {"pooling": "cls", "standardise": True},
        {"pooling": "max", "projector_batch_norm": True, "rectify": "softplus"},
        {"pooling": "mean", "projector_depth": 1, "rectify": "none"},
    ],
    ids=lambda change: change["pooling"],
)
def test_sentence_transformers_loads_the_run_and_gives_the_same_codes(tmp_path, change):
    library = pytest.importorskip("sentence_transformers")
    settings = script.config().replace(precision="32-true", length=12, epochs=10, **change)
    run = train(settings, tmp_path / "run", source=TEXTS, progress=False)
    texts = [*TEXTS, "Ünïcode 日本 🦊", "word " * 40, "[MASK] my [CLS] card [PAD]"]
    ours = dense(nonneg.load(run).embed(texts).codes)
    theirs = library.SentenceTransformer(str(run / "model"), device="cpu").encode(texts, show_progress_bar=False)
    assert np.abs(ours).max() > 0.1
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def test_sentence_transformers_loads_a_run_of_another_encoder(folder, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    run = train(config(folder), tmp_path / "run", source=TEXTS, progress=False)
    texts = [*TEXTS, "[MASK] my [CLS] card [PAD]"]
    ours = dense(nonneg.load(run).embed(texts).codes)
    theirs = library.SentenceTransformer(str(run / "model"), device="cpu").encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def test_an_exported_model_lacks_no_weights(folder, tmp_path):
    run = train(config(folder), tmp_path / "run", source=TEXTS, progress=False)
    place = run / "model" / "sentence" / "0_Transformer"
    _, found = transformers.AutoModel.from_pretrained(place, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
