"""Side-by-side timings against the budgets of the design, printed as a table of seconds and ratios.

    python -m tests.bench [--device cpu|cuda] [--only build verdict calls paint session]

Nothing here passes or fails: times depend on the machine, so both sides run in the same minute and ratios are read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sandbox.devices import resolve_device


@dataclass(frozen=True)
class Row:
    """One comparison. ``budget`` and ``usual`` are null where there is none."""

    what: str
    ours: float
    unit: str
    budget: float | None = None
    usual: float | None = None
    note: str = ""

    def text(self) -> str:
        """Return the row as a line of the table."""
        budget = "-" if self.budget is None else f"{self.budget:g} {self.unit}"
        usual = "-" if self.usual is None else f"{self.usual:.3g} {self.unit}"
        ratio = "-" if self.usual is None else f"{self.usual / self.ours:.1f}×"
        return f"{self.what:44} {self.ours:>9.3g} {self.unit:3} {budget:>10} {usual:>12} {ratio:>8}  {self.note}"


Bench = Callable[[str], Iterator[Row]]


def main() -> int:
    """Run the chosen benches and print their rows as they come."""
    from tests.bench import calls, engine, screen, verdict

    benches: dict[str, Bench] = {
        "verdict": verdict.rows,
        "calls": calls.rows,
        "paint": screen.rows,
        "session": engine.rows,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", nargs="*", choices=list(benches), default=list(benches))
    options = parser.parse_args()
    device = resolve_device(options.device)
    print(f"{'what':44} {'ours':>13} {'budget':>10} {'usual':>12} {'usual/ours':>8}")
    for name in options.only:
        for row in benches[name](device):
            print(row.text(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
