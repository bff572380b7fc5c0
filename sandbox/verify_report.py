"""What verifying a candidate found: every comparison with the oracle, and for which sizes and forms it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class VerifyCase:
    """One comparison with the oracle. Errors are against float64 and null when nothing could be compared."""

    name: str
    ok: bool
    max_abs_error: float | None
    max_rel_error: float | None
    reason: str = ""


@dataclass(frozen=True)
class VerifiedRange:
    """Dimensions that have one size together, the sizes at which the candidate was right, and the range they span."""

    dims: tuple[str, ...]
    low: int
    high: int
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        seen = ", ".join(map(str, self.sizes))
        return f"{' = '.join(self.dims)} from {self.low} to {self.high} (asked at {seen})"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> VerifiedRange:
        """Rebuild it from its JSON form."""
        return cls(tuple(data["dims"]), data["low"], data["high"], tuple(data["sizes"]))


NOT_SLOWER = 0.95
"""Times as fast as the original, from which on one placement says nothing against a candidate."""
OTHER_MODE = {True: "eval mode", False: "train mode"}
"""What the case in the other mode is called, by whether the task's own is train mode."""
TIMED_CALL = "a timed call"
"""What the case is called in which the output of a call that was timed is compared."""


@dataclass(frozen=True)
class VerifyReport:
    """All comparisons. ``notes`` says what was done differently and why (fp32 oracle, sampled rows).

    ``ranges`` are the sizes that it holds for beside those of the task's own inputs, of a full verdict on a task that
    declares dynamic dimensions. ``forms`` says how the candidate did in the other forms of a captured class, and ``calls`` how
    many of the run's calls that were looked at are of the task's own; 0 where that is not known.
    """

    ok: bool
    cases: tuple[VerifyCase, ...] = ()
    notes: tuple[str, ...] = ()
    ranges: tuple[VerifiedRange, ...] = ()
    forms: tuple[FormReport, ...] = ()
    calls: int = 0

    @property
    def agreement(self) -> str:
        """Say how many cases agree, and how many timed calls apart: a verdict compares as many as it had to time."""
        timed = [case.ok for case in self.cases if case.name == TIMED_CALL]
        asked = [case.ok for case in self.cases if case.name != TIMED_CALL]
        told = [f"{sum(asked)} of {len(asked)} cases"] if asked or not timed else []
        return " and ".join([*told, *([f"{sum(timed)} of {len(timed)} timed calls"] if timed else [])])

    @property
    def covered_calls(self) -> int:
        """How many of the calls that were looked at are of forms in which what lands runs the kernels."""
        return self.calls + sum(form.calls for form in self.forms if form.covered)

    @property
    def all_calls(self) -> int:
        """How many calls of any form were looked at."""
        return self.calls + sum(form.calls for form in self.forms)

    @property
    def coverage(self) -> str:
        """Say what of the developer's run what lands covers, where the class has several forms; else an empty text."""
        if not self.forms:
            return ""
        right = 1 + sum(form.covered for form in self.forms)
        return (
            f"covers {right} of {1 + len(self.forms)} forms in which your run builds and calls it, "
            f"{self.covered_calls} of {self.all_calls} calls"
        )

    @property
    def in_both_modes(self) -> bool:
        """Whether the candidate was asked in the mode that is not the task's own, and was right."""
        return any(case.ok and case.name in OTHER_MODE.values() for case in self.cases)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> VerifyReport:
        """Rebuild it from its JSON form."""
        return cls(
            data["ok"],
            tuple(known(VerifyCase, case) for case in data["cases"]),
            tuple(data.get("notes", ())),
            tuple(VerifiedRange.from_json(each) for each in data.get("ranges", ())),
            tuple(FormReport.from_json(each) for each in data.get("forms", ())),
            data.get("calls", 0),
        )


@dataclass(frozen=True)
class FormReport:
    """How a candidate did in another way in which the developer's run built and called the task's class.

    One in which it is not right fails no verdict: what lands runs the original there.

    Attributes:
        name: What that form is called with and what it holds.
        number: Its place among the task's forms, from 1.
        calls: Calls of it among those that were looked at in the run.
        verify: What was compared.
        signature: Its inputs, state and outputs, as ``OriginalProfile.signature`` has them, and ``reads`` likewise.
        eager_us: The original's time, and ``us`` the candidate's, on one placement of a full verdict; null where not timed.
    """

    name: str
    number: int
    calls: int
    verify: VerifyReport
    signature: tuple[str, ...] = ()
    eager_us: float | None = None
    us: float | None = None
    reads: dict[str, Any] | None = None

    @property
    def ratio(self) -> float | None:
        """How much faster than the original the candidate is; null where it was not timed."""
        return self.eager_us / self.us if self.eager_us and self.us else None

    @property
    def covered(self) -> bool:
        """Whether what lands runs the kernels there: they are right, and were not seen to be slower than the original."""
        return self.verify.ok and (self.ratio is None or self.ratio >= NOT_SLOWER)

    def __str__(self) -> str:
        where = f"{self.name} ({self.calls} calls)"
        if not self.verify.ok:
            failed = next((case for case in self.verify.cases if not case.ok), None)
            return f"{where}: NOT COVERED, {f'{failed.name}: {failed.reason}' if failed else 'nothing was compared'}"
        timed = "" if self.ratio is None else f", {self.ratio:.2f} times as fast as eager"
        return f"{where}: {'right' if self.covered else 'NOT COVERED, right'}{timed}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FormReport:
        """Rebuild it from its JSON form."""
        verify = VerifyReport.from_json(data["verify"])
        return known(cls, {**data, "verify": verify, "signature": tuple(data["signature"])})


def known(record: type[T], data: dict[str, Any]) -> T:
    """Build a record from the keys it knows, so that an older reader accepts a newer writer."""
    names = record.__dataclass_fields__  # type: ignore[attr-defined]
    return record(**{key: value for key, value in data.items() if key in names})
