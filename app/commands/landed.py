"""What has landed in this project, and whether it still holds.

warpsmith landed                      list the landings: the verdict then, the state now
warpsmith landed check [NAME]         judge again, in full, what lies in the project against its kept original
warpsmith landed retune NAME          open a session on the original; what it lands takes the landing's place
warpsmith landed undo NAME            take a landing back (--partly: as far as edits since allow; --commit: as one commit)

NAME is a class, or as listed. Exit code of check 0: all are correct, and none is slower than its original.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.keeping import judge_again, note_verdict, session_to_retune, settle_left, slower, undo_landing
from agent.landing.index import find, project_root, read_index
from agent.landing.kept import Kept
from agent.landing.standing import Standing, standing
from agent.settings import Settings
from app.commands.check import narrate
from app.commands.options import add_machine_options, add_model_options, settings_from
from app.report import report
from sandbox.errors import EnvironmentFault, ExitCode, UsageError, WarpsmithError
from sandbox.machine.devices import resolve_device
from sandbox.machine.present import present
from sandbox.target import find_interpreter
from sandbox.verdict import Verdict

_ACTIONS = ("list", "check", "retune", "undo")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("action", metavar="ACTION", nargs="?", default="list", help="list, check, retune or undo")
    parser.add_argument("name", metavar="NAME", nargs="?", help="a landing")
    parser.add_argument(
        "--project", metavar="DIR", type=Path, default=Path(), help="the project (default: where you are)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--note", action="store_true", help="check: let the index hold the new verdict of what is correct"
    )
    parser.add_argument(
        "--partly", action="store_true", help="undo: take back what can be, where files were edited since"
    )
    parser.add_argument("--commit", action="store_true", help="undo: make one commit of it")
    parser.add_argument("--start", action="store_true", help="retune: let the agent begin at once")
    parser.add_argument("--headless", action="store_true", help="retune: without a screen")
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> ExitCode:
    """Do what was asked."""
    _require_fitting(options)
    if not options.project.is_dir():
        raise UsageError(
            "There is no such folder.", where=str(options.project), next_step="Name your project's folder."
        )
    project = project_root(options.project.resolve())
    settings = settings_from(options)
    settle_left(project, settings)
    entries = read_index(project)
    if options.action == "list":
        return _list(project, entries, settings, as_json=options.json)
    if options.action == "check":
        chosen = [find(entries, options.name, project)] if options.name else list(entries.values())
        return _check(project, chosen, settings, options)
    kept = find(entries, options.name, project)
    return (
        _undo(project, kept, settings, options)
        if options.action == "undo"
        else _retune(project, kept, settings, options)
    )


def _require_fitting(options: argparse.Namespace) -> None:
    """Refuse what is no action, a name that is missing or too much, and an option of another action."""
    if options.action not in _ACTIONS:
        raise UsageError(
            f"{options.action!r} is no action: there are {', '.join(_ACTIONS)}.",
            where="command line",
            next_step=f"A landing is named behind one: warpsmith landed check {options.action}",
        )
    if options.action in ("retune", "undo") and not options.name:
        raise UsageError(
            f"Which landing to {options.action} is not said.",
            where="command line",
            next_step="Name one: warpsmith landed lists them.",
        )
    if options.action == "list" and options.name:
        raise UsageError(
            "A list takes no name.",
            where=options.name,
            next_step=f"Did you mean: warpsmith landed check {options.name}",
        )
    owners = {"note": "check", "partly": "undo", "commit": "undo", "start": "retune", "headless": "retune"}
    for option, action in owners.items():
        if getattr(options, option) and options.action != action:
            raise UsageError(
                f"--{option} is an option of {action}.", where=f"landed {options.action}", next_step="Leave it out."
            )


def _list(project: Path, entries: dict[str, Kept], settings: Settings, *, as_json: bool) -> ExitCode:
    found = [_standing(project, kept, settings) for kept in entries.values()]
    if as_json:
        print(json.dumps([_as_json(each) for each in found]))
    elif not found:
        print(f"Nothing has landed in {project}.")
    else:
        print("\n".join([*(line for each in found for line in _lines(each)), *_asked(found, settings)]))
    return ExitCode.OK


def _check(project: Path, chosen: list[Kept], settings: Settings, options: argparse.Namespace) -> ExitCode:
    told, codes = [], []
    for kept in chosen:
        before = _standing(project, kept, settings)
        print(f"landed   {kept.name}: {before.state}", *_asked([before], settings), sep="\n", file=sys.stderr)
        python, device = _machine(kept, settings)
        try:
            verdict = judge_again(project, kept, settings, python, device, narrate)
        except WarpsmithError as error:
            if len(chosen) == 1:
                raise
            codes.append(error.exit_code)
            told.append(
                ({**_as_json(before), "verdict": None, "slower": None, "problem": error.what}, f"{kept.name}  {error}")
            )
            continue
        if options.note and verdict.correct and not slower(verdict):
            note_verdict(project, kept, verdict, settings)
        codes.append(_code(verdict, slower=slower(verdict)))
        told.append(
            ({**_as_json(before), "verdict": verdict.to_json(), "slower": slower(verdict)}, _judged(before, verdict))
        )
    print(
        json.dumps([data for data, _ in told])
        if options.json
        else "\n\n".join(text for _, text in told) or "Nothing has landed."
    )
    return max(codes, default=ExitCode.OK)


def _undo(project: Path, kept: Kept, settings: Settings, options: argparse.Namespace) -> ExitCode:
    done = undo_landing(project, kept, settings, partly=options.partly, commit=options.commit)
    if options.json:
        print(json.dumps({"name": kept.name, **dataclasses.asdict(done)}))
        return ExitCode.OK
    print(f"{kept.name} was taken back" + (f", by commit {done.commit[:9]}." if done.commit else "."))
    print("\n".join(f"  {Path(path).relative_to(project)}  {outcome}" for path, outcome in done.files))
    for note in done.notes:
        print(note)
    if done.session:
        print(f"To land it again: warpsmith sessions resume {done.session}, then U.")
    return ExitCode.OK


def _retune(project: Path, kept: Kept, settings: Settings, options: argparse.Namespace) -> ExitCode:
    python, device = _machine(kept, settings)
    if options.headless:
        from agent.headless import resume
        from agent.model import require_model

        require_model(settings)
        return resume(session_to_retune(project, kept, settings, python, device), json=options.json)
    from app.ide import require_terminal, run_ide

    require_terminal(f"warpsmith landed retune {kept.class_name} --headless")
    return ExitCode(run_ide(session_to_retune(project, kept, settings, python, device), autostart=options.start))


def _machine(kept: Kept, settings: Settings) -> tuple[Path, str]:
    """Return the interpreter and the device a landing is judged with: its own kind, unless another is named."""
    wanted = kept.device if settings.device == "auto" else settings.device
    return find_interpreter(settings.python), resolve_device(wanted)


def _standing(project: Path, kept: Kept, settings: Settings) -> Standing:
    """Look at a landing; where this machine lacks its device or an interpreter, only at its files."""
    try:
        here = present(*_machine(kept, settings))
    except (EnvironmentFault, UsageError) as error:
        print(f"{kept.name}: only its files are compared. {error}", file=sys.stderr)
        here = {}
    return standing(project, kept, here)


def _lines(each: Standing) -> list[str]:
    kept = each.kept
    then = ", ".join(
        f"{ratio:.2f}× {name} [{low:.2f}, {high:.2f}]" for name, (ratio, low, high) in kept.speedup.items()
    )
    timeless = f"right, and not timed (warpsmith landed check {kept.class_name} --note times it)"
    told = timeless if kept.reward is None else f"reward {kept.reward}: {then}"
    where = kept.environment.get("cpu" if kept.device == "cpu" else "device", "?")
    lines = [
        f"{each.state:8} {kept.name}",
        f"           in {kept.file} and {kept.folder}, landed {kept.landed[:10]}",
        f"           then {told}  ({where}, torch {kept.environment.get('torch', '?')})",
    ]
    return lines + [f"           {reason}" for reason in each.reasons]


def _asked(found: Sequence[Standing], settings: Settings) -> list[str]:
    """Say whose versions a stale landing was compared with: the interpreter may not be the project's."""
    if not any(each.state == "stale" for each in found):
        return []
    try:
        python = find_interpreter(settings.python)
    except EnvironmentFault:
        return []
    whose = "Warpsmith's own interpreter" if python.parent == Path(sys.executable).parent else "the interpreter"
    return [f"asked {whose}, {python}; --python, or an active environment, names the project's"]


def _judged(before: Standing, verdict: Verdict) -> str:
    eager = verdict.over_eager
    then = before.kept.speedup.get("eager")
    if verdict.reward is None:
        now = "is correct, but could not be timed" if verdict.correct else "could not be judged"
    elif not verdict.correct:
        now = "is not correct any more"
    elif slower(verdict):
        now = "is slower than its original now"
    else:
        now = "is correct"
    ratios = f": {then[0]:.2f}× eager then, {eager.ratio:.2f}× now" if then and eager else ""
    reasons = "".join(f"\n           {reason}" for reason in before.reasons)
    return f"{before.state:8} {before.kept.name} {now}{ratios}{reasons}\n{report(verdict)}"


def _code(verdict: Verdict, *, slower: bool) -> ExitCode:
    if verdict.reward is None:
        return ExitCode.ENVIRONMENT
    return ExitCode.FAILED if slower or not verdict.correct else ExitCode.OK


def _as_json(each: Standing) -> dict[str, Any]:
    return {"name": each.kept.name, "state": each.state, "reasons": list(each.reasons), **each.kept.to_json()}
