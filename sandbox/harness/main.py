"""Starts one of the judge's processes in the developer's interpreter: ``main.py bench|zygote|worker|solo OPTIONS``.

The harness is found by path and leaves ``sys.path`` again, so that it shares no import name with the developer's
project, which may well have packages called like ours.
"""

import importlib
import sys
from pathlib import Path

ROLES = ("bench", "zygote", "worker", "solo")


def main() -> int:
    """Run the role named by the first argument; the rest are its own."""
    role, *arguments = sys.argv[1:]
    if role not in ROLES:
        sys.stderr.write("this program is started by Warpsmith\n")
        return 2
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [here, *(entry for entry in sys.path if entry not in ("", here))]
    module = importlib.import_module("warpsmith_harness." + role)
    sys.path.remove(here)
    sys.argv[1:] = []
    return int(module.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
