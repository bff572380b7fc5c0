"""Asks for what a search needs: how many agents, with which ideas and models, in how many rounds, for how many turns."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.widgets import Input

from agent.model import require_model
from agent.search.record import create_record
from agent.session import Session
from app.screens.form import FormScreen
from sandbox.counts import count

_NUMBERS = ("agents", "rounds", "turns")
HINTS = {
    "agents": "so many side by side, each in a session of its own",
    "ideas": "what they begin with, separated by ; (empty: ours, far apart)",
    "models": "one for each agent in turn, separated by commas",
    "rounds": "each begins from the best so far",
    "turns": "shared out among agents and rounds; other limits are as in your settings",
}


class SearchFormScreen(FormScreen):
    """Returns the folder of the search that was made, or None.

    Args:
        session: The session whose task is searched on, with its settings.
    """

    FIELDS: ClassVar[dict[str, str]] = {name: name for name in HINTS}
    ENTER = "lets them begin"

    def __init__(self, session: Session) -> None:
        self._session = session
        settings = session.settings
        values = {
            "agents": "3",
            "ideas": "",
            "models": settings.model,
            "rounds": "1",
            "turns": str(settings.turn_limit),
        }
        head = f"{session.task.id}: a search begins from the original, the judge says whose attempt is the best."
        super().__init__("Several agents side by side", head, HINTS, values)

    def on_mount(self) -> None:
        """Go to the first field."""
        self.query_one("#agents", Input).focus()

    def error(self, name: str) -> str:
        """Return what is wrong with a field, or an empty text."""
        if name in _NUMBERS:
            try:
                count(self.value(name))
            except argparse.ArgumentTypeError as error:
                return f"{error}."
        if name == "models" and not _parts(self.value(name), ","):
            return "Without a model nobody writes kernels. Name one here, or set WARPSMITH_MODEL."
        return ""

    def make(self, values: Mapping[str, str]) -> Path:
        """Make the search; runs in a thread."""
        models, ideas = _parts(values["models"], ","), _parts(values["ideas"], ";")
        settings = replace(self._session.settings, turn_limit=count(values["turns"]))
        for name in models:
            require_model(replace(settings, model=name))
        agents, rounds = count(values["agents"]), count(values["rounds"])
        record = create_record(self._session.task, settings, agents=agents, rounds=rounds, ideas=ideas, models=models)
        return record.folder


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
