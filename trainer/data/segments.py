"""The segments of an episode: a session's tokens as they were served, where they are the target's; else written anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agent.exports.stretches import Stretch, Written, joined, served
from agent.exports.trajectory import Trajectory
from trainer.data.episode import Segment
from trainer.data.retokenize import NotWritable, retokenized
from trainer.data.tokenizer import load_tokenizer
from trainer.policy.identity import read_hashes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Target:
    """The tokenizer of the policy that is to be trained, with its chat template, and the hashes of both."""

    tokenizer: PreTrainedTokenizerBase
    tokenizer_sha256: str
    chat_template_sha256: str

    @classmethod
    def read(cls, folder: Path) -> Target:
        """Return the target whose tokenizer lies in a policy's folder.

        Raises:
            UsageError: There is none.
        """
        hashes = read_hashes(folder)
        return cls(load_tokenizer(folder), hashes.tokenizer_sha256, hashes.chat_template_sha256)

    @cached_property
    def size(self) -> int:
        """Token ids are below this."""
        return len(self.tokenizer)


@dataclass(frozen=True)
class Tokens:
    """A session in tokens.

    Attributes:
        segments: Empty where it cannot be had in tokens.
        rewritten: Why they are not those that were served, in one sentence; empty where they are.
        impossible: Why there are no segments; empty where there are.
    """

    segments: tuple[Segment, ...] = ()
    rewritten: str = ""
    impossible: str = ""

    @property
    def known_logprobs(self) -> bool:
        """Whether every action has a log-probability."""
        return all(bool(np.isfinite(segment.logprobs[segment.action]).all()) for segment in self.segments)


def tokens_of(trajectory: Trajectory, target: Target | None) -> Tokens:
    """Return a session's tokens for a target; without one only those that were served."""
    answers = [written for written in served(trajectory) if written is not None]
    other = "An answer came without token ids." if len(answers) < len(trajectory.turns) else ""
    if not all(written.prompt for written in answers):
        other = "An answer came without the token ids of what it answers."
    if target is not None and not other:
        other = _of_another(answers, target)
    if not other:
        return _tokens(answers)
    if target is None:
        return Tokens(impossible=f"{other} With --tokenizer its text is written in the tokens of a policy.")
    try:
        return _tokens(retokenized(trajectory, target.tokenizer), rewritten=other)
    except NotWritable as problem:
        return Tokens(rewritten=other, impossible=str(problem))


def _tokens(answers: Iterable[Written], rewritten: str = "") -> Tokens:
    segments = tuple(map(_segment, joined(answers)))
    return Tokens(segments, rewritten, "" if segments else "It holds no token that the policy wrote.")


def _of_another(answers: Sequence[Written], target: Target) -> str:
    """Return why served tokens are not the target's; what a server does not tell is found out by decoding."""
    for written in answers:
        told = written.turn.event.identity.get("tokenizer_sha256")
        if told and told != target.tokenizer_sha256:
            return "Its tokens are of another tokenizer."
        tokens = (*written.prompt, *written.ids)
        if tokens and not (min(tokens) >= 0 and max(tokens) < target.size):
            return "It holds token ids that the tokenizer does not have."
        if not told and not _decodes(written, target):
            return "Its tokens do not decode to what was said, so they are of another tokenizer."
    return ""


def _decodes(written: Written, target: Target) -> bool:
    message = written.turn.event.message
    text = str(target.tokenizer.decode(list(written.ids), clean_up_tokenization_spaces=False))
    names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return (message.get("content") or "").strip() in text and all(name in text for name in names)


def _segment(stretch: Stretch) -> Segment:
    before, length = len(stretch.prompt), len(stretch.prompt) + len(stretch.response)
    action = np.zeros(length, np.bool_)
    action[before:] = np.asarray(stretch.mask, np.bool_)
    logprobs = np.full(length, math.nan, np.float32)
    logprobs[before:] = np.where(action[before:], np.asarray(stretch.logprobs, np.float32), np.float32(math.nan))
    turn = np.zeros(length, np.int32)
    for span in stretch.spans:
        turn[before + span.start : before + span.end] = span.turn.event.turn
    return Segment(np.asarray([*stretch.prompt, *stretch.response], np.int32), action, logprobs, turn)
