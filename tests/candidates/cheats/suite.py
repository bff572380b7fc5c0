"""Every cheat of the suite, from the files beside this one."""

from __future__ import annotations

from tests.candidates.cheats import outputs
from tests.candidates.frame import Candidate

CHEATS: dict[str, Candidate] = {f"{cheat.row} {cheat.name}": cheat for cheat in (*outputs.CHEATS,)}
