"""The permission modes, and how a call is decided: a rule that denies wins, then one that asks, then one that allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.permissions.rules import WRITING, Rule, covers, first_fit

MODES = {
    "read-only": "the agent reads and measures; it changes and runs nothing",
    "ask": "every change of a file and every command is asked about, unless a rule allows it",
    "auto": "the agent works freely within its sandbox; nothing lands without you",
}
ASKED_ABOUT = (*WRITING, "Bash")
_LOOKS = (
    *("Read", "Glob", "Grep", "Recall", "Skill", "TodoWrite", "BashOutput", "KillBash"),
    *("Check", "Profile", "Sanitize", "Ncu", "Sweep", "Ablate"),
)
"""What changes nothing of the workspace; the judge looks at a copy, in a sandbox of its own."""

Effect = Literal["allow", "ask", "deny"]


@dataclass(frozen=True)
class Rules:
    """The rules of the three lists."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    def forbid_writing(self, path: str) -> bool:
        """Whether no tool may write at a path of the workspace; of a folder, given with a ``/`` at its end, anywhere below."""
        return any(rule.fits("Write", path) for rule in self.deny)


@dataclass(frozen=True)
class Decision:
    """What becomes of a call. ``why`` is for the model where it is denied; ``rule`` is what asks, where a rule does."""

    effect: Effect
    why: str = ""
    rule: Rule | None = None


def next_mode(mode: str) -> str:
    """Return the mode that follows."""
    order = list(MODES)
    return order[(order.index(mode) + 1) % len(order)]


def decide(
    mode: str, rules: Rules, approved: Sequence[Rule], tool: str, arguments: Mapping[str, Any], *, read_only: bool
) -> Decision:
    """Decide about one call.

    Args:
        mode: One of ``MODES``.
        rules: The developer's, with what the project adds to ``ask`` and ``deny``.
        approved: What the developer allowed when asked, for this session or this project.
        tool: The tool's name.
        arguments: What it is called with, paths relative to the workspace.
        read_only: Whether the tool says of itself that it leaves everything as it is.
    """
    if rule := first_fit(rules.deny, tool, arguments):
        return Decision("deny", f"{tool} was not run: the developer's rule {rule} denies it. Find another way.", rule)
    if mode == "read-only" and tool not in _LOOKS and not (read_only and tool not in ASKED_ABOUT):
        return Decision(
            "deny",
            f"{tool} was not run: the developer has put this session into read-only mode. You can read, search and measure; "
            "say what you would change.",
        )
    if rule := first_fit(rules.ask, tool, arguments):
        return Decision("ask", rule=rule)
    if mode != "ask" or tool not in ASKED_ABOUT or covers((*rules.allow, *approved), tool, arguments):
        return Decision("allow")
    return Decision("ask")
