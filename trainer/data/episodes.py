"""From a stored session to an episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.exports.trajectory import Note, Trajectory, read_trajectory
from agent.model import REPLAYED
from agent.session import is_open
from sandbox.errors import WarpsmithError
from trainer.data.eligibility import ANY_AGE, Freshness, refusals
from trainer.data.episode import Episode, Policy, Stage
from trainer.data.exclusion import NOTHING, Excluded
from trainer.data.rewards import earned
from trainer.data.segments import Target, Tokens, tokens_of

NOBODY = Policy()
_ENDED_BY_THE_POLICY = (ev.EndReason.FINISHED, ev.EndReason.MODEL_SILENT)


@dataclass(frozen=True)
class Choice:
    """What episodes are made for, and how.

    Attributes:
        target: Whose tokens they are to be; null for those that were served.
        decisions: Whether the developer's decisions count in the reward.
        excluded: Tasks that are kept out.
        freshness: How old what PPO learns from may be.
        answered_by: Who answered where the server does not tell.
    """

    target: Target | None = None
    decisions: bool = True
    excluded: Excluded = NOTHING
    freshness: Freshness = ANY_AGE
    answered_by: Policy = NOBODY


@dataclass
class Report:
    """What became of sessions, in order.

    Attributes:
        episodes: One entry a session that is one: ``session``, ``task``, ``reward``, ``tokens``, ``actions``, ``refused``.
        left_out: One a session that is none: ``session``, ``why``.
        notes: What else should be known, and how often it was so.
    """

    episodes: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    def note(self, text: str) -> None:
        """Take a note."""
        self.notes[text] += 1

    def refused(self, stage: Stage) -> Counter[str]:
        """Return why episodes may not enter a stage, and how many for each reason."""
        return Counter(entry["refused"][stage] for entry in self.episodes if stage in entry["refused"])

    def entering(self, stage: Stage) -> int:
        """Return how many episodes may enter a stage."""
        return len(self.episodes) - self.refused(stage).total()


def episodes_of(folders: Iterable[Path], choice: Choice, report: Report) -> Iterator[Episode]:
    """Yield the episodes of stored sessions; the report is told what became of each as it is read."""
    seen = set[str]()
    for folder in folders:
        episode, why = _read(folder, choice, report.note)
        if episode is not None and episode.id in seen:
            episode, why = None, "It is a copy of another session that is read."
        if episode is None:
            report.left_out.append({"session": folder.name, "why": why})
            continue
        seen.add(episode.id)
        report.episodes.append(
            {
                "session": folder.name,
                "task": episode.task,
                "reward": episode.reward,
                "tokens": sum(len(segment.ids) for segment in episode.segments),
                "actions": episode.actions,
                "refused": dict(episode.refused),
            }
        )
        yield episode


def _read(folder: Path, choice: Choice, note: Note) -> tuple[Episode | None, str]:
    """Return a session's episode, or why it is none."""
    try:
        trajectory = read_trajectory(folder, note)
    except WarpsmithError as error:
        return None, error.what
    if why := _no_episode(trajectory) or choice.excluded.why(trajectory):
        return None, why
    tokens = tokens_of(trajectory, choice.target)
    return (_episode(trajectory, tokens, choice, note), "") if tokens.segments else (None, tokens.impossible)


def _no_episode(trajectory: Trajectory) -> str:
    session = trajectory.session
    if session.settings.model.startswith(REPLAYED):
        return "It replays another session, which is the one to learn from."
    if trajectory.state.running and is_open(session.folder):
        return "It is still going on."
    if not trajectory.turns:
        return "No model answered in it."
    if not all(turn.proven for turn in trajectory.turns):
        return "It is torn: what the model was asked cannot be made again as it was sent."
    return ""


def _episode(trajectory: Trajectory, tokens: Tokens, choice: Choice, note: Note) -> Episode:
    won, policy = earned(trajectory, decisions=choice.decisions), _policy(trajectory, tokens, choice)
    if won.components["stored"] not in (None, won.components["judged"]):
        note("A reward is another by today's rules than when it was judged; today's counts.")
    if trajectory.state.running:
        note("A session was cut off with its process; what it had come to counts.")
    return Episode(
        id=trajectory.session.id,
        task=trajectory.session.title,
        source_sha256=_source(trajectory),
        segments=tokens.segments,
        reward=won.reward,
        components=won.components,
        truncated=trajectory.ended not in _ENDED_BY_THE_POLICY,
        policy=policy,
        refused=refusals(
            trajectory,
            won,
            policy,
            rewritten=tokens.rewritten,
            logprobs=tokens.known_logprobs,
            freshness=choice.freshness,
        ),
        facts=_facts(trajectory, tokens),
    )


def _policy(trajectory: Trajectory, tokens: Tokens, choice: Choice) -> Policy:
    """Return who wrote a session: its oldest weights, where they changed meanwhile; the hashes are of the tokens it has here."""
    known, target = choice.answered_by, choice.target
    oldest = min((turn.event for turn in trajectory.turns), key=lambda event: _version(event, known))
    told, temperature = oldest.identity, oldest.sampling.get("temperature")
    template = str(told.get("chat_template_sha256", known.chat_template_sha256))
    return Policy(
        model=oldest.model,
        weights=str(told.get("weights", known.weights)),
        version=_version(oldest, known),
        tokenizer_sha256=target.tokenizer_sha256 if target else str(told.get("tokenizer_sha256", "")),
        chat_template_sha256=target.chat_template_sha256 if target and tokens.rewritten else template,
        temperature=1.0 if temperature is None else float(temperature),
    )


def _version(event: ev.ModelTurn, known: Policy) -> int:
    version = event.identity.get("version")
    return version if isinstance(version, int) else known.version


def _source(trajectory: Trajectory) -> str:
    """Return the hash of the reference; before anything was judged that of the file that the session began with."""
    files = trajectory.state.original_files
    return trajectory.source_sha256 or next(iter(files.values()), "")


def _facts(trajectory: Trajectory, tokens: Tokens) -> dict[str, Any]:
    events = [turn.event for turn in trajectory.turns]
    return {
        "ended": trajectory.ended,
        "turns": len(events),
        "attempts": len(trajectory.state.judged),
        "parse_errors": sum(len(event.parse_errors) for event in events),
        "cut_answers": sum(event.finish_reason == "length" for event in events),
        "segments": len(tokens.segments),
        "rewritten": tokens.rewritten,
        "reasoning_left_out": sum(bool(event.reasoning) for event in events) if tokens.rewritten else 0,
        "weights": sorted({str(event.identity["weights"]) for event in events if "weights" in event.identity}),
        "device": trajectory.session.device,
        "format": trajectory.session.format,
    }
