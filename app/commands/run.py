"""Run a session without a screen: the agent optimises the module, narration goes to stderr, the result to stdout.

Exit code 0: there is a correct candidate.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from agent.settings import Settings
from app.commands.options import (
    add_machine_options,
    add_model_options,
    add_task_options,
    given_limits,
    require_named,
    settings_from,
    task_from,
)
from sandbox.counts import count
from sandbox.errors import UsageError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("target", metavar="TARGET", nargs="?", help="path.py, path.py:Class, or package.module:Class")
    parser.add_argument("--json", action="store_true", help="print events, one JSON object a line")
    parser.add_argument(
        "--land",
        default="never",
        choices=["never", "full-pass"],
        help="full-pass: write the best attempt into the project if its full verdict is correct and faster than eager",
    )
    parser.add_argument(
        "--commit", action="store_true", help="what lands is also one commit, of the landed files alone"
    )
    group = parser.add_argument_group("several agents side by side")
    group.add_argument("--agents", type=count, metavar="N", help="so many agents; they share --turns")
    group.add_argument("--rounds", type=count, metavar="N", help="each round begins from the best so far")
    group.add_argument(
        "--idea", action="append", default=[], metavar="TEXT", help="what an agent begins with; repeatable"
    )
    group.add_argument("--models", default="", metavar="A,B", help="a model for each agent, in turn")
    group.add_argument(
        "--resume-search",
        metavar="ID",
        help="go on with a search that was stopped, or 'last'; limits are for it in all",
    )
    add_task_options(parser)
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> int:
    """Run the session to its end."""
    from agent.headless import run
    from agent.model import require_model

    if options.commit and options.land == "never":
        what = "Nothing lands, so there is nothing to commit."
        raise UsageError(what, where="--commit", next_step="Add --land full-pass, or leave --commit out.")
    settings = settings_from(options)
    if options.resume_search:
        return _resume_search(options, settings)
    require_named(options)
    models = [name for name in options.models.split(",") if name]
    for name in models or [settings.model]:
        require_model(replace(settings, model=name))
    spec = task_from(options, options.target, settings)
    agents, rounds = options.agents or 1, options.rounds or 1
    if agents > 1 or rounds > 1 or options.idea or models:
        from agent.search.coordinator import run_search
        from agent.search.record import create_record

        record = create_record(spec, settings, agents=agents, rounds=rounds, ideas=options.idea, models=models)
        return run_search(record, json=options.json, land=options.land, commit=options.commit)
    return run(spec, settings, json=options.json, land=options.land, commit=options.commit)


def _resume_search(options: argparse.Namespace, settings: Settings) -> int:
    """Go on with the search that is named."""
    from agent.search.coordinator import run_search
    from agent.search.record import find_record

    fixed = {"TARGET": options.target, "--agents": options.agents, "--rounds": options.rounds}
    fixed |= {
        "--idea": options.idea,
        "--models": options.models,
        "--model": options.model,
        "--api-base": options.api_base,
    }
    if named := [name for name, value in fixed.items() if value]:
        raise UsageError(
            f"A search goes on as it began, so {', '.join(named)} cannot be given again.",
            where="--resume-search",
            next_step="Give limits at most (--turns, --tokens, --dollars, --minutes), or begin a new search.",
        )
    record, limits = find_record(settings.home, options.resume_search), given_limits(options)
    return run_search(record, json=options.json, land=options.land, commit=options.commit, limits=limits)
