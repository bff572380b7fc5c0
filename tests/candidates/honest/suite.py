"""Every honest candidate of the suite, from the files beside this one."""

from __future__ import annotations

from tests.candidates.frame import Candidate

HONEST: dict[str, Candidate] = {candidate.name: candidate for candidate in ()}
