"""Landing: putting an accepted state into the developer's tree, and taking it out again."""

from agent.landing.change import FileChange
from agent.landing.hunks import WHOLE_FILE, Hunk, hunks, select
from agent.landing.plan import landed_form, plan
from agent.landing.undo import undo
from agent.landing.verified import VerifiedInputs
from agent.landing.write import land

__all__ = [
    "WHOLE_FILE",
    "FileChange",
    "Hunk",
    "VerifiedInputs",
    "hunks",
    "land",
    "landed_form",
    "plan",
    "select",
    "undo",
]
