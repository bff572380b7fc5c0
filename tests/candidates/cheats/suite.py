"""Every cheat of the suite, from the files beside this one."""

from __future__ import annotations

from tests.candidates.cheats import (
    answers,
    caching,
    delegation,
    fetched,
    later,
    native,
    numerics,
    outputs,
    peeking,
    phases,
    replay,
    soundness,
    structure,
    tampering,
    timing,
)
from tests.candidates.frame import Candidate

_FILES = (
    outputs,
    peeking,
    caching,
    replay,
    timing,
    later,
    phases,
    numerics,
    structure,
    answers,
    soundness,
    delegation,
    fetched,
    tampering,
    native,
)

CHEATS: dict[str, Candidate] = {f"{cheat.row} {cheat.name}": cheat for file in _FILES for cheat in file.CHEATS}
