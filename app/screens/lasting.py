"""A screen that goes on below those that are opened over it, such as a search."""

from __future__ import annotations

from abc import abstractmethod

from textual.screen import Screen


class LastingScreen(Screen[None]):
    """Is not replaced by what is opened from it, and says how to go on once the IDE was left."""

    @abstractmethod
    def farewell(self, options: str) -> str:
        """Return what to tell when the IDE was left; ``options`` go with every command that it names."""
