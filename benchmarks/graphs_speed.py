"""Seconds per epoch and peak memory of nonneg and of GRACE's own code, on the same graphs and machine.

    git clone https://github.com/CRIPAC-DIG/GRACE
    python -m benchmarks.graphs_speed --data FOLDER --grace GRACE --graphs pubmed cs

Every contender trains in a process of its own, one after the other. GRACE runs its `train` function in its plain mode
and with `batch_size`, which its repository calls batched; in both, an epoch is one update that contrasts all nodes. So
is ours: `--batch-size 0`. Time is the median of epochs after the first five, without evaluation and logging; memory is
the allocator's peak on a GPU, the process's peak on a CPU. Both contrast 256 features; our two layers have 512 outputs,
GRACE's 512 and 256. GRACE multiplies matrices in float32; both are shown in float32 and in TF32, for which GRACE's code
does not ask.
"""

import argparse
import importlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import torch

import nonneg
from benchmarks.graphs import config
from benchmarks.hardware import described
from nonneg.devices import choose_device
from nonneg.modalities.graphs import Graph, Nodes

WARM_UP = 5
CONTENDERS = {
    "GRACE, plain": (),
    "GRACE, plain, TF32": (),
    "GRACE, batched": (),
    "nonneg, CL": ("cl", "32-true"),
    "nonneg, NCL": ("ncl", "32-true"),
    "nonneg, CL, TF32": ("cl", "tf32"),
    "nonneg, NCL, TF32": ("ncl", "tf32"),
}
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


def ours(graph: Path, epochs: int, rows: int, name: str, precision: str) -> list[float]:
    """Return the seconds of each epoch of `nonneg train graph --batch-size 0`."""
    changes = {"batch_size": 0, "chunk_rows": rows, "width": WIDTH, "features": FEATURES, "projector_width": FEATURES}
    changes |= {"epochs": epochs, "warmup_epochs": 1, "precision": precision}
    with tempfile.TemporaryDirectory() as out:
        nonneg.train(config(graph, name, 0, changes), out, progress=False, overwrite=True)
        return [json.loads(line)["seconds"] for line in (Path(out) / "log.jsonl").read_text().splitlines()]


def ready() -> None:
    """Import everything and open the device, which is not timed."""
    importlib.import_module("torch_geometric.nn")
    importlib.import_module("lightning_fabric")
    torch.ones(1, device=choose_device())


def contender(name: str, graph: Path, arguments: argparse.Namespace) -> tuple[float, float]:
    """Return seconds per epoch and the peak memory in GB."""
    torch.set_num_threads(arguments.threads)
    if name.startswith("GRACE"):
        torch.set_float32_matmul_precision("high" if "TF32" in name else "highest")
        seconds = grace(graph, arguments.grace, arguments.epochs, arguments.grace_rows if "batched" in name else 0)
    else:
        seconds = ours(graph, arguments.epochs, arguments.rows, *CONTENDERS[name])
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 1024 * getrusage(RUSAGE_SELF).ru_maxrss
    return statistics.median(seconds[WARM_UP:]), peak / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of GRAPH.npz, from examples/convert_graphs.py")
    parser.add_argument("--grace", type=Path, required=True, help="a clone of CRIPAC-DIG/GRACE")
    parser.add_argument("--graphs", nargs="+", default=["pubmed", "cs"])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rows", type=int, default=2048, help="our chunk_rows")
    parser.add_argument("--grace-rows", type=int, default=256, help="batch_size of GRACE's batched mode")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    parser.add_argument("--out", type=Path, help="also write the figures to this file, one line of JSON each")
    arguments = parser.parse_args()
    print("| | | seconds per epoch | times as fast | peak GB | share |\n|---|---|---:|---:|---:|---:|", flush=True)
    context = multiprocessing.get_context("spawn")
    for graph in arguments.graphs:
        with ExitStack() as stack:
            pools = {name: stack.enter_context(ProcessPoolExecutor(1, context)) for name in CONTENDERS}
            wait([pool.submit(ready) for pool in pools.values()])
            plain: tuple[float, float] | None = None
            for name, alone in pools.items():
                run = alone.submit(contender, name, arguments.data / f"{graph}.npz", arguments)
                if (error := run.exception()) is not None:  # such as too little memory
                    print(f"| {graph} | {name} | {type(error).__name__}: {error} | | | |", flush=True)
                    continue
                seconds, peak = found = run.result()
                alone.shutdown()  # gives its memory back
                plain = plain or found
                cells = f"{seconds:.4f} | {plain[0] / seconds:.2f}x | {peak:.2f} | {peak / plain[1]:.2f}x"
                print(f"| {graph} | {name} | {cells} |", flush=True)
                if arguments.out:
                    line = {"graph": graph, "name": name, "seconds": seconds, "peak_gb": peak}
                    with arguments.out.open("a") as lines:
                        lines.write(json.dumps(line) + "\n")
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
