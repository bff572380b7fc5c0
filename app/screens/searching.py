"""The way from a session to a search: the one that it is of, or a new one on its module."""

from __future__ import annotations

from pathlib import Path

from textual.app import App

from agent.session import Session
from app.screens.search import SearchScreen
from app.screens.search_form import SearchFormScreen
from app.search import SearchController
from sandbox.errors import UsageError


def search_on(app: App[object], session: Session) -> None:
    """Open the search that a session is of; else ask for a new one on its module, and begin it."""
    if session.search:
        _open(app, Path(session.search["folder"]))
    else:
        app.push_screen(SearchFormScreen(session), lambda folder: _open(app, folder, run=True))


def _open(app: App[object], folder: Path | None, *, run: bool = False) -> None:
    from app.ide import WarpsmithApp

    assert isinstance(app, WarpsmithApp)
    if folder is None:
        return
    try:
        app.open_screen(SearchScreen(SearchController(folder), run=run))
    except UsageError as error:
        app.notify(str(error), severity="error")
