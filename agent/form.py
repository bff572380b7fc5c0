"""A session's best attempt in the form in which it would land, judged so and kept in the session's own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent.landing import VerifiedInputs, landed_form
from agent.landing_desk import refusal
from agent.outcome import best_line
from agent.session import Session, open_session, read_state
from agent.state import Judged, SessionState
from agent.store import read_blob, write_atomically
from sandbox.errors import LandingRefused
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.scratch import scratch_folder
from sandbox.snapshot import write_snapshot

_FORM, _TOLD = "form", "form.json"


def ready_form(folder: Path, *, faster: bool) -> tuple[Path, dict[str, str]]:
    """Return the folder of a session's form, and what is told of it.

    That is ``file``, ``class``, ``module``, ``root``, ``kernels`` and ``init``, as the task has them. The form is made once
    for each best attempt, with a full verdict of the form itself.

    Args:
        folder: The session.
        faster: It has to be faster than eager as well.

    Raises:
        LandingRefused: There is no correct attempt, or it does not pass in its landed form.
        TaskError, EnvironmentFault: It could not be judged.
    """
    session, state = open_session(folder), read_state(folder)
    best = state.best
    if best is None:
        next_step = f"See why: warpsmith sessions show {session.id}"
        raise LandingRefused(f"There is nothing to load: {best_line(state)}.", where=str(folder), next_step=next_step)
    form = folder / _FORM / str(best.attempt)
    if not (form / _TOLD).is_file():
        _make(session, state, best, form, faster=faster)
    told: dict[str, str] = json.loads((form / _TOLD).read_bytes())
    return form, told


def _make(session: Session, state: SessionState, best: Judged, form: Path, *, faster: bool) -> None:
    spec, settings = session.task, session.settings
    original = {path: read_blob(session.folder, sha256) for path, sha256 in state.original_files.items()}
    files = {path: read_blob(session.folder, sha256) for path, sha256 in best.files.items()}
    with scratch_folder("warpsmith-form-") as scratch:
        isolation = best_isolation(settings.isolation or None)
        with Judge(spec, isolation=isolation, cache=settings.cache, scratch=scratch / "judge") as judge:
            profile = state.original or judge.original().to_json()
            verified = VerifiedInputs.by(profile, spec, original[spec.candidate_file], best.verdict.verify)
            landed = landed_form(spec, original, files, best.verdict, verified)
            verdict = judge.check(write_snapshot(files, scratch / "candidate"), "full", landed=landed)
    if against := refusal(verdict, faster=faster):
        next_step = f"Let the agent go on: warpsmith sessions resume {session.folder}"
        if verdict.correct and verdict.reward is None:
            next_step = f"It is right, and was not timed: load({str(session.folder)!r}, module) takes it as it is."
        raise LandingRefused(f"{against}: {verdict.reason}", where=f"attempt {best.attempt}", next_step=next_step)
    write_snapshot(landed, form)
    told: dict[str, Any] = {
        "file": spec.candidate_file,
        "class": spec.candidate_class,
        "module": spec.module_name,
        "root": str(spec.root),
        "kernels": spec.kernels_module,
        "init": spec.init,
    }
    write_atomically(form / _TOLD, json.dumps(told).encode())
