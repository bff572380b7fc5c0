"""The message of a commit: what landed, and the figures of the verdict it rests on."""

from __future__ import annotations

from textwrap import fill

from agent.landing.kept import Kept
from sandbox.verdict import Verdict


def landing_message(kept: Kept, verdict: Verdict) -> str:
    """Return the message of the commit that lands."""
    eager = kept.speedup.get("eager")
    faster = eager is not None and eager[0] > 1
    subject = (
        f"Make {kept.class_name} {eager[0]:.2f} times as fast" if eager and faster else f"Kernels for {kept.class_name}"
    )
    lines = [f"{subject} ({kept.file})", "", *_figures(kept, verdict), "", *_what(kept)]
    return "\n".join(lines) + "\n"


def undo_message(name: str, commit: str = "") -> str:
    """Return the message of the commit that takes a landing's back."""
    path, _, class_name = name.rpartition(":")
    reverted = f"\nThis reverts commit {commit}.\n" if commit else ""
    return f"Take back the kernels of {class_name} ({path})\n{reverted}"


def redo_message(name: str, commit: str) -> str:
    """Return the message of the commit that lands again what a commit took back."""
    path, _, class_name = name.rpartition(":")
    return f"Land the kernels of {class_name} again ({path})\n\nThis reverts commit {commit}.\n"


def _figures(kept: Kept, verdict: Verdict) -> list[str]:
    where = verdict.environment
    machine = where.get("cpu", "a CPU") if where.get("device") == "cpu" else where.get("device", "")
    versions = [f"{name} {where[key]}" for name, key in _VERSIONS if where.get(key)]
    cases = len(verdict.verify.cases) if verdict.verify is not None else 0
    earned = "not timed" if kept.reward is None else f"reward {kept.reward}"
    judged = f"Judged in full by Warpsmith on {', '.join([str(machine), *versions])}: {earned}"
    lines = [f"{judged}, {cases} cases right."] if cases else [f"{judged}."]
    lines += [f"It {verdict.coverage}."] if verdict.coverage else []
    lines = [fill(line, 76) for line in lines]
    lines += [
        f"  {ratio:.2f} times as fast as {name} ({low:.2f} to {high:.2f})"
        for name, (ratio, low, high) in kept.speedup.items()
    ]
    return lines


_VERSIONS = (("torch", "torch"), ("CUDA", "cuda"), ("driver", "driver"))


def _what(kept: Kept) -> list[str]:
    folder = f"{kept.folder} holds the kernels and the original code, which runs where they do not apply."
    return [fill(f"{folder} Taken back by: warpsmith landed undo {kept.class_name}", 76)]
