"""The demo over seeds: what must hold on digits, as means with their spread.

python -m benchmarks.digits [--seeds 0 1 2] [--out FOLDER]
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from nonneg.studies import Outcome, demo

ROWS = {
    "probe_encoder": "linear probe, encoder",
    "probe_projector": "linear probe, projector",
    "class_consistency": "class consistency",
    "class_consistency_supported": "class consistency, 10 or more active",
    "class_consistency_floor": "its chance floor",
    "sparsity": "sparsity",
    "correlation": "correlation",
    "effective_rank": "effective rank",
    "live": "live features",
    "precision_at_10": "precision@10, projector",
    "seconds": "seconds of training",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path(tempfile.mkdtemp()))
    arguments = parser.parse_args()
    pairs = [demo("digits", arguments.out / f"seed-{seed}", seed) for seed in arguments.seeds]
    print(f"\n| digits, seeds {' '.join(map(str, arguments.seeds))}, mean ± standard deviation | CL | NCL |")
    print("|---|---|---|")
    for key, label in ROWS.items():
        cells = [spread([pair[side] for pair in pairs], key) for side in (0, 1)]
        print(f"| {label} | {cells[0]} | {cells[1]} |")


def spread(outcomes: list[Outcome], key: str) -> str:
    values = [outcome.figures[key] for outcome in outcomes]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {deviation:.4f}"


if __name__ == "__main__":
    main()
