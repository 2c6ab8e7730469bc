"""The theorems, checked and shown."""

from rich.console import Console
from rich.text import Text

from nonneg.evaluate import rich_table
from nonneg.theory import check_all


def print_theory(seed: int = 0) -> bool:
    """Print every statement with its residual; True if all hold."""
    console = Console()
    with console.status("checking …"):
        checks = check_all(seed)
    rows = []
    for check in checks:
        mark = Text("holds", "green") if check.holds else Text("FAILS", "bold red")
        statement = Text(check.statement)
        if check.detail:
            statement.append(f"\n{check.detail}", "dim")
        rows.append((mark, f"{check.residual:.1e}", f"{check.bound:g}", statement))
    console.print(rich_table(("", "residual", "at most", "statement"), rows, left=(0, 3)))
    held = sum(check.holds for check in checks)
    console.print(f"\n{held} of {len(checks)} statements hold (seed {seed}).", highlight=False)
    return held == len(checks)
