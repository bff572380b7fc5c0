"""Why there is nothing to rank: which of the many reasons it is, and what to do about it."""

from __future__ import annotations

from sandbox.errors import EnvironmentFault, InternalError, UsageError, WarpsmithError
from sandbox.hotspots.command import Command
from sandbox.hotspots.recording import Recording
from sandbox.hotspots.run import RunEnd

OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (2, 4)


def require_modules(recording: Recording, end: RunEnd, command: Command) -> None:
    """Return where modules were recorded, and say why not where none were.

    Raises:
        UsageError: The command failed, or calls no module of torch that can be seen.
        EnvironmentFault: Its Python or torch is too old.
        InternalError: The recorder failed.
    """
    if any(each.calls for process in recording.processes for each in process.classes):
        return
    raise _reason(recording, end, command)


def _reason(recording: Recording, end: RunEnd, command: Command) -> WarpsmithError:
    if recording.faults:
        return InternalError(f"The recorder failed:\n{recording.faults[0]}", where=command.text)
    if end.status:
        return UsageError(
            f"The command failed after {end.seconds:.1f} s, before any module was called: {in_words(end.status)}.",
            where=command.text,
            next_step="Its own messages are above. Run it without warpsmith until it works, "
            "with an empty stdin (< /dev/null) as here.",
        )
    if not recording.pythons:
        return UsageError(
            "No Python process of this command could be recorded.",
            where=command.text,
            next_step="It must start Python here, with its environment handed on: not with -I, -E or -S, not in a container "
            "and not on another machine.",
        )
    if old := [version for version in recording.pythons if version < OLDEST_PYTHON]:
        return EnvironmentFault(
            f"Python {_dotted(old[0])} is too old: modules are recorded from Python {_dotted(OLDEST_PYTHON)} on.",
            where=command.text,
            next_step="Use a newer interpreter, perhaps with --python PATH.",
        )
    if not recording.torches:
        return UsageError("The command did not import torch.", where=command.text, next_step=_LONGER)
    if all(_version(torch) < OLDEST_TORCH for torch in recording.torches):
        return EnvironmentFault(
            f"torch {recording.torches[0]} is too old: modules are recorded from torch {_dotted(OLDEST_TORCH)} on.",
            where=command.text,
            next_step="Use an environment with a newer torch, perhaps with --python PATH.",
        )
    return UsageError(
        "The command imported torch and called no module.",
        where=command.text,
        next_step=f"{_LONGER} Its stdin is empty: one that waits for input there ends at once.",
    )


_LONGER = "Name the command that trains or serves the model."


def in_words(status: int) -> str:
    """Say how a command ended by itself."""
    return f"exit status {status}" if status >= 0 else f"killed by signal {-status}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
