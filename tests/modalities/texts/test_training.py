"""Texts from training to search and the page: the same guarantees as for images."""

import importlib.util
import json
import os
import signal
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_post_hook

import nonneg
from nonneg.codes import dense
from nonneg.errors import InputError, StoppedError
from nonneg.features import Features
from nonneg.modalities.texts import Texts, fit_tokenizer
from nonneg.models import EmbedOptions, Model, ModelConfig, embed_data
from nonneg.training import load_recipe, read_log, train

pytest.importorskip("tokenizers")
SCRIPT = Path(__file__).parent / "two_processes.py"
spec = importlib.util.spec_from_file_location("two_processes_texts", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
CONFIG, DATA, TEXTS = script.config(), script.DATA, script.TEXTS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on lines of a file with a column of labels."""
    folder = tmp_path_factory.mktemp("texts")
    rows = ["text,kind", *(f"{text},{text.split()[0]}" for text in TEXTS)]
    (folder / "questions.csv").write_text("\n".join(rows) + "\n")
    config = replace(script.config(labels="kind"), data=f"{folder}/questions.csv:text", precision="32-true")
    return train(config, folder / "run", progress=False)


# Tokenizers


def test_a_fitted_tokenizer_is_the_same_for_the_same_texts_and_reads_every_alphabet():
    texts = [*TEXTS, "Grüße an 北京 🦊", "слово за слово"]
    first, second = (fit_tokenizer(texts, 400, lowercase=True, with_cls=False) for _ in range(2))
    assert first.content == second.content and 259 < first.size <= 400
    tokens = first.encode(["日本語", "Card", "card", "[MASK]"], 64)
    rows = [tokens.values[a:b].tolist() for a, b in zip(tokens.starts, tokens.starts[1:], strict=False)]
    assert len(set(rows[0])) > 1 and rows[1] == rows[2]
    assert first.mask not in rows[3]


def test_long_texts_are_cut_and_one_word_of_100000_characters_takes_no_time():
    tokenizer = fit_tokenizer([*TEXTS, "x" * 100_000, "".join(map(chr, range(97, 123))) * 4000], 400, True, False)
    tokens = tokenizer.encode(["card", "y" * 100_000, "card " * 20], 16)
    assert np.diff(tokens.starts).tolist() == [1, 16, 16] and tokens.cut == 2


def test_cls_is_put_before_each_text_where_it_is_pooled():
    source = Texts(pooling="cls", vocabulary=300).fitted(Texts().open(TEXTS))
    source.encoder("transformer")
    opened = source.open(["card", "money card"])
    assert len(set(opened.samples[[0, 1]][:, 0])) == 1


# Runs


def test_the_number_of_cut_texts_is_reported(tmp_path, capsys):
    config = CONFIG.replace(length=5)
    found = train(config, tmp_path / "run", source=TEXTS)
    tokens = fit_tokenizer(TEXTS, 300, lowercase=True, with_cls=False).encode(TEXTS, 64)
    cut = (np.diff(tokens.starts) > 5).sum()
    assert f"{cut} of 96 texts are longer than 5 tokens" in capsys.readouterr().err
    features = nonneg.load(found).embed(TEXTS)
    assert "longer than 5 tokens" in features.provenance["notes"][0]


def test_texts_that_are_left_out_are_reported_and_named_in_the_features(run, tmp_path, capsys):
    (tmp_path / "new.txt").write_text("lost card\n\nstolen phone\n \n")
    (folder,) = embed_data(str(run), str(tmp_path / "new.txt"), tmp_path / "a", EmbedOptions(skip_broken=True))
    assert "2 of 4 texts are left out: row 1 is empty, row 3 is blank" in capsys.readouterr().err
    stored = Features.load(folder).provenance
    assert stored["left_out"] == 2 and stored["left_out_names"] == ["train-000001 (empty)", "train-000003 (blank)"]
    assert "left out" in stored["notes"][-1]


def test_a_run_embeds_texts_as_it_did_before_it_was_saved(run):
    model = nonneg.load(run)
    features = model.embed(f"{run.parent}/questions.csv:text")
    assert features.codes.shape == (96, 24) and features.codes.min() >= 0
    assert features.text(5) == TEXTS[5] and features.label_names == tuple(sorted({t.split()[0] for t in TEXTS}))
    for rows in ([3], [40, 3]):
        alone = model.embed([TEXTS[row] for row in rows]).codes
        np.testing.assert_allclose(dense(alone), dense(features.codes)[rows], atol=1e-6)


def test_other_data_needs_no_labels(run, tmp_path):
    (tmp_path / "new.txt").write_text("lost card\nstolen phone\n")
    features = nonneg.load(run).embed(str(tmp_path / "new.txt"))
    assert features.labels is None and "kind" in features.provenance["notes"][0]


def test_a_file_of_labels_belongs_to_the_training_texts_alone(tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"{text.split()[0]}\n" for text in TEXTS))
    for name, texts in (("train", ["", *TEXTS[1:]]), ("test", TEXTS[::-1]), ("few", TEXTS[:30])):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts) + "\n")
    config = script.config(labels=str(labels), skip_broken=True)
    made = train(replace(config, data=str(tmp_path), batch_size=19), tmp_path / "run", progress=False)
    model = nonneg.load(made)
    model.save(tmp_path / "copy")
    for loaded in (model, nonneg.load(tmp_path / "copy")):
        assert (loaded.embed(str(tmp_path / "train.txt")).labels >= 0).sum() == 95
        for other in ("test", "few"):
            features = loaded.embed(str(tmp_path / f"{other}.txt"))
            assert features.labels is None and "labels.txt" in features.provenance["notes"][0]


def test_the_commands_train_embed_search_and_measure(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ["text,kind", *(f"{text},{text.split()[0]}" for text in TEXTS)]
    Path("reviews.csv").write_text("\n".join(rows) + "\n")
    small = ("--width", "16", "--depth", "1", "--heads", "2", "--epochs", "20")
    small += ("--vocabulary", "300", "--accelerator", "cpu")
    code, _, sentence = command("train", "text", "--data", "reviews.csv:text", "--labels", "kind", *small)
    assert code == 0, sentence
    assert "Chosen for 96 texts on a CPU: batch_size 16" in sentence
    code, _, sentence = command("embed", "runs/text", "reviews.csv:text")
    assert code == 0, sentence
    asked = ("search", "runs/text-reviews-train.features", "--json", "--sample")
    code, found, sentence = command(*asked, TEXTS[5])
    assert code == 0, sentence
    assert json.loads(found)[0]["text"] == TEXTS[5]
    code, _, sentence = command(*asked, "   ")
    assert code == 2 and "blank" in sentence
    code, found, sentence = command("measure", "runs/text", "--parts", "probe", "neighbours", "sepin")
    assert code == 0 and "linear probe" in found and "SEPIN" in found, sentence


def test_bad_input_ends_the_command_with_one_sentence_and_writes_nothing(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("text,n\nfine,1\n ,2\n")
    for data, expected in (("bad.csv:text", "row 1 is blank"), ("bad.csv:words", "words"), ("none.csv:text", "none")):
        code, _, sentence = command("train", "text", "--data", data)
        assert code == 2 and expected in sentence and "Traceback" not in sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv"]


def test_the_page_shows_texts_and_encodes_a_new_one(run):
    Features.save(nonneg.load(run).embed(TEXTS), run.parent / "run.features", overwrite=True)
    page = nonneg.explore(run, block=False, browser=False, announce=lambda line: None)
    try:
        asked = urllib.request.Request(
            f"{page.url}api/sets/0/encode-text",
            json.dumps({"text": TEXTS[7]}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            found = json.load(answer)
        assert found["neighbours"][0]["sample"]["excerpt"] == TEXTS[7]
    finally:
        page.close()


def test_the_page_marks_the_words_that_switch_a_feature_on(run):
    model = nonneg.load(run)
    Features.save(model.embed(TEXTS), run.parent / "run.features", overwrite=True)
    text = TEXTS[7]
    words = text.split()
    codes = dense(model.embed([text, *(" ".join(words[:i] + words[i + 1 :]) for i in range(len(words)))]).codes)
    feature = int(codes[0].argmax())
    page = nonneg.explore(run, block=False, browser=False, announce=lambda line: None)
    try:
        asked = json.dumps({"text": text, "feature": feature}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{page.url}api/sets/0/marks", asked, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
    finally:
        page.close()
    assert found["value"] == pytest.approx(codes[0, feature], abs=1e-5)
    assert [text[word["start"] : word["stop"]] for word in found["words"]] == words
    effects = [word["effect"] for word in found["words"]]
    np.testing.assert_allclose(effects, codes[0, feature] - codes[1:, feature], atol=1e-5)


def test_partners_are_retrieved_and_similarities_compared_with_scores(tmp_path):
    rng = np.random.default_rng(0)
    same = rng.random(96) < 0.5
    titles = [
        text if own else TEXTS[(row * 5 + 3) % 96] for row, (text, own) in enumerate(zip(TEXTS, same, strict=True))
    ]
    rows = [f"{text},{title},{int(own)}" for text, title, own in zip(TEXTS, titles, same, strict=True)]
    (tmp_path / "pairs.csv").write_text("\n".join(["text,title,score", *rows]) + "\n")
    config = replace(script.config(pairs="title", scores="score"), data=f"{tmp_path}/pairs.csv:text")
    run = train(replace(config, precision="32-true"), tmp_path / "run", progress=False)
    found = nonneg.measure(run, parts=["partners"], progress=False)
    for layer in ("encoder", "projector"):
        recall, rank, spearman = (
            found.values("run", (key, layer))[0] for key in ("recall_at_1", "mrr_at_10", "spearman")
        )
        assert 0 < recall <= rank <= 1 and spearman > 0.5
    with pytest.raises(InputError, match="scores is 'x' without pairs"):
        Texts(scores="x")
    (tmp_path / "pairs.csv").write_text("text,title,score\na,b,high\n")
    with pytest.raises(InputError, match="score: some scores are not numbers"):
        config.modality.open(config.data)


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


def test_a_stopped_run_resumes_to_the_same_weights(tmp_path):
    whole = train(CONFIG, tmp_path / "whole", source=DATA, progress=False)
    done = 0

    def count(*_):
        nonlocal done
        done += 1
        if done == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    hook = register_optimizer_step_post_hook(count)
    try:
        with pytest.raises(StoppedError):
            train(CONFIG, tmp_path / "run", source=DATA, progress=False)
    finally:
        hook.remove()
    train(CONFIG, tmp_path / "run", source=DATA, progress=False)
    one, two = weights(whole), weights(tmp_path / "run")
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("rows", [5, 16])
def test_gradient_caching_trains_as_without_it(tmp_path, rows):
    """In parts of which the last one is smaller, and in equal ones; also for groups, whose batches hold more."""
    config = script.RUNS["groups"].replace(standardise=True, share=0.3, first_dense_weight=0.5)
    ends = [
        weights(train(config.replace(encode_rows=each), tmp_path / str(each), source=DATA, progress=False))
        for each in (0, rows)
    ]
    assert max(float((ends[0][key] - ends[1][key]).abs().max()) for key in ends[0]) < 1e-8


def test_a_run_does_not_resume_on_other_texts(tmp_path):
    with pytest.raises(StoppedError):
        hook = register_optimizer_step_post_hook(lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        try:
            train(CONFIG, tmp_path / "run", source=TEXTS, progress=False)
        finally:
            hook.remove()
    with pytest.raises(InputError, match="other data"):
        train(CONFIG, tmp_path / "run", source=TEXTS[::-1], progress=False)


@pytest.mark.slow
def test_two_processes_end_with_the_weights_of_one(tmp_path, torchrun):
    torchrun(SCRIPT, tmp_path / "one", processes=1)
    torchrun(SCRIPT, tmp_path / "two")
    for run in script.RUNS:
        one, two = (weights(tmp_path / name / run) for name in ("one", "two"))
        assert max(float((one[key] - two[key]).abs().max()) for key in one) < 1e-8, run
        losses = [[line["loss"] for line in read_log(tmp_path / name / run)] for name in ("one", "two")]
        assert losses[0] == pytest.approx(losses[1], abs=1e-9)


# Settings


def test_the_recipe_is_for_texts():
    recipe = load_recipe("text")
    assert recipe.modality.name == "texts" and recipe.encoder == "transformer"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 30}, "width is 30"),
        ({"pairs": "a", "groups": "b"}, "pairs is 'a'"),
        ({"length": 1}, "length is 1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"pooling": "sum"}, "pooling is 'sum'"),
    ],
)
def test_a_setting_that_cannot_be_is_an_error_that_names_it(change, message):
    with pytest.raises(InputError, match=message):
        Texts(**change)


def test_an_unknown_encoder_and_a_missing_tokenizer_are_errors():
    with pytest.raises(InputError, match=r"encoder is 'resnet18'.*transformer"):
        script.config().replace(encoder="resnet18")
    with pytest.raises(InputError, match="tokenizer is missing"):
        Model(ModelConfig("transformer", Texts()))


def test_images_are_not_texts():
    with pytest.raises(InputError, match=r"digits.*expected texts"):
        Texts().open(nonneg.modalities.images.open_source("digits"))
