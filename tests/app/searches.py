"""Searches made by hand for the screen, and the process that tells one as the coordinator does.

    python searches.py SEARCH_FOLDER [--hold]

It adds the members that ``told.jsonl`` lists, one after the other, passes on the events that each is to have, and ends. With
``--hold`` the last events wait for a SIGINT, upon which it ends as one that was stopped.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from agent.search.record import Member, Record, create_record, read_record
from agent.session import open_session
from agent.settings import Settings
from tests.app import sessions

IDEAS = ["One fused pass, the sum in registers.", "Tile it through shared memory."]
CHAPTERS = ["end", "wrong answer"]
"""How far the story goes in each session."""


def search(folder: Path) -> tuple[Path, list[Path]]:
    """Make a search below ``folder`` that has not begun, and the sessions that its agents are to have; return both."""
    spec = sessions.project(folder / "project")
    settings = Settings(model=sessions.MODEL, home=folder, turn_limit=100)
    record = create_record(spec, settings, agents=2, rounds=1, ideas=IDEAS, models=[])
    named = record.folder.rename(record.folder.with_name("20260528-202640-5ea2c4ed"))
    made = []
    for number, upto in enumerate(CHAPTERS, 1):
        session = sessions.record(folder, upto=upto).rename(folder / "sessions" / _name(number))
        (session / "events.jsonl").rename(session / "told.jsonl")
        head = json.loads((session / "session.json").read_text())
        head |= {"id": f"{number}" * 8, "search": {"folder": str(named), "base": None, "told": ""}}
        (session / "session.json").write_text(json.dumps(head))
        made.append(session)
    return named, made


def _name(number: int) -> str:
    return f"20260528-202640-{str(number) * 8}-encoder-blocks-residualnorm"


def members(record: Record) -> list[Member]:
    """Return the members that the search is to have."""
    folder = record.folder.parent.parent / "sessions"
    return [Member(1, n, folder / _name(n), sessions.MODEL, idea) for n, idea in enumerate(IDEAS, 1)]


def over(folder: Path) -> tuple[Path, list[Path]]:
    """Make a search that is over."""
    named, made = search(folder)
    record = read_record(named)
    for member, session in zip(members(record), made, strict=True):
        record.add(member)
        (session / "told.jsonl").rename(session / "events.jsonl")
        record.end(member, "finished")
    return named, made


def tell(record: Record, *, hold: bool) -> int:
    """Add the members, and pass on their events, as the coordinator does."""
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    for member in members(record):
        known = any(each.session == member.session for each in record.members)
        if not known:
            record.add(member)
        told = (member.session / "told.jsonl").read_text().splitlines(keepends=True)
        kept = told[:-1] if hold and not known else told
        _pass_on(member, kept[0 if not known else len(told) - 1 :])
    while hold and not stopped:
        time.sleep(0.02)
    if hold:
        return 130
    for member in members(record):
        record.end(member, "finished")
    print(json.dumps({"type": "search_ended"}), flush=True)
    return 0


def _pass_on(member: Member, lines: list[str]) -> None:
    head = {"agent": member.agent, "round": member.round, "session": str(member.session)}
    ready = {"type": "engine_ready", "session": open_session(member.session).id, "folder": str(member.session)}
    print(json.dumps({**ready, **head}), flush=True)
    with (member.session / "events.jsonl").open("a") as events:
        for line in lines:
            events.write(line)
            events.flush()
            print(json.dumps({**json.loads(line), **head}), flush=True)


if __name__ == "__main__":
    sys.exit(tell(read_record(Path(sys.argv[1])), hold="--hold" in sys.argv))
