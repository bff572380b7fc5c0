"""Landing and its undo: says what will happen, and sends the command once that is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from textual.app import App

from agent import commands
from agent.landing.change import FileChange
from agent.landing.hunks import hunks, select
from app.controller import SessionController
from app.screens.choice import ChoiceScreen
from app.state import Judged
from app.text.landing import landing_rows, undo_rows
from sandbox.errors import WarpsmithError


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
        return

    def decided(choice: int | None) -> None:
        if choice == 1:
            controller.send(commands.Undo(landing.number))

    choices = ["Leave it as it is", "Take it back"]
    app.push_screen(ChoiceScreen(f"Undo landing {landing.number}", partial(undo_rows, landing), choices), decided)


async def _propose(app: App[object], controller: SessionController, judged: Judged) -> None:
    rejected = _rejected(controller, judged)
    try:
        changes, total = await asyncio.to_thread(_plan, controller, judged, rejected)
    except WarpsmithError as error:
        app.notify(str(error), severity="error", timeout=10)
        return

    def decided(choice: int | None) -> None:
        if choice == 1:
            controller.send(commands.Land(judged.number))

    told = partial(landing_rows, judged, changes, len(rejected), total)
    rest = "without what I rejected" if rejected else "all of it"
    choices = ["Not now", f"Land it, {rest}"]
    app.push_screen(ChoiceScreen(f"Land attempt {judged.number} in your project", told, choices), decided)


def _rejected(controller: SessionController, judged: Judged) -> set[tuple[str, str]]:
    decisions = controller.state.decisions.items()
    return {(file, hunk) for (n, file, hunk), d in decisions if n == judged.number and not d.accepted}


def _plan(
    controller: SessionController, judged: Judged, rejected: set[tuple[str, str]]
) -> tuple[Sequence[FileChange], int]:
    """Work out what would be written, and how many hunks there are; runs in a thread."""
    from agent.landing import VerifiedInputs, plan

    task = controller.task
    original = controller.files.of(controller.state.files)
    files = controller.files.of(judged.files)
    signature = controller.state.profile["signature"] if controller.state.profile else ()
    verified = VerifiedInputs.of(task, signature, original[task.candidate_file])
    changes = plan(task, original, select(original, files, rejected), judged.verdict, verified)
    return changes, len(hunks(original, files))
