"""Every loss without labels, with and without the rectifier, on CIFAR-10: one recipe, one seed, the same epochs.

    python -m benchmarks.other_losses --data cifar10.tar --epochs 20 [--only vicreg-rep_relu …] [--out runs/losses]

Prints a Markdown table; runs that exist already are measured again, not trained again.
"""

import argparse
from pathlib import Path

from benchmarks.hardware import described
from nonneg import train
from nonneg.errors import UntrainableError
from nonneg.training import load_recipe
from nonneg.trials import measure

LOSSES = ("info_nce", "spectral", "barlow_twins", "vicreg")
MAPS = ("none", "rep_relu")
# Losses that are not bounded need a smaller step than the recipe's, which was chosen for InfoNCE.
RATES = {"info_nce": 0.4, "spectral": 0.1, "barlow_twins": 0.1, "vicreg": 0.1}
COLUMNS = {
    ("probe", "encoder"): "linear probe, encoder",
    ("probe", "projector"): "linear probe, projector",
    ("class_consistency_supported", "projector"): "class consistency, 10 or more active",
    ("sparsity", "projector"): "sparsity",
    ("live", "projector"): "live features",
}


def row(name: str, data: str, epochs: int, out: Path) -> str:
    loss, rectify = name.split("-")
    config = load_recipe("cifar10").replace(
        data=data, loss=loss, rectify=rectify, epochs=epochs, warmup_epochs=min(5, epochs), lr=RATES[loss]
    )
    run = out / name
    try:
        if not (run / "model" / "config.json").is_file():
            train(config, run, title=name)
    except UntrainableError as error:
        return f"| {loss} | {rectify} | {config.lr:g} | {error} |"
    figures = measure(str(run), parts=["structure", "probe"], progress=False)
    (measured,) = next(iter(figures.columns.values()))
    cells = [measured.figures[key].form.format(measured.figures[key].value) for key in COLUMNS]
    return f"| {loss} | {rectify} | {config.lr:g} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[f"{loss}-{rectify}" for loss in LOSSES for rectify in MAPS])
    parser.add_argument("--out", type=Path, default=Path("runs/losses"))
    given = parser.parse_args()
    print(described())
    print(f"| loss | rectify | lr | {' | '.join(COLUMNS.values())} |\n|---|---|---|{'---|' * len(COLUMNS)}")
    for name in given.only:
        print(row(name, given.data, given.epochs, given.out), flush=True)


if __name__ == "__main__":
    main()
