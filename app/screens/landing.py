"""Landing and its undo: says what will happen, and sends the command once that is confirmed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from textual.app import App

from agent import commands
from agent.landing.hunks import hunks, select
from app.controller import SessionController
from app.screens.choice import ChoiceScreen
from app.state import Judged, Landing
from app.text.landing import Proposal, landing_rows, redo_rows, undo_rows
from sandbox.errors import EnvironmentFault, LandingRefused, WarpsmithError

if TYPE_CHECKING:
    from agent.landing.undo import StepBack


def propose_landing(app: App[object], controller: SessionController, judged: Judged | None) -> None:
    """Ask whether an attempt shall land; one that is not correct cannot."""
    if judged is None:
        app.notify("There is no attempt to land yet.", severity="warning")
    elif controller.state.running:
        app.notify("The agent works on it. Stop it first (Esc), then land.", severity="warning")
    elif not judged.verdict.correct:
        app.notify(f"Attempt {judged.number} is not correct: {judged.verdict.reason}", severity="warning")
    elif controller.state.stands_whole(judged.number) and not _rejected(controller, judged):
        app.notify(f"All of attempt {judged.number} has landed already; undo takes it back.")
    else:
        app.run_worker(_propose(app, controller, judged), exclusive=True, group="landing")


def propose_undo(app: App[object], controller: SessionController) -> None:
    """Ask whether the last landing shall be taken back."""
    landing = controller.state.landing_to_undo()
    if landing is None:
        app.notify("Nothing has landed, so there is nothing to undo.", severity="warning")
    else:
        app.run_worker(_propose_undo(app, controller, landing), exclusive=True, group="landing")


def propose_redo(app: App[object], controller: SessionController) -> None:
    """Ask whether what was taken back last shall land again."""
    landing = controller.state.landing_to_redo()
    if landing is None:
        app.notify("No landing was taken back, so there is none to land again.", severity="warning")
        return

    def decided(choice: int | None) -> None:
        if choice == 1:
            controller.send(commands.Redo(landing.number))

    choices = ["Leave it as it is", "Land it again"]
    app.push_screen(ChoiceScreen(f"Landing {landing.number} again", partial(redo_rows, landing), choices), decided)


async def _propose(app: App[object], controller: SessionController, judged: Judged) -> None:
    rejected = _rejected(controller, judged)
    try:
        proposal = await asyncio.to_thread(_plan, controller, judged, rejected)
    except WarpsmithError as error:
        app.notify(str(error), severity="error", timeout=10)
        return

    def decided(choice: int | None) -> None:
        if choice:
            controller.send(commands.Land(judged.number, commit=choice == 2))

    told = partial(landing_rows, judged, proposal, len(rejected))
    rest = "without what I rejected" if rejected else "all of it"
    choices = ["Not now", f"Land it, {rest}"]
    if proposal.place is not None:
        choices.append(f"Land it, {rest}, as one commit on {proposal.place.branch}")
    app.push_screen(ChoiceScreen(f"Land attempt {judged.number} in your project", told, choices), decided)


async def _propose_undo(app: App[object], controller: SessionController, landing: Landing) -> None:
    try:
        fates = await asyncio.to_thread(_foresee, controller, landing)
    except LandingRefused as refused:
        app.notify(str(refused), severity="error", timeout=10)
        return
    partly = any(not step.exact for step in fates)

    def decided(choice: int | None) -> None:
        if choice == 1:
            controller.send(commands.Undo(landing.number, partly=partly))

    told = partial(undo_rows, landing, {str(step.path): step.outcome for step in fates if not step.exact})
    choices = ["Leave it as it is", "Take back what can be" if partly else "Take it back"]
    app.push_screen(ChoiceScreen(f"Undo landing {landing.number}", told, choices), decided)


def _rejected(controller: SessionController, judged: Judged) -> set[tuple[str, str]]:
    decisions = controller.state.decisions.items()
    return {(file, hunk) for (n, file, hunk), d in decisions if n == judged.number and not d.accepted}


def _plan(controller: SessionController, judged: Judged, rejected: set[tuple[str, str]]) -> Proposal:
    """Work out what would be written; runs in a thread."""
    from agent.landing import VerifiedInputs, plan
    from agent.landing.commit import find_place
    from agent.landing.index import lines_for, noted, project_root
    from agent.landing.kept import kept_of

    task = controller.task.landing
    original = controller.files.of(controller.state.files)
    files = controller.files.of(judged.files)
    verified = VerifiedInputs.by(controller.state.profile or {}, task, original[task.candidate_file])
    changes = plan(task, original, select(original, files, rejected), judged.verdict, verified)
    kept = kept_of(task, changes, judged.verdict, project_root(task.path))
    changes += noted(project_root(task.path), kept.name, lines_for(kept))
    total = len(hunks(original, files))
    try:
        return Proposal(changes, total, find_place(changes))
    except LandingRefused as refused:
        return Proposal(changes, total, None, refused.what)


def _foresee(controller: SessionController, landing: Landing) -> list[StepBack]:
    """Work out what an undo would do to each file, where the session can still tell; runs in a thread."""
    from agent.landing.deed import Journal
    from agent.landing.index import project_root
    from agent.landing.kept import name_of
    from agent.landing.taking_back import take_back

    task, journal = controller.task.landing, Journal(controller.folder)
    project = project_root(task.path)
    try:
        changes = [journal.change(entry) for entry in landing.files]
    except (EnvironmentFault, KeyError):
        return []
    return take_back(changes, project, name_of(task, project), partly=True)
