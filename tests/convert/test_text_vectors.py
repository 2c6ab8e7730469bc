"""Texts that a sentence model encodes while they are converted."""

import json
import sys

import numpy as np
import pytest
import torch

from nonneg import Features, InputError, NonNegativeEmbedding
from nonneg.cli import main
from nonneg.convert import SentenceModel, convert_file
from nonneg.search import Query, find
from nonneg.studies import compare_files, sweep_sizes_of_file
from tests.convert.conftest import TEXTS, WIDTH


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def model(st, parts, tmp_path_factory):
    """The folder of a sentence model."""
    folder = tmp_path_factory.mktemp("sentence") / "model"
    st.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    return str(folder)


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return path


def small():
    return NonNegativeEmbedding(12, 4, max_iter=10, batch_size=16, random_state=0, device="cpu")


def converted(given, out, **options):
    return convert_file(str(given), out, embedding=small(), progress=False, **options)


def test_texts_are_encoded_shown_and_searched_by_the_same_model(model, lines, tmp_path):
    made = converted(lines, tmp_path / "run", sentence_model=model)
    features = Features.load(made.features)
    assert features.samples["text"].to_pylist() == TEXTS and features.provenance["sentence_model"] == model
    vectors = SentenceModel(model, "cpu").encode(TEXTS)
    assert vectors.shape == (len(TEXTS), WIDTH)
    expected = made.embedding.transform(vectors)
    assert abs(features.codes - expected).max() < 1e-5
    hits = find(features, Query(text=TEXTS[7], k=1), run=made.run, sentence_model=model)
    assert hits.hits[0].text == TEXTS[7]


@pytest.mark.parametrize("name", ["t.csv:said", "t.csv:1", "t.jsonl:said"])
def test_a_column_of_texts_is_encoded_and_shown_unless_others_are_given(model, tmp_path, name):
    (tmp_path / "t.csv").write_text("number,said\n" + "".join(f"{i},{text}\n" for i, text in enumerate(TEXTS)))
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"said": text}) for text in TEXTS))
    (tmp_path / "titles.txt").write_text("\n".join(f"title {i}" for i in range(len(TEXTS))))
    texts = str(tmp_path / "titles.txt") if name.endswith("jsonl:said") else None
    made = converted(tmp_path / name, tmp_path / "run", sentence_model=model, texts=texts)
    shown = Features.load(made.features).samples["text"].to_pylist()
    assert shown == (TEXTS if texts is None else [f"title {i}" for i in range(len(TEXTS))])


def test_vectors_of_texts_are_kept_and_belong_to_the_weights_of_their_model(st, model, parts, lines, tmp_path):
    converted(lines, tmp_path / "first", sentence_model=model)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npy")}
    first = converted(lines, tmp_path / "second", sentence_model=model)
    assert kept and {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npy")} == kept
    other = st.SentenceTransformer(model, device="cpu")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    other.save(str(tmp_path / "other"))
    second = converted(lines, tmp_path / "third", sentence_model=str(tmp_path / "other"))
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 2 * len(kept)
    codes = [Features.load(made.features).codes for made in (first, second)]
    assert abs(codes[0] - codes[1]).max() > 0.01


def test_damaged_vectors_in_the_cache_are_made_again(model, lines, tmp_path):
    first = converted(lines, tmp_path / "first", sentence_model=model)
    (kept,) = (tmp_path / "cache").rglob("*.npy")
    kept.write_bytes(kept.read_bytes()[:100])
    second = converted(lines, tmp_path / "second", sentence_model=model)
    codes = [Features.load(made.features).codes for made in (first, second)]
    assert abs(codes[0] - codes[1]).max() < 1e-5


def test_pairs_of_texts_are_encoded_too(model, lines, tmp_path):
    (tmp_path / "answers.txt").write_text("\n".join(reversed(TEXTS)))
    made = converted(lines, tmp_path / "run", sentence_model=model, pairs=str(tmp_path / "answers.txt"))
    assert Features.load(made.features).shape == (len(TEXTS), 12)
    (tmp_path / "answers.txt").write_text("one text")
    with pytest.raises(InputError, match=r"answers\.txt has the shape \(1,\), expected \(45,\)"):
        converted(lines, tmp_path / "other", sentence_model=model, pairs=str(tmp_path / "answers.txt"))


def test_vectors_with_a_sentence_model_are_not_encoded(tmp_path):
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(45, 8)).astype(np.float32))
    made = converted(tmp_path / "v.npy", tmp_path / "run", sentence_model="made-elsewhere")
    assert Features.load(made.features).provenance["sentence_model"] == "made-elsewhere"
    assert made.embedding.n_features_in_ == 8


def test_texts_are_not_encoded_in_place_of_vectors_that_are_not_named(model, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(45, 8))
    np.savez(tmp_path / "v.npz", title=vectors, body=vectors, said=np.array(TEXTS))
    with pytest.raises(InputError, match=r"v\.npz .*title, body, said"):
        converted(tmp_path / "v.npz", tmp_path / "run", sentence_model=model)
    made = converted(f"{tmp_path}/v.npz:said", tmp_path / "run", sentence_model=model)
    assert Features.load(made.features).samples["text"].to_pylist() == TEXTS


def test_texts_without_a_model_are_an_error_that_names_the_option(lines, tmp_path):
    with pytest.raises(InputError, match=r"texts\.txt holds text, .*--sentence-model"):
        converted(lines, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("1.5\n2\nnan\n", "texts.txt holds no words"),
        ("", r"texts\.txt"),
        (None, r"texts\.txt cannot be read: no such file"),
    ],
)
def test_texts_without_words_are_an_error(model, lines, tmp_path, content, found):
    lines.unlink() if content is None else lines.write_text(content)
    with pytest.raises(InputError, match=found):
        converted(lines, tmp_path / "run", sentence_model=model)
    assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_be_loaded_is_one_sentence_and_nothing_is_written(st, lines, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    arguments = ["nonneg", "convert", str(lines), "--sentence-model", str(tmp_path / "empty"), "--out", "run"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and f"sentence model '{tmp_path / 'empty'}' cannot be used" in said
    assert not (tmp_path / "run").exists() and not (tmp_path / "run.features").exists()


def test_texts_are_encoded_to_compare_methods_and_sizes(model, lines, tmp_path):
    lines.write_text("\n".join(TEXTS * 2))
    table = compare_files(str(lines), sentence_model=model, embedding=small(), methods=["raw"], progress=False)
    assert table.rows["raw"]["features"] == [WIDTH]
    sizes = sweep_sizes_of_file(str(lines), sentence_model=model, embedding=small(), progress=False)
    assert len(sizes.points) > 1
    np.save(tmp_path / "v.npy", np.random.default_rng(0).random((40, 4)))
    with pytest.raises(InputError, match=r"v\.npy holds vectors"):
        compare_files(str(tmp_path / "v.npy"), sentence_model=model, embedding=small(), progress=False)


def test_a_model_in_a_folder_is_part_of_the_next_command(model, lines, tmp_path, monkeypatch, capsys):
    options = ["--n-components", "12", "--max-active", "4", "--max-iter", "10", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["nonneg", "convert", str(lines), "--sentence-model", model, *options])
    main()
    assert f"nonneg explore {tmp_path / 'run'} --sentence-model {model}" in capsys.readouterr().out.replace("\n", " ")
