"""What a capture shares with the judge's own processes; found beside this folder, which leaves ``sys.path`` again."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent.parent)

sys.path.insert(0, _HERE)
try:
    from warpsmith_harness import values
    from warpsmith_harness.problems import summary
    from warpsmith_harness.transport import span
finally:
    sys.path.remove(_HERE)

__all__ = ["span", "summary", "values"]
