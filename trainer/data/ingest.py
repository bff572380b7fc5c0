"""Make a training set of stored sessions: their tokens, what they earned, and which stages may learn from each.

With --tokenizer the set is for the policy in that folder. A session that was served in other tokens, or in none, is then
written anew by that policy's chat template; it may enter rft and value, and never ppo. Sessions that are left out, and stages
that refuse one, are told with the reason.

Exit code 0: a set was written; 1: no session may enter any stage, and nothing was written.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.chosen import chosen_sessions
from agent.session import versions
from agent.settings import load_settings
from sandbox.counts import natural
from sandbox.errors import ExitCode
from trainer.data.dataset import SetWriter
from trainer.data.eligibility import Freshness
from trainer.data.episode import Stage
from trainer.data.episodes import Choice, Report, episodes_of
from trainer.data.exclusion import add_option as add_exclude_option
from trainer.data.exclusion import excluded
from trainer.data.segments import Target


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the stage's options."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help="'last', a folder, the beginning of an id, a bundled recording"
    )
    parser.add_argument("--all", action="store_true", help="every session there is")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="the training set; must not exist")
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="of the policy to train: its folder")
    parser.add_argument(
        "--decisions",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let a landing add half a point to the reward, and a refusal take it (default: yes)",
    )
    add_exclude_option(parser)
    parser.add_argument(
        "--version", type=natural, metavar="N", help="updates behind the policy to train, to tell old sessions"
    )
    parser.add_argument(
        "--max-gap",
        type=natural,
        default=Freshness.most,
        metavar="K",
        help="of so many updates at most (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print what became of every session as JSON")
    parser.add_argument("--home", default="", help="where sessions are kept")


def run(options: argparse.Namespace) -> ExitCode:
    """Write the set, and tell what became of the sessions."""
    home = load_settings({"home": options.home or None}, project=Path.cwd()).home
    folders = chosen_sessions(options.sessions, home, everything=options.all)
    choice = Choice(
        target=Target.read(options.tokenizer) if options.tokenizer else None,
        decisions=options.decisions,
        excluded=excluded(options.exclude),
        freshness=Freshness(options.version, options.max_gap),
    )
    report = Report()
    with SetWriter(options.out) as writer:
        told = set()
        for episode in episodes_of(folders, choice, report):
            writer.add(episode)
            told.add(episode.policy.tokenizer_sha256)
        useful = any(map(report.entering, Stage))
        if useful:
            writer.finish(_head(choice, report, told))
    if options.json:
        print(json.dumps({"out": str(options.out) if useful else None, "episodes": report.episodes, **_told(report)}))
    print("\n".join(_lines(report, options.out if useful else None)), file=sys.stderr)
    return ExitCode.OK if useful else ExitCode.FAILED


def _head(choice: Choice, report: Report, tokenizers: set[str]) -> dict[str, Any]:
    """Return what the set says of itself."""
    target = choice.target
    shared = next(iter(tokenizers)) if len(tokenizers) == 1 else ""
    return {
        "versions": versions(),
        "created": time.time(),
        "tokenizer_sha256": target.tokenizer_sha256 if target else shared,
        "chat_template_sha256": target.chat_template_sha256 if target else "",
        "decisions": choice.decisions,
        "excluded": {"named": list(choice.excluded.named), "sha256": choice.excluded.sha256},
        "version": choice.freshness.version,
        "max_gap": choice.freshness.most,
        "sessions": [entry["session"] for entry in report.episodes],
        **_told(report),
    }


def _told(report: Report) -> dict[str, Any]:
    return {
        "stages": {stage: report.entering(stage) for stage in Stage},
        "left_out": report.left_out,
        "notes": dict(report.notes),
    }


def _lines(report: Report, out: Path | None) -> Iterator[str]:
    """Yield what a person reads: how much there is, and for every stage how many may enter it and why others may not."""
    count, tokens = len(report.episodes), sum(entry["tokens"] for entry in report.episodes)
    actions = sum(entry["actions"] for entry in report.episodes)
    yield f"{_counted(count, 'episode')}, {tokens:,} tokens, {actions:,} of them the policy's."
    for stage in Stage if count else ():
        yield f"  {stage:6} {report.entering(stage):>4} of {count}"
        yield from (f"              {times} × {why}" for why, times in report.refused(stage).most_common())
    if report.left_out:
        yield f"{_counted(len(report.left_out), 'session')} left out:"
        reasons = Counter(entry["why"] for entry in report.left_out)
        yield from (f"  {times} × {why}" for why, times in reasons.most_common())
    if report.notes:
        yield "Notes:"
        yield from (f"  {times} × {text}" for text, times in report.notes.most_common())
    yield f"Written to {out}." if out else "No session may enter any stage, so nothing was written."


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
