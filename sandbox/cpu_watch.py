"""Tells whether the processes that were timed on the CPU had it when they wanted it, from the scheduler's own account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_WAITED_SHARE = 0.1
_LEAST_WAITED_NS = 1_000_000


@dataclass(frozen=True)
class ThreadAccount:
    """Nanoseconds a thread ran, and nanoseconds it was ready to run and waited for a processor (``schedstat``)."""

    ran: int
    waited: int


class CpuWatch:
    """Compares how long our threads waited for a processor with how long they ran.

    Load averages tell of the minute before; this tells of the samples themselves. A machine whose kernel keeps no such
    account reports nothing.

    Attributes:
        driver: Empty; a CPU has none.
    """

    driver = ""

    def __init__(self) -> None:
        self._seen: dict[int, ThreadAccount] = {}

    def trouble(self, own: set[int]) -> str:
        """Return why samples since the last look are not to be trusted, or an empty string."""
        now = dict(_accounts(own))
        nothing = ThreadAccount(0, 0)
        waited = sum(account.waited - self._seen.get(thread, nothing).waited for thread, account in now.items())
        ran = sum(account.ran - self._seen.get(thread, nothing).ran for thread, account in now.items())
        self._seen = now
        if waited < _LEAST_WAITED_NS or waited < _WAITED_SHARE * ran:
            return ""
        return (
            f"other programs kept the CPU busy: threads waited {waited / 1e6:.0f} ms for it and ran {ran / 1e6:.0f} ms"
        )

    def close(self) -> None:
        """Forget what was seen."""
        self._seen.clear()


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
