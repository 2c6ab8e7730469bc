"""Bad input: a table of commands that must be rejected in one sentence, and the files that they name."""

import io
import os
import pickle
import struct
import sys
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from nonneg import Features
from nonneg.cli import main
from nonneg.convert import NonNegativeEmbedding, convert_file
from nonneg.search import index_folder
from nonneg.training import load_recipe, train

ROWS = 60
NOT_UTF8 = os.fsdecode(b"\xff\xfe")
_FIT = ("--n-components", "8", "--max-iter", "2")


@dataclass(frozen=True)
class Case:
    """A command line, and words that the sentence must contain."""

    arguments: tuple[str, ...]
    named: str


def case(line: str, named: str) -> Case:
    """A command line without blanks in its arguments; `''` is an empty one."""
    return Case(tuple("" if word == "''" else word for word in line.split()), named)


def prepare(folder: Path) -> None:
    """Write the good and bad files that the commands name; the good ones first."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(ROWS, 5)).astype(np.float32)
    np.save(folder / "v.npy", vectors)
    (folder / "y.txt").write_text("cat\ndog\n" * (ROWS // 2))
    embedding = NonNegativeEmbedding(n_components=8, max_active=2, max_iter=3, random_state=0)
    convert_file(str(folder / "v.npy"), folder / "conv", embedding=embedding, progress=False)
    config = load_recipe("digits").replace(epochs=1, warmup_epochs=0, accelerator="cpu")
    train(config, folder / "run", progress=False)
    codes = np.abs(vectors)
    Features(codes, ids=[f"s{row}" for row in range(ROWS)], labels=np.arange(ROWS) % 2).save(folder / "x.features")
    Features(codes).save(folder / "plain.features")
    Features(vectors).save(folder / "signed.features")
    Features(codes[:, :3]).save(folder / "narrow.features")
    index_folder(folder / "x.features", out=folder / "other.index")
    _bad_vectors(folder, vectors)
    _bad_texts(folder)
    _bad_places(folder)


def _bad_vectors(folder: Path, vectors: np.ndarray) -> None:
    arrays = {
        "nan": np.where(np.arange(5) == 2, np.nan, vectors),
        "inf": np.where(np.arange(5) == 2, np.inf, vectors),
        "flat": vectors[:, 0],
        "cube": vectors[None],
        "none": vectors[:0],
        "narrow": vectors[:, :3],
        "short": vectors[:30],
        "one": vectors[:1],
        "words": np.array([["a", "b"]] * ROWS),
        "zeros": np.zeros((ROWS, 5), np.float32),
        "complex": vectors.astype(np.complex64),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "two.npz", a=vectors, b=vectors)
    content = (folder / "v.npy").read_bytes()
    (folder / "cut.npy").write_bytes(content[:-100])
    (folder / "huge.npy").write_bytes(content.replace(b"(60, 5), }      ", b"(999999999, 99)}"))
    np.save(folder / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    (folder / "pickle.npy").write_bytes(pickle.dumps(vectors))
    (folder / "pickle.pkl").write_bytes(pickle.dumps(vectors))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "no array")
    (folder / "cut.npz").write_bytes((folder / "two.npz").read_bytes()[:200])
    (folder / "cut.safetensors").write_bytes(struct.pack("<Q", 2**40) + b"{}")
    pq.write_table(pa.table({"id": ["a"] * ROWS}), folder / "strings.parquet")
    (folder / "cut.parquet").write_bytes((folder / "strings.parquet").read_bytes()[:-30])


def _bad_texts(folder: Path) -> None:
    (folder / "ragged.csv").write_text("1,2\n3\n")
    (folder / "words.csv").write_text("a,b\nx,y\n")
    (folder / "short.txt").write_text("cat\n" * 59)
    (folder / "one.txt").write_text("cat\n" * ROWS)
    (folder / "latin.txt").write_bytes(b"caf\xe9\n" * ROWS)
    (folder / "twice.txt").write_text("same\n" * ROWS)
    (folder / "bad.toml").write_text("epochs = [")
    (folder / "unknown.toml").write_text("epocs = 3\n")
    (folder / "type.toml").write_text('epochs = "three"\n')
    (folder / "latin.toml").write_bytes(b'data = "caf\xe9"\n')
    (folder / "query.json").write_text('{"likes": ["s1"]}')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "thesis.tex").write_text("years of work")
    (folder / "texts.txt").write_text("a b\nc d\n" * 20)
    (folder / "blank.txt").write_text("a b\n \t\nc d\n" * 20)
    (folder / "nul.txt").write_text("a b\nc\0d\n" * 20)
    (folder / "utf16.txt").write_text("a b\nc d\n" * 20, encoding="utf-16")
    rows = "".join(f"text {row},{row},x\n" for row in range(40))
    (folder / "captions.csv").write_text(f"text,row,all\n{rows}")
    tables = {
        "pairs": "image,text\nmixed/a.png,one\nmixed/b.png,two\n",
        "gone": "image,text\nnowhere.png,one\nmixed/b.png,two\n",
        "same": "image,text\nmixed/a.png,one\nmixed/a.png,two\n",
        "numbers": "image,number\nmixed/a.png,1\n",
        "elsewhere": "image,text\n../../etc/passwd,one\n/dev/zero,two\npipe,three\n",
    }
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content)


def _bad_places(folder: Path) -> None:
    (folder / "empty").touch()
    for suffix in ("npy", "npz", "csv", "parquet", "safetensors", "txt", "toml"):
        (folder / f"empty.{suffix}").touch()
    for name in ("folder", "folder.npy", "images", "theirs"):
        (folder / name).mkdir()
    (folder / "theirs" / "thesis.tex").write_text("years of work")
    (folder / "images" / "a.png").write_bytes(b"\x89PNG damaged")
    (folder / "mixed").mkdir()
    for name, size in (("a", 8), ("b", 9)):
        Image.new("RGB", (size, size)).save(folder / "mixed" / f"{name}.png")
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.npy")
    (folder / "loop").symlink_to("loop")
    (folder / "loop.npy").symlink_to("loop.npy")
    (folder / "damaged.features").mkdir()
    (folder / "damaged.features" / "meta.json").write_text('{"format": "nonneg.features", "version": 2}')
    (folder / "newer.features").mkdir()
    (folder / "newer.features" / "meta.json").write_text('{"format": "nonneg.features", "version": 99}')


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of every file and folder."""
    found = {str(path): path.lstat() for path in (folder, *folder.rglob("*"))}
    return {name: (status.st_size, status.st_mtime_ns) for name, status in found.items()}


def run(arguments: tuple[str, ...]) -> tuple[int, str]:
    """Run nonneg in this process; return its exit code and what it printed to standard error."""
    sys.argv = ["nonneg", *arguments]
    errors = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, errors.getvalue()


def defect(given: Case, code: int, printed: str) -> str:
    """Return what is wrong with a rejection; an empty string if nothing is."""
    if code != 2:
        return f"exit code {code}, expected 2"
    if "Traceback" in printed:
        return "a traceback"
    sentences = [line for line in printed.splitlines() if line.startswith("nonneg: ")]
    if len(sentences) != 1 or len(printed.splitlines()) != 1:
        return f"{len(sentences)} sentences in {len(printed.splitlines())} lines, expected one"
    return "" if given.named in printed else f"{given.named!r} is not named"


TRAIN = "train digits --out new --accelerator cpu"
PAIRS, GRAPH, TEXT = (f"train {kind} --out new --accelerator cpu" for kind in ("pairs", "graph", "text"))
CASES = [
    # Command lines
    case("", "command"),
    case("dmeo", "dmeo"),
    case("train", "RECIPE"),
    case("train digits --epocs 3", "--epocs"),
    case("train digits --epochs three", "--epochs"),
    case("train digits --rectify relux", "--rectify"),
    case("train digits --accelerator meta", "--accelerator"),
    case("demo --data mnist", "data is 'mnist'"),
    case("demo --seed 1.5", "--seed"),
    case("select x.features --keep many", "--keep"),
    case("select x.features --by luck --keep 2", "--by"),
    case("index x.features --engine faiss", "--engine"),
    case("search x.features --like s1 --k ten", "--k"),
    case("explore x.features --port http", "--port"),
    case("embed run digits --layer last", "--layer"),
    case("reproduce mnist", "mnist"),
    case("match x.features plain.features --least high", "--least"),
    case("verify", "FOLDER"),
    case("export x.features", "SITE"),
    case("convert v.npy --n-components many", "--n-components"),
    # Training
    case("train nowhere.toml", "'nowhere.toml'"),
    case("train ''", "recipe"),
    case("train folder", "folder"),
    case("train pipe", "pipe"),
    case("train loop", "loop"),
    case("train /dev/zero", "/dev/zero"),
    case("train empty.toml --epochs 0", "epochs is 0"),
    case("train bad.toml", "bad.toml"),
    case("train unknown.toml", "epocs"),
    case("train type.toml", "epochs"),
    case("train latin.toml", "latin.toml"),
    case("train v.npy", "v.npy"),
    case(f"{TRAIN} --epochs 0", "epochs is 0"),
    case(f"{TRAIN} --epochs 99999999999999999999", "epochs is 99999999999999999999"),
    case(f"{TRAIN} --batch-size 5000", "1400"),
    case(f"{TRAIN} --batch-size 1", "batch_size is 1"),
    case(f"{TRAIN} --accumulate 3", "accumulate"),
    case(f"{TRAIN} --lr inf", "lr is inf"),
    case(f"{TRAIN} --lr -1", "lr is -1"),
    case(f"{TRAIN} --temperature 0", "temperature is 0"),
    case(f"{TRAIN} --views.rotate nan", "views.rotate is nan"),
    case(f"{TRAIN} --features 1000000000000", "features is 1000000000000"),
    case(f"{TRAIN} --seed -1", "seed is -1"),
    case(f"{TRAIN} --warmup-epochs 99999", "warmup_epochs is 99999"),
    case(f"{TRAIN} --data mnist", "data is 'mnist'"),
    case(f"{TRAIN} --data empty", "empty"),
    case(f"{TRAIN} --data folder", "folder"),
    case(f"{TRAIN} --data images", "a.png"),
    case(f"{TRAIN} --data mixed", "a.png"),
    case(f"{TRAIN} --data pipe.npy", "pipe.npy"),
    case(f"{TRAIN} --data v.npy", "v.npy"),
    case(f"{TRAIN} --data cut.npy", "cut.npy"),
    case(f"{TRAIN} --data pickle.npy", "pickle.npy"),
    case(f"{TRAIN} --encoder resnet1000", "resnet1000"),
    case(f"{TRAIN} --rectify top_k --top-k 0", "top_k"),
    case(f"{TRAIN} --compile graph", "compile is 'graph'"),
    case("train digits --out thesis.tex", "thesis.tex"),
    case("train digits --out theirs --overwrite", "thesis.tex"),
    case("train digits --out run --epochs 1 --warmup-epochs 0", "--overwrite"),
    case("train digits --out /proc/new", "/proc/new"),
    case("train digits --out thesis.tex/new", "thesis.tex/new"),
    # Training on pairs, graphs and texts
    case(f"{PAIRS} --data nowhere", "nowhere"),
    case(f"{PAIRS} --data pairs.csv", "at least 4"),
    case(f"{PAIRS} --data gone.csv", "nowhere.png"),
    case(f"{PAIRS} --data same.csv", "groups"),
    case(f"{PAIRS} --data numbers.csv", "numbers.csv"),
    case(f"{PAIRS} --data elsewhere.csv", "/dev/zero"),
    case(f"{PAIRS} --data v.npy", "v.npy"),
    case(f"{PAIRS} --data folder", "folder"),
    case(f"{PAIRS} --data pipe", "pipe"),
    case(f"{PAIRS} --data empty.csv", "empty.csv"),
    case(f"{PAIRS} --data /dev/zero", "/dev/zero"),
    case(f"{PAIRS} --data pairs.csv --first-column nothing", "nothing"),
    case(f"{PAIRS} --data pairs.csv --encoder resnet18", "'resnet18'"),
    case(f"{PAIRS} --data pairs.csv --encoder resnet18+nothing", "'nothing'"),
    case(f"{PAIRS} --width 0", "width is 0"),
    case("train emoji --out new --loss barlow_twins --accelerator cpu", "barlow_twins"),
    case("train emoji --out new --batch-size 99999 --accelerator cpu", "batch_size is 99999"),
    case(f"{GRAPH} --data nowhere", "nowhere"),
    case(f"{GRAPH} --data v.npy", "v.npy"),
    case(f"{GRAPH} --data two.npz", "two.npz"),
    case(f"{GRAPH} --data cut.npz", "cut.npz"),
    case(f"{GRAPH} --data pipe", "pipe"),
    case(f"{GRAPH} --data words.csv", "words.csv"),
    case("train graphs --out new --data nowhere", "nowhere"),
    case("train graphs --out new --data folder", "folder"),
    case("train graphs --out new --data texts.txt", "texts.txt"),
    case(f"{TEXT} --data nowhere", "nowhere"),
    case(f"{TEXT} --data empty.txt", "empty.txt"),
    case(f"{TEXT} --data latin.txt", "latin.txt"),
    case(f"{TEXT} --data pipe", "pipe"),
    case(f"{TEXT} --data /dev/zero", "/dev/zero"),
    case(f"{TEXT} --data texts.txt --pairs nowhere", "nowhere"),
    case(f"{TEXT} --data texts.txt --labels short.txt", "short.txt"),
    case(f"{TEXT} --data texts.txt --vocabulary 0", "vocabulary is 0"),
    case(f"{TEXT} --data empty.txt", "empty.txt"),
    case(f"{TEXT} --data blank.txt", "row 1 is blank"),
    case(f"{TEXT} --data nul.txt", "row 1 has a NUL character"),
    case(f"{TEXT} --data latin.txt", "0xe9"),
    case(f"{TEXT} --data utf16.txt", "0xff"),
    case(f"{TEXT} --data one.txt", "all 60 texts are the same"),
    case(f"{TEXT} --data captions.csv:nowhere", "'nowhere'"),
    case(f"{TEXT} --data captions.csv:text --pairs short.txt", "short.txt"),
    case(f"{TEXT} --data captions.csv:text --groups row", "no two texts"),
    case(f"{TEXT} --data captions.csv:text --groups all", "all texts are in one group"),
    case(f"{TEXT} --data texts.txt --encoder transformer:nowhere", "transformer:nowhere"),
    # The demo, reproduction and theory
    case("demo --data v.npy", "v.npy"),
    case("demo --data pipe", "pipe"),
    case("demo --seed -1", "seed is -1"),
    case("demo --seed 99999999999999", "seed is 99999999999999"),
    case("demo --epochs 0", "epochs is 0"),
    case("demo --epochs -1", "epochs is -1"),
    case("demo --out thesis.tex", "thesis.tex"),
    case("demo --out theirs --overwrite", "thesis.tex"),
    case("demo --out /proc/demo", "/proc/demo"),
    case("reproduce digits --seeds 0 --out new", "seeds is 0"),
    case("reproduce digits --epochs -3 --out new", "epochs is -3"),
    case("reproduce digits --out theirs", "thesis.tex"),
    case("reproduce cifar10 --data nowhere --out new", "nowhere"),
    case("theory --seed -1", "seed is -1"),
    # Embedding
    case("embed nowhere digits", "nowhere"),
    case("embed folder digits", "folder"),
    case("embed thesis.tex digits", "thesis.tex"),
    case("embed conv digits", "conv"),
    case("embed run nowhere", "nowhere"),
    case("embed run images", "a.png"),
    case("embed run pipe", "pipe"),
    case("embed run v.npy", "v.npy"),
    case("embed run digits --split middle", "middle"),
    case("embed run digits --batch-size 0", "batch_size is 0"),
    case("embed run digits --out thesis.tex", "thesis.tex"),
    case("embed run digits --out theirs", "theirs"),
    case("embed hub:a digits", "hub:a"),
    case("embed run digits --side image", "side is 'image'"),
    case("embed run pairs.csv", "pairs.csv"),
    # Conversion
    case("convert nowhere.npy", "nowhere.npy"),
    *(case(f"convert {name}.npy --out new/x", f"{name}.npy") for name in ("nan", "inf", "flat", "cube", "none", "one")),
    *(case(f"convert {name}.npy --out new/x", f"{name}.npy") for name in ("words", "zeros", "complex", "cut", "huge")),
    *(
        case(f"convert {name}.npy --out new/x", f"{name}.npy")
        for name in ("objects", "pickle", "pipe", "loop", "folder")
    ),
    *(
        case(f"convert empty.{kind} --out new/x", f"empty.{kind}")
        for kind in ("npy", "npz", "csv", "parquet", "safetensors")
    ),
    case("convert empty --out new/x", "empty"),
    case("convert pickle.pkl --out new/x", "pickle.pkl"),
    case("convert two.npz --out new/x", "two.npz"),
    case("convert two.npz:c --out new/x", "two.npz"),
    case("convert cut.npz --out new/x", "cut.npz"),
    case("convert bomb.npz --out new/x", "bomb.npz"),
    case("convert cut.safetensors --out new/x", "cut.safetensors"),
    case("convert cut.parquet --out new/x", "cut.parquet"),
    case("convert strings.parquet --out new/x", "strings.parquet"),
    case("convert ragged.csv --out new/x", "ragged.csv"),
    case("convert words.csv --out new/x", "words.csv"),
    case("convert /dev/zero --out new/x", "/dev/zero"),
    case("convert v.npy:a --out new/x", "v.npy"),
    case("convert v.npy --out ..", ".."),
    case("convert v.npy --out thesis.tex", "thesis.tex"),
    case("convert v.npy --out theirs", "thesis.tex"),
    case("convert v.npy --out new/x --seed -1", "seed is -1"),
    case("convert v.npy --out new/x --device meta", "meta"),
    case("convert v.npy --out new/x --device abacus", "abacus"),
    case("convert v.npy --out new/x --n-components 0", "n_components is 0"),
    case("convert v.npy --out new/x --n-components 1000000000000", "n_components is 1000000000000"),
    case("convert v.npy --out new/x --max-active 0", "max_active is 0"),
    case("convert v.npy --out new/x --max-iter -1", "max_iter is -1"),
    case("convert v.npy --out new/x --temperature nan", "temperature is nan"),
    case("convert v.npy --out new/x --batch-size 1", "batch_size is 1"),
    case("convert v.npy --out new/x --supervised", "--labels"),
    case("convert v.npy --out new/x --classify", "--labels"),
    case("convert v.npy --out new/x --classify --labels one.txt", "one.txt"),
    case("convert v.npy --out new/x --labels nowhere", "nowhere"),
    case("convert v.npy --out new/x --labels short.txt", "short.txt"),
    case("convert v.npy --out new/x --labels latin.txt", "latin.txt"),
    case("convert v.npy --out new/x --labels empty.txt", "empty.txt"),
    case("convert v.npy --out new/x --labels pipe", "pipe"),
    case("convert v.npy --out new/x --labels folder", "folder"),
    case("convert v.npy --out new/x --labels strings.parquet:label", "label"),
    case("convert v.npy --out new/x --pairs short.npy", "short.npy"),
    case("convert v.npy --out new/x --pairs narrow.npy", "narrow.npy"),
    case("convert v.npy --out new/x --ids twice.txt", "twice.txt"),
    case("convert v.npy --out new/x --ids short.txt", "short.txt"),
    case("convert v.npy --out new/x --texts short.txt", "short.txt"),
    case("convert v.npy --out new/x --media folder", "folder"),
    case("convert v.npy --out new/x --media thesis.tex", "thesis.tex"),
    case("convert v.npy --seeds 3", "--seeds"),
    case("convert v.npy --compare --out new/x", "--out"),
    case("convert v.npy --compare --seeds 0", "--seeds"),
    case("convert v.npy --compare --train-rows 1000", "train_rows"),
    case("convert v.npy --sweep --compare", "--sweep"),
    case("convert v.npy --sweep --train-rows 0", "train_rows is 0"),
    case("convert v.npy --sweep --train-rows 99999", "train_rows is 99999"),
    case("convert v.npy --sweep --out plot.docx", "plot.docx"),
    case("convert v.npy --sweep --out thesis.tex/x.png", "thesis.tex"),
    case("convert v.npy --sweep --labels short.txt", "short.txt"),
    case("convert v.npy --sweep --ids y.txt", "--ids"),
    case("convert nan.npy --sweep", "nan.npy"),
    case("convert v.npy --sweep --n-components 0", "n_components is 0"),
    case("convert v.npy --out new/x --label-names a b", "label_names"),
    case("convert v.npy --out new/x --labels y.txt --label-names a a", "label_names"),
    # Measuring
    case("measure run --parts zero-shot", "zero-shot"),
    case("measure run --parts partners", "partners"),
    case("measure plain.features --parts clusters", "clusters"),
    case("measure nowhere", "nowhere"),
    case("measure folder", "folder"),
    case("measure thesis.tex", "thesis.tex"),
    case("measure nan.npy", "nan.npy"),
    case("measure damaged.features", "meta.json"),
    case("measure newer.features", "99"),
    case("measure x.features --parts magic", "magic"),
    case("measure x.features --parts sepin", "sepin"),
    case("measure x.features --train narrow.features", "narrow.features"),
    case("measure x.features --names a b", "names"),
    case("measure x.features --out table.docx", "table.docx"),
    case("measure x.features --data digits", "data"),
    case("measure v.npy --labels short.txt", "short.txt"),
    case("measure run --transfer-to nowhere", "nowhere"),
    case("measure run --parts augmented-probe --probe-epochs 0", "epochs is 0"),
    case("doctor nowhere", "nowhere"),
    case("doctor nan.npy", "nan.npy"),
    case("doctor v.npy --labels short.txt", "short.txt"),
    case("doctor v.npy --seed 4294967296", "seed is 4294967296"),
    case("doctor v.npy --n-components 0", "n_components is 0"),
    case("doctor v.npy --max-iter 0", "max_iter is 0"),
    case("doctor folder", "folder"),
    # Selecting and matching
    case("select nowhere --keep 2", "nowhere"),
    case("select x.features", "--keep"),
    case("select x.features --keep 0", "0"),
    case("select x.features --keep 99", "99"),
    case("select x.features --keep 2 --keep 3", "--keep"),
    case("select x.features --keep 2 --indices v.npy", "--indices"),
    case("select x.features --indices v.npy", "indices"),
    case("select x.features --indices pickle.npy", "pickle.npy"),
    case("select x.features --indices pipe.npy", "pipe.npy"),
    case("select x.features --keep 2 --by sepin", "--views"),
    case("select plain.features --keep 2 --by mutual-information", "labels"),
    case("select x.features --keep 2 --out theirs", "theirs"),
    case("select x.features --test plain.features", "labels"),
    case("select x.features --test x.features --out plot.docx", "plot.docx"),
    case("match x.features", "features folders given: 1"),
    case("match x.features nowhere", "nowhere"),
    case("match x.features plain.features --least 2", "least is 2"),
    case("match x.features damaged.features", "damaged.features"),
    case("match x.features plain.features --carry-names", "--out"),
    case("match x.features plain.features --out new", "--out"),
    case("match x.features plain.features --reorder --out theirs", "theirs"),
    # Searching and indexing
    case("search nowhere --like s1", "nowhere"),
    case("search x.features", "query is empty"),
    case("search x.features --like nobody", "nobody"),
    case("search x.features --like s1 --k 0", "k is 0"),
    case("search x.features --minus s1", "query is empty"),
    case("search x.features --like s1 --minus nobody", "nobody"),
    case("search x.features --like s1 --require wheels", "wheels"),
    case("search x.features --sample hello", "--run"),
    case("search x.features --vector v.npy --run hub:", "hub:"),
    case("search x.features --feature 99", "99"),
    case("search x.features --feature wheels", "wheels"),
    case("search x.features --feature 1:-1", "-1"),
    case("search x.features --feature 1:nan", "nan"),
    case("search x.features --like s1 --without 99", "99"),
    case("search x.features --like s1 --label zebra", "zebra"),
    case("search x.features --query query.json", "query.json"),
    case("search x.features --query list.json", "list.json"),
    case("search x.features --query deep.json", "deep.json"),
    case("search x.features --query pipe", "pipe"),
    case("search x.features --query /dev/zero", "/dev/zero"),
    case("search x.features --query query.json --like s1", "--like"),
    case("search x.features --like s1 --save thesis.tex", "thesis.tex"),
    case("search x.features --like s1 --save folder", "folder"),
    case("search x.features --like s1 --index nowhere", "nowhere"),
    case("search narrow.features --like 1 --index other.index", "other.index"),
    case("search x.features --image images/a.png", "--run"),
    case("search x.features --text hello", "--run"),
    case("search conv.features --vector narrow.npy", "narrow.npy"),
    case("search conv.features --vector nowhere.npy", "nowhere.npy"),
    case("search conv.features --vector nan.npy", "nan.npy"),
    case("search signed.features --like 1", "negative"),
    case("search damaged.features --like 1", "damaged.features"),
    Case(("search", "x.features", "--like", NOT_UTF8), "\\"),
    Case(("search", "x.features", "--like", "two\nlines"), "two\\nlines"),
    Case(("search", "x.features", "--like", "a\0b"), "\\"),
    case("index nowhere", "nowhere"),
    case("index folder", "folder"),
    case("index signed.features --out new.index", "negative"),
    case("index x.features --out thesis.tex", "thesis.tex"),
    case("index x.features --out theirs --overwrite", "thesis.tex"),
    case("index x.features --out other.index", "--overwrite"),
    case("index x.features --out new.index --uri http://localhost:1", "--uri"),
    case("index x.features --out new.index --engine milvus --quantised", "quantised"),
    case("index damaged.features", "damaged.features"),
    # Pages
    case("explore nowhere", "nowhere"),
    case("explore folder --no-browser", "folder"),
    case("explore x.features --port 99999 --no-browser", "99999"),
    case("explore x.features --port -1 --no-browser", "-1"),
    case("explore x.features --host '' --no-browser", "host"),
    case("explore x.features --host nowhere.invalid --no-browser", "nowhere.invalid"),
    case("explore x.features plain.features conv.features --no-browser", "3"),
    case("explore damaged.features --no-browser", "damaged.features"),
    case("explore x.features --sentence-model nowhere --no-browser", "sentence"),
    case("explore nan.npy --no-browser", "nan.npy"),
    case("export x.features site --max-features 0", "--max-features is 0"),
    case("export x.features site --max-samples -1", "--max-samples is -1"),
    case("export nowhere site", "nowhere"),
    case("export x.features thesis.tex", "thesis.tex"),
    case("export x.features theirs --overwrite", "thesis.tex"),
    case("export x.features site --beside nowhere", "nowhere"),
    case("export x.features /proc/site", "/proc/site"),
    # Verifying
    case("verify nowhere", "nowhere"),
    case("verify folder", "folder"),
    case("verify thesis.tex", "thesis.tex"),
    case("verify v.npy", "v.npy"),
    case("verify pipe", "pipe"),
    case("verify loop", "loop"),
    case("verify damaged.features", "meta.json"),
    case("verify newer.features", "99"),
    Case(("verify", NOT_UTF8), "\\"),
]
