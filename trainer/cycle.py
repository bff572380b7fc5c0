"""The whole circle: the policy is served, sessions of our own loop and judge are run with it, and it learns from them; again.

Each step runs so many sessions on tasks drawn from those named, makes episodes of them, and takes one step of PPO. The weights
of every step have a name and a number, which the sessions they wrote carry. Given again, the same command goes on wherever it
was stopped or killed: within a session, between two, or in the midst of an update. What several sessions of a step write alike
is judged once, and each of their attempts says whose verdict it has.

On one device the policy writes and learns in short turns between the judge's, which has the device alone while it times. With
--server-command another server writes, such as vLLM, started anew on the weights of each step.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from agent.session import change_settings, create_session
from agent.settings import REWARD_TIERS, Settings, load_settings
from agent.store import write_atomically
from sandbox.asked import asked_task
from sandbox.counts import amount, count, natural
from sandbox.errors import ExitCode, UsageError
from sandbox.machine.devices import resolve_device
from sandbox.task import TaskSpec
from trainer import ppo, value
from trainer.data.eligibility import Freshness
from trainer.data.episode import Episode, Policy, Stage
from trainer.data.episodes import Choice, Report, episodes_of
from trainer.data.exclusion import add_option as add_exclude_option
from trainer.data.exclusion import excluded
from trainer.data.segments import Target
from trainer.rollout.external import VLLM, external_server
from trainer.rollout.served import ServerSettings, Weights
from trainer.rollout.server import PolicyServer
from trainer.rollout.sessions import run_sessions
from trainer.rollout.turns import DeviceTurns
from trainer.run.learner import Learner
from trainer.run.options import add_run_options, opened, part_of
from trainer.run.run import Run

STATE = "cycle.json"
ROLLOUTS = "rollouts"
VERDICTS = "verdicts"
NAME = "policy"
_TRIES = 3
"""How often sessions are run for one step before a step without anything to learn from ends the cycle."""


@dataclass(frozen=True)
class Plan:
    """What every step does.

    Attributes:
        tasks: Drawn from for each session.
        settings: Of the sessions; model, address and seed are put in.
        sessions: Of a step.
        at_once: How many run side by side.
        warm_up: Steps of which only the critic learns.
        server: How the policy is served.
        command: Starts another server instead; empty for our own.
    """

    tasks: Sequence[TaskSpec]
    settings: Settings
    sessions: int
    at_once: int
    warm_up: int
    server: ServerSettings
    command: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    parser.add_argument(
        "tasks", nargs="+", metavar="TARGET", help="path.py, path.py:Class, or a folder of KernelBench files"
    )
    add_exclude_option(parser)
    add_run_options(parser, steps="20")
    group = parser.add_argument_group("sessions")
    group.add_argument("--sessions", type=count, default=16, metavar="N", help="of each step (default: %(default)s)")
    group.add_argument("--at-once", type=count, default=4, metavar="N", help="side by side (default: %(default)s)")
    group.add_argument(
        "--turns", type=count, default=150, metavar="N", help="limit of a session (default: %(default)s)"
    )
    group.add_argument("--minutes", type=amount, default=0.0, metavar="X", help="limit of a session (default: none)")
    group.add_argument("--answer-tokens", type=count, metavar="N", help="limit of an answer (default: the context)")
    group.add_argument(
        "--context", type=count, default=131_072, metavar="N", help="tokens of a session (default: %(default)s)"
    )
    group.add_argument("--temperature", type=amount, default=1.0, help="of sampling (default: %(default)s)")
    group.add_argument(
        "--reward-tier",
        choices=REWARD_TIERS,
        default="full",
        help="the verdict that a session is rewarded by: full; quick, which then draws three placements; or correctness: nothing "
        "is timed, what is right earns 1 and all else -1, also on a busy machine (default: %(default)s)",
    )
    group.add_argument("--judge-device", default="", help="where candidates are judged (default: where the policy is)")
    group.add_argument(
        "--warm-up", type=natural, default=0, metavar="N", help="steps at first of which only the critic learns"
    )
    group = parser.add_argument_group("server")
    group.add_argument(
        "--batch", type=count, default=8, metavar="N", help="answers written at once (default: %(default)s)"
    )
    group.add_argument(
        "--kept-tokens",
        type=count,
        default=262_144,
        metavar="N",
        help="of conversations kept on the device (default: %(default)s)",
    )
    group.add_argument(
        "--server-command",
        default="",
        metavar="COMMAND",
        help=f"starts another server, with {{policy}}, {{name}} and {{port}} filled in, such as: {VLLM}",
    )


def run(options: argparse.Namespace) -> int:
    """Go round until the steps are done, and return the exit code."""
    with opened(options, "cycle", ["policy", "critic"], data=", ".join(options.tasks)) as (run_, learner):
        if run_.processes.world > 1:
            raise UsageError(
                "A cycle runs in one process.",
                where="torchrun",
                next_step="Run it without torchrun; train on its sessions with warpsmith train ppo under torchrun.",
            )
        if run_.every != 1:
            raise UsageError("A cycle keeps the weights of each step.", where="--every", next_step="Leave it at 1.")
        plan = _plan(options, learner)
        begin_state(options.out, learner.step + 1)
        turns = DeviceTurns(_name(learner.processes.device), "the policy", _go_on)
        with _served(plan, run_, learner, turns) as server:
            cycle = Cycle(run_, learner, plan, turns, server)
            run_.train(learner, options.steps or 20, cycle.step)
    policy = part_of(options.out, "policy")
    sys.stderr.write(f"The policy is in {policy}. Serve it with: warpsmith train serve {policy}\n")
    return ExitCode.OK


class Cycle:
    """Takes the steps of one run.

    Args:
        run: Its folder.
        learner: Holds the policy that writes and learns.
        plan: What every step does.
        turns: Give the policy the device.
        server: Serves the learner's policy; none where another server does.
    """

    def __init__(self, run: Run, learner: Learner, plan: Plan, turns: DeviceTurns, server: PolicyServer | None) -> None:
        self._run, self._learner, self._plan, self._turns, self._server = run, learner, plan, turns, server

    def step(self) -> dict[str, float | None]:
        """Run the sessions of a step, and learn from them.

        Raises:
            UsageError: Nothing can be learnt from any of the sessions.
            EnvironmentFault: No session could be done.
        """
        learner, plan = self._learner, self._plan
        tasks = learner.random.integers(len(plan.tasks), size=plan.sessions).tolist()
        seeds = learner.random.integers(2**31, size=(_TRIES, plan.sessions)).tolist()
        reports = []
        for attempt in range(_TRIES):
            drawn = [(plan.tasks[task], seed) for task, seed in zip(tasks, seeds[attempt], strict=True)]
            episodes, report = self._episodes(self._sessions(attempt, drawn))
            if episodes:
                return self._learn(episodes) | {"sessions": len(drawn), **_ends(report)}
            reports.append(report)
        raise UsageError(
            f"Nothing can be learnt from {_TRIES} times {plan.sessions} sessions: {' '.join(sorted(set(_whys(reports))))}",
            where=str(self._home),
            next_step=f"Look at one with: warpsmith sessions show last --home {self._home}",
        )

    @property
    def _home(self) -> Path:
        return self._run.folder / ROLLOUTS

    def _sessions(self, attempt: int, drawn: Sequence[tuple[TaskSpec, int]]) -> list[Path]:
        """Run these sessions to their ends, those too that an earlier process began, and return their folders."""
        state, step = read_state(self._run.folder), self._learner.step + 1
        names = state.sessions if (state.step, state.attempt) == (step, attempt) else []
        verdicts = (self._home / VERDICTS).resolve()
        with self._address() as base:
            for name in names:
                change_settings(self._home / "sessions" / name, {"api_base": base})
            settings = replace(self._plan.settings, model=f"openai/{NAME}", api_base=base, home=self._home)
            if not names:
                shutil.rmtree(verdicts, ignore_errors=True)
            for task, seed in drawn[len(names) :]:
                session = create_session(task, replace(settings, seed=seed), self._home, verdicts=verdicts)
                names.append(session.name)
                write_state(self._run.folder, State(state.id, step, attempt, names))
            folders = [self._home / "sessions" / name for name in names]
            run_sessions(folders, self._plan.at_once, lambda line: print(line, file=sys.stderr))
        return folders

    def _address(self) -> AbstractContextManager[str]:
        """Return where the policy answers, as it is now."""
        if self._server:
            return nullcontext(self._server.base_url)
        policy = part_of(self._run.folder, "policy")
        assert policy is not None  # a run has one from its beginning
        return external_server(self._plan.command, policy, NAME, self._run.folder / "server.log")

    def _episodes(self, folders: Sequence[Path]) -> tuple[list[Episode], Report]:
        assert self._learner.policy is not None  # it was asked for
        report = Report()
        choice = Choice(
            target=Target.read(self._learner.policy.folder),
            freshness=Freshness(self._learner.version, most=0),
            answered_by=Policy(model=NAME, weights=self._weights(0).name, version=self._learner.version),
        )
        episodes = [each for each in episodes_of(folders, choice, report) if each.may_enter(Stage.PPO)]
        return episodes, report

    def _learn(self, episodes: Sequence[Episode]) -> dict[str, float | None]:
        learner = self._learner
        update = value.update if learner.step < self._plan.warm_up else ppo.update
        with self._server.new_weights(self._weights(1)) if self._server else nullcontext():
            if learner.processes.device.type == "cuda":
                torch.cuda.empty_cache()
            with self._turns.turn("training"):
                return update(learner, episodes)

    def _weights(self, ahead: int) -> Weights:
        return weights_of(self._run, self._learner, ahead)


@dataclass(frozen=True)
class State:
    """How far a step is, as ``cycle.json`` keeps it.

    Attributes:
        id: Of the run, for the names of its weights.
        step, attempt: Which step, and which try of it, the sessions are of.
        sessions: Names of their folders, those that were begun.
    """

    id: str
    step: int = 0
    attempt: int = 0
    sessions: list[str] = field(default_factory=list)


def read_state(run: Path) -> State:
    """Return what the folder of a run that has begun tells."""
    return State(**json.loads((run / STATE).read_text()))


def begin_state(run: Path, step: int) -> None:
    """Give a run an id, and another one where it went back behind a step that it had begun: weights never share a name.

    Args:
        run: Its folder.
        step: The one that comes next.
    """
    if not (run / STATE).is_file() or read_state(run).step > step:
        write_state(run, State(secrets.token_hex(4)))


def write_state(run: Path, state: State) -> None:
    """Keep how far a step is."""
    write_atomically(run / STATE, json.dumps(asdict(state)).encode() + b"\n")


def weights_of(run: Run, learner: Learner, ahead: int = 0) -> Weights:
    """Return which weights the learner has, or will have after so many updates more."""
    assert learner.policy is not None  # it was asked for
    version = learner.version + ahead
    return Weights(f"{learner.policy.hashes.weights}@{read_state(run.folder).id}.{version}", version)


@contextmanager
def _served(plan: Plan, run: Run, learner: Learner, turns: DeviceTurns) -> Iterator[PolicyServer | None]:
    """Serve the learner's policy, unless another server does."""
    if plan.command:
        yield None
        return
    assert learner.policy is not None  # it was asked for
    with PolicyServer(learner.policy, weights_of(run, learner), turns.turn, plan.server) as server:
        yield server


def _plan(options: argparse.Namespace, learner: Learner) -> Plan:
    device = resolve_device(options.judge_device or _name(learner.processes.device))
    limits = {
        "turn_limit": options.turns,
        "time_limit_minutes": options.minutes,
        "max_output_tokens": options.answer_tokens,
    }
    sampling = {"temperature": options.temperature, "context_tokens": options.context}
    # While the policy writes the device is its own.
    judging = {"reward_tier": options.reward_tier, "verdicts_ahead": False}
    settings = load_settings({**limits, **sampling, **judging})
    return Plan(
        tasks=tuple(_tasks(options, device, settings)),
        settings=settings,
        sessions=options.sessions,
        at_once=options.at_once,
        warm_up=options.warm_up,
        server=ServerSettings(NAME, context=options.context, batch=options.batch, kept_tokens=options.kept_tokens),
        command=options.server_command,
    )


def _tasks(options: argparse.Namespace, device: str, settings: Settings) -> list[TaskSpec]:
    named: list[TaskSpec] = []
    for target in options.tasks:
        folder = Path(target)
        found = sorted(map(str, folder.glob("*.py"))) if folder.is_dir() else [target]
        if not found:
            raise UsageError("There is no task in this folder: it holds no Python file.", where=target)
        named += (asked_task(each, python=settings.python, device=device) for each in found)
    left = excluded(options.exclude).left_of(task.path for task in named)
    return [task for task in named if task.path in left]


def _whys(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports:
        yield from report.refused(Stage.PPO)
        yield from (entry["why"] for entry in report.left_out)


def _ends(report: Report) -> dict[str, float | None]:
    return {"unknown_reward": sum(entry["reward"] is None for entry in report.episodes)}


def _name(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


def _go_on() -> None:
    """Never give up waiting for the device."""
