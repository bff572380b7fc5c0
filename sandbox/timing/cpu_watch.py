"""Tells whether the processes that were timed on the CPU had it when they wanted it, from the scheduler's own account."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_WAITED_SHARE = 0.1
_OTHERS_SHARE = 0.2
_LEAST_WAITED_NS = 1_000_000
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_ROUNDING_NS = 2 * _TICK_NS


@dataclass(frozen=True)
class ThreadAccount:
    """Nanoseconds a thread ran, and nanoseconds it was ready to run and waited for a processor (``schedstat``)."""

    ran: int
    waited: int


class CpuWatch:
    """Compares how long our threads waited for a processor with how long they ran, and with how long others ran.

    Waiting alone does not tell: threads of one program keep each other waiting too. Load averages tell of the minute
    before; this tells of the samples themselves. A machine whose kernel keeps no such account reports nothing.

    Attributes:
        driver: Empty; a CPU has none.
    """

    driver = ""

    def __init__(self) -> None:
        self._seen: dict[int, ThreadAccount] = {}
        self._all_ran = _all_ran()

    def trouble(self, own: set[int]) -> str:
        """Return why samples since the last look are not to be trusted, or an empty string."""
        now, all_ran, nothing = dict(_accounts(own)), _all_ran(), ThreadAccount(0, 0)
        waited = sum(account.waited - self._seen.get(thread, nothing).waited for thread, account in now.items())
        ran = sum(account.ran - self._seen.get(thread, nothing).ran for thread, account in now.items())
        others = all_ran - self._all_ran - ran
        self._seen, self._all_ran = now, all_ran
        if waited < max(_LEAST_WAITED_NS, _WAITED_SHARE * ran) or others < _ROUNDING_NS + _OTHERS_SHARE * ran:
            return ""
        return (
            f"other programs kept the CPU busy for {others / 1e6:.0f} ms, while ours waited {waited / 1e6:.0f} ms for it and "
            f"ran {ran / 1e6:.0f} ms"
        )

    def clocks(self) -> dict[str, float]:
        """Know nothing of clocks."""
        return {}

    def notes(self) -> list[str]:
        """Have nothing to add."""
        return []

    def close(self) -> None:
        """Forget what was seen."""
        self._seen.clear()


def ran(processes: set[int]) -> dict[int, int]:
    """Return nanoseconds that each thread of these processes has had a processor, as the scheduler counts them."""
    return {thread: account.ran for thread, account in _accounts(processes)}


def busiest_us(before: dict[int, int], after: dict[int, int]) -> float:
    """Return microseconds that the busiest thread ran meanwhile: what happened in that process took at least as long."""
    return max((now - before.get(thread, 0) for thread, now in after.items()), default=0) / 1000


def _all_ran() -> int:
    """Return nanoseconds that all processors were busy, or taken by another virtual machine; 0 where nothing tells."""
    try:
        user, nice, system, _idle, _waiting, *interrupts_and_stolen = _processors()[:8]
    except (OSError, ValueError):
        return 0
    return (user + nice + system + sum(interrupts_and_stolen)) * _TICK_NS


def _processors() -> list[int]:
    with Path("/proc/stat").open() as file:
        return [int(ticks) for ticks in file.readline().split()[1:]]


def _accounts(processes: set[int]) -> Iterator[tuple[int, ThreadAccount]]:
    """Yield the account of every thread of these processes; a thread that has ended is passed over."""
    for process in processes:
        try:
            threads = list(Path(f"/proc/{process}/task").iterdir())
        except OSError:
            continue
        for thread in threads:
            try:
                ran, waited, _ = (thread / "schedstat").read_text().split()
            except (OSError, ValueError):
                continue
            yield int(thread.name), ThreadAccount(int(ran), int(waited))
