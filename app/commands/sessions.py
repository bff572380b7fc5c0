"""List, show, resume, land, export and prune sessions.

warpsmith sessions                    list them, newest first
warpsmith sessions show SESSION       attempts, decisions and how it ended (--json: its events; --prompt N: the request of a turn)
warpsmith sessions resume SESSION     open it in the IDE again (--headless: let the agent go on without a screen)
warpsmith sessions land SESSION       land the best attempt without a screen, if it is faster than eager (--commit: as one commit)
warpsmith sessions export SESSION...  as atif, messages, preferences, verl or verl-tasks: --format F [--out FILE]
warpsmith sessions prune              delete old ones (never one that is open, or whose landing stands)

SESSION is 'last', a folder, or the beginning of an id.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent import events as ev
from agent.context.prompts import prompt_of
from agent.outcome import best_line, compared_line, next_line, spent_lines
from agent.session import SessionSummary, change_settings, find_session, list_sessions, open_session, prune, summarise
from agent.state import SessionState
from agent.store import StoredEvent, read_events
from app.commands import exporting
from app.commands.options import add_limit_options, given_limits, settings_from
from app.report import mark
from sandbox.errors import ExitCode
from sandbox.verdict import Verdict


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(action=list_all)
    shared = argparse.ArgumentParser(add_help=False)
    for target in (parser, shared):
        target.add_argument("--home", metavar="DIR", default=argparse.SUPPRESS, help="where sessions are kept")
        target.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    actions = parser.add_subparsers(metavar="ACTION")
    named = {
        "list": list_all,
        "show": show,
        "resume": resume,
        "land": land,
        "export": exporting.export,
        "prune": delete,
    }
    for name, action in named.items():
        each = actions.add_parser(name, parents=[shared])
        each.set_defaults(action=action)
        if name in ("show", "resume", "land"):
            each.add_argument("session", metavar="SESSION", help="'last', a folder, or the beginning of an id")
        if name == "show":
            each.add_argument(
                "--prompt", type=int, metavar="N", help="print messages and tools of turn N's request, as JSON"
            )
        if name == "resume":
            each.add_argument("--model", metavar="NAME", help="let another model go on")
            each.add_argument(
                "--api-base", metavar="URL", default="", help="its server, if it is not its provider's own"
            )
            add_limit_options(each)
            each.add_argument("--headless", action="store_true", help="let the agent go on without a screen")
        if name == "land":
            each.add_argument("--commit", action="store_true", help="as one commit, of the landed files alone")
            each.add_argument(
                "--untimed", action="store_true", help="also what is correct where the machine is too busy to time it"
            )
        if name == "export":
            exporting.add_options(each)
        if name == "prune":
            each.add_argument("--older-than", type=_days, default=30, metavar="DAYS", help="default 30")


def main(options: argparse.Namespace) -> int:
    """Do what was asked."""
    options.json = getattr(options, "json", False)
    return int(options.action(options))


def list_all(options: argparse.Namespace) -> ExitCode:
    """Print a line a session."""
    found = list_sessions(settings_from(options).home)
    if options.json:
        print(json.dumps([_plain(summary) for summary in found]))
    elif not found:
        print("No sessions yet. Begin one with: warpsmith open")
    else:
        print(f"{'id':10} {'age':>5}  {'attempts':>8}  {'best':>7}  {'reward':>6}  {'ended':16} {'model':24} module")
        print("\n".join(_rows(found)))
    return ExitCode.OK


def show(options: argparse.Namespace) -> ExitCode:
    """Print what happened in a session."""
    folder = find_session(settings_from(options).home, options.session)
    stored = list(read_events(folder))
    if options.prompt is not None:
        messages, tools = prompt_of((item.event for item in stored), options.prompt)
        print(json.dumps({"messages": messages, "tools": tools}, indent=2, ensure_ascii=False))
        return ExitCode.OK
    if options.json:
        for event in stored:
            print(json.dumps(ev.to_json(event.event, event.n, event.time)))
        return ExitCode.OK
    print(_row(summarise(folder)))
    print(f"folder    {folder}")
    state, module = SessionState(), str(open_session(folder).task.landing.path)
    for event in stored:
        state.apply(event.event)
        if text := _line(event.event, module):
            print(f"{time.strftime('%H:%M:%S', time.localtime(event.time))}  {text}")
    told = [best_line(state), *spent_lines(state, _minutes(stored)), compared_line(state), next_line(state, folder)]
    print("\n".join(filter(None, told)))
    return ExitCode.OK


def resume(options: argparse.Namespace) -> int:
    """Open a session again, on the screen or without one."""
    folder = find_session(settings_from(options).home, options.session)
    changes = given_limits(options)
    if options.model:
        changes |= {"model": options.model, "api_base": options.api_base}
    if changes:
        change_settings(folder, changes)
    if options.headless:
        from agent.headless import resume as resume_headless

        return resume_headless(folder, json=options.json)
    from app.ide import require_terminal, run_ide

    require_terminal(f"warpsmith sessions resume {options.session} --headless")
    return run_ide(folder)


def land(options: argparse.Namespace) -> ExitCode:
    """Land the best attempt of a session without a screen, and ask no model."""
    from agent.headless import land as land_headless

    folder = find_session(settings_from(options).home, options.session)
    return land_headless(folder, json=options.json, commit=options.commit, untimed=options.untimed)


def delete(options: argparse.Namespace) -> ExitCode:
    """Delete old sessions and say which."""
    gone = prune(settings_from(options).home, older_than_days=options.older_than)
    print(json.dumps([_plain(summary) for summary in gone]) if options.json else f"Deleted {len(gone)} sessions.")
    return ExitCode.OK


def _minutes(stored: Sequence[StoredEvent]) -> float | None:
    """Return what the last run took of its time, by its first and last event where it did not end; null before the first."""
    start = max((n for n, each in enumerate(stored) if isinstance(each.event, ev.RunStarted)), default=None)
    if start is None:
        return None
    ended = (each.event.minutes for each in stored[start:] if isinstance(each.event, ev.RunEnded))
    known = next(ended, None)
    return (stored[-1].time - stored[start].time) / 60 if known is None else known


def _days(text: str) -> float:
    days = float(text)
    if not days >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return days


def _plain(summary: SessionSummary) -> dict[str, object]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in dataclasses.asdict(summary).items()}


def _rows(found: Sequence[SessionSummary]) -> Iterator[str]:
    """Yield a line a session, newest first; those of a search together below a line of its own, where its newest one stands."""
    searches = {summary.search: [each for each in found if each.search == summary.search] for summary in found}
    for summary in found:
        if summary.search is None:
            yield _row(summary)
        elif members := searches.pop(summary.search, []):
            several = "session" if len(members) == 1 else "sessions"
            yield f"search {summary.search}: {len(members)} {several} (go on: warpsmith run --resume-search {summary.search})"
            yield from map(_row, members)


def _row(summary: SessionSummary) -> str:
    best = "-" if summary.best_speedup is None else f"{summary.best_speedup:.2f}×"
    reward = "-" if summary.best_reward is None else str(summary.best_reward)
    ended = summary.outcome + (", landed" if summary.landed else "")
    age = _age(time.time() - summary.created)
    model = summary.model or "-"
    name = f"  {summary.id}" if summary.search else summary.id
    return f"{name:10} {age:>5}  {summary.attempts:>8}  {best:>7}  {reward:>6}  {ended:16} {model:24} {summary.title}"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _line(event: ev.Event, module: str) -> str:
    """Return what a reader of the log should see of an event; empty for the ones that only machines need.

    Args:
        event: The event.
        module: The developer's file, which a landing names before how many others it wrote.
    """
    match event:
        case ev.Attempt(attempt=number, verdict=data):
            verdict = Verdict.from_json(data)
            reward = "none" if verdict.reward is None else verdict.reward
            return f"attempt {number}  {mark(verdict.correct)} reward {reward}  {verdict.reason}"
        case ev.ModelTurn(turn=turn, message=message):
            calls = [call["function"]["name"] for call in message.get("tool_calls") or []]
            first = (message.get("content") or "").strip().partition("\n")[0]
            return f"turn {turn}  {first} {' '.join(f'[{name}]' for name in calls)}".rstrip()
        case ev.UserMessage(origin="contrast", attempts=pair):
            return f"asked to compare attempts {' and '.join(map(str, pair))}"
        case ev.HunkRejected(file=file, reason=reason):
            return f"rejected a hunk of {file}: {reason or 'no reason given'}"
        case ev.HunkAccepted(file=file):
            return f"accepted a hunk of {file}"
        case ev.Steered(text=text):
            return f"you: {text}"
        case ev.Landed(landing=landing, files=files):
            return f"landing {landing}: {_written([str(file['path']) for file in files], module)}"
        case ev.Undone(landing=landing):
            return f"landing {landing} undone"
        case ev.Compacted(tokens_before=before, tokens_after=after):
            return f"conversation shortened: {before:,} to about {after:,} tokens"
        case ev.RunEnded(reason=reason, detail=detail, workspace=workspace):
            return " ".join(filter(None, (f"ended: {reason}", detail, workspace)))
        case ev.ErrorEvent(what=what) | ev.LandingRefusedEvent(what=what):
            return f"error: {what}"
        case _:
            return ""


def _written(paths: list[str], module: str) -> str:
    """Return the developer's file, or the first, and how many more were written."""
    first = module if module in paths else next(iter(paths), "nothing")
    more = len(paths) - 1
    return first if more < 1 else f"{first} and {more} more file{'s' if more > 1 else ''}"
