"""The theorems, checked and shown."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nonneg.theory import check_all


def print_theory(seed: int = 0) -> bool:
    """Print every statement with its residual; True if all hold."""
    console = Console()
    with console.status("checking …"):
        checks = check_all(seed)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, side in (("", "left"), ("residual", "right"), ("at most", "right"), ("statement", "left")):
        table.add_column(heading, justify=side, no_wrap=heading != "statement")  # type: ignore[arg-type]
    for check in checks:
        mark = Text("holds", "green") if check.holds else Text("FAILS", "bold red")
        statement = Text(check.statement)
        if check.detail:
            statement.append(f"\n{check.detail}", "dim")
        table.add_row(mark, f"{check.residual:.1e}", f"{check.bound:g}", statement)
    console.print(table)
    held = sum(check.holds for check in checks)
    console.print(f"\n{held} of {len(checks)} statements hold (seed {seed}).", highlight=False)
    return held == len(checks)
