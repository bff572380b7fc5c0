"""Side-by-side timings against the budgets of the design, printed as a table of seconds and ratios.

    python -m tests.bench [--device cpu|cuda] [--json FILE]
                          [--only verdict trace thinking calls headers landed paint session isolation]

Each row is printed, and with ``--json`` written as a line of a file, the moment it is known. Nothing here passes or fails:
times depend on the machine, so both sides run in the same minute and ratios are read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from sandbox.machine.devices import resolve_device
from tests.bench.row import Row

Bench = Callable[[str], Iterator[Row]]


def main() -> int:
    """Run the chosen benches and print their rows as they come."""
    from tests.bench import calls, engine, headers, isolation, landed, screen, thinking, trace, verdict

    benches: dict[str, Bench] = {
        "verdict": verdict.rows,
        "trace": trace.rows,
        "thinking": thinking.rows,
        "calls": calls.rows,
        "headers": headers.rows,
        "landed": landed.rows,
        "paint": screen.rows,
        "session": engine.rows,
        "isolation": isolation.rows,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", nargs="*", choices=list(benches), default=list(benches))
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each row to this file, a JSON object a line")
    options = parser.parse_args()
    device = resolve_device(options.device)
    print(f"{'what':44} {'ours':>13} {'budget':>10} {'usual':>12} {'usual/ours':>8}")
    for name in options.only:
        for row in benches[name](device):
            print(row.text(), flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"bench": name, "device": device, **asdict(row)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
