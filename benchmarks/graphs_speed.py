"""Seconds per epoch and peak memory of nonneg and of GRACE's own code, on the same graphs and machine.

    git clone https://github.com/CRIPAC-DIG/GRACE
    python -m benchmarks.graphs_speed --data FOLDER --grace GRACE --graphs pubmed cs

Every contender trains in a process of its own. GRACE runs its `train` function in its plain mode and with
`batch_size`, which its repository calls batched; in both, an epoch is one update that contrasts all nodes. So is ours:
`--batch-size 0`. Time is the median of epochs after the first three; memory is the allocator's peak on a GPU, the
process's peak on a CPU. Both contrast 256 features; our two layers have 512 outputs, GRACE's 512 and 256.
"""

import argparse
import importlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import torch

import nonneg
from benchmarks.graphs import CL, config
from benchmarks.hardware import described
from nonneg.devices import choose_device
from nonneg.modalities.graphs import Graph, Nodes

WARM_UP = 3
WIDTH, FEATURES = 512, 256  # as in GRACE's settings for PubMed, which it has none for CS


def grace(graph: Path, folder: Path, epochs: int, rows: int) -> list[float]:
    """Return the seconds of each epoch of GRACE's code; with rows, in its batched mode."""
    sys.path.insert(0, str(folder))
    code: Any = importlib.import_module("train")
    import yaml  # GRACE needs it, too

    settings = yaml.safe_load((folder / "config.yaml").read_text())["PubMed"]
    for name in ("drop_edge_rate_1", "drop_edge_rate_2", "drop_feature_rate_1", "drop_feature_rate_2"):
        setattr(code, name, settings[name])
    device, nodes = choose_device(), Nodes().open(str(graph)).samples.graph
    x, ends = inputs(nodes, device)
    hidden = settings["num_hidden"]
    encoder = code.Encoder(x.shape[1], hidden, torch.nn.functional.relu, base_model=code.GCNConv, k=2)
    model = code.Model(encoder, hidden, settings["num_proj_hidden"], settings["tau"]).to(device)
    if rows:
        loss = model.loss
        model.loss = lambda z1, z2, batch_size: loss(z1, z2, batch_size=rows)
    code.optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        code.train(model, x, ends)  # returns a number, so that the device has finished
        seconds.append(time.perf_counter() - start)
    return seconds


def inputs(graph: Graph, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attributes `(nodes, attributes)` whose rows sum to 1, as in GRACE, and edges `(2, edges)`."""
    x = graph.dense_attributes()
    ends = torch.stack((graph.edges.columns.long(), graph.edges.rows))[:, ~graph.is_loop]
    return (x / x.sum(1, keepdim=True).clamp(min=1)).to(device), ends.to(device)


def ours(graph: Path, epochs: int, rows: int, is_cl: bool) -> list[float]:
    """Return the seconds of each epoch of `nonneg train graph --batch-size 0`."""
    changes = {"batch_size": 0, "chunk_rows": rows, "width": WIDTH, "features": FEATURES, "epochs": epochs}
    with tempfile.TemporaryDirectory() as out:
        settings = config(graph, 0, {**changes, "warmup_epochs": 1, **(CL if is_cl else {})})
        nonneg.train(settings, out, progress=False, overwrite=True)
        return [json.loads(line)["seconds"] for line in (Path(out) / "log.jsonl").read_text().splitlines()]


def contender(name: str, graph: Path, arguments: argparse.Namespace) -> tuple[float, float]:
    """Return seconds per epoch and the peak memory in GB."""
    torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    if name.startswith("GRACE"):
        seconds = grace(graph, arguments.grace, arguments.epochs, arguments.grace_rows if "batched" in name else 0)
    else:
        seconds = ours(graph, arguments.epochs, arguments.rows, name == "nonneg, CL")
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 1024 * getrusage(RUSAGE_SELF).ru_maxrss
    return statistics.median(seconds[WARM_UP:]), peak / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of GRAPH.npz, from examples/convert_graphs.py")
    parser.add_argument("--grace", type=Path, required=True, help="a clone of CRIPAC-DIG/GRACE")
    parser.add_argument("--graphs", nargs="+", default=["pubmed", "cs"])
    parser.add_argument("--epochs", type=int, default=23)
    parser.add_argument("--rows", type=int, default=2048, help="our chunk_rows")
    parser.add_argument("--grace-rows", type=int, default=256, help="batch_size of GRACE's batched mode")
    parser.add_argument("--tf32", action="store_true", help="let both multiply matrices in TF32")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    arguments = parser.parse_args()
    print(f"| {'TF32' if arguments.tf32 else 'float32'} | | seconds per epoch | times as fast | peak GB | share |")
    print("|---|---|---:|---:|---:|---:|")
    for graph in arguments.graphs:
        first: tuple[float, float] | None = None
        for name in ("GRACE, plain", "GRACE, batched", "nonneg, CL", "nonneg, NCL"):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                run = alone.submit(contender, name, arguments.data / f"{graph}.npz", arguments)
            if run.exception() is not None:  # such as too little memory
                print(f"| {graph} | {name} | {type(run.exception()).__name__}: {run.exception()} | | | |", flush=True)
                continue
            found = run.result()
            first = first or found
            cells = f"{found[0]:.4f} | {first[0] / found[0]:.2f}x | {found[1]:.2f} | {found[1] / first[1]:.2f}x"
            print(f"| {graph} | {name} | {cells} |", flush=True)
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
