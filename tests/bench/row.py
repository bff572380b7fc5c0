"""A line of the bench's table."""

from __future__ import annotations

from dataclasses import dataclass


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
