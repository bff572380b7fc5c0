"""From tasks to a policy's answers, and from answers with their outcomes to episodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from sandbox.errors import UsageError
from trainer.data.episode import Episode, Policy, Segment
from trainer.policy.model import PolicyModel
from trainer.rollout.drawing import end_ids
from trainer.rollout.sampling import Sampled, sample
from trainer.tasks.memo import Outcome
from trainer.tasks.task import Message, Task

CONTEXT = 32_768
"""Tokens of prompt and answer together at most (CUDA Agent, arXiv 2602.24286, section 4.1)."""


@dataclass(frozen=True)
class Question:
    """A task as one of its answers was asked for; ``messages`` may tell more than the task's own."""

    task: Task
    messages: Sequence[Message]

    @classmethod
    def plain(cls, task: Task) -> Question:
        """Ask as the task does."""
        return cls(task, task.messages)


@dataclass(frozen=True)
class Answer:
    """One answer: whose question it was, its ids, and its text with the opening."""

    question: Question
    prompt: tuple[int, ...]
    sampled: Sampled
    text: str


def ask(
    policy: PolicyModel,
    questions: Sequence[Question],
    *,
    temperature: float,
    seed: int,
    context: int = CONTEXT,
    batch: int = 256,
) -> list[Answer]:
    """Let a policy answer each question once, in order.

    Args:
        policy: Whose answers they are.
        questions: The same question as often as it is to be answered.
        temperature: Of sampling.
        seed: Decides the answers.
        context: Tokens of prompt and answer together at most.
        batch: Answers at once.

    Raises:
        UsageError: A question leaves no room for an answer.
    """
    prompts = [prompt_of(policy, question) for question in questions]
    alike: dict[tuple[int, bool], list[int]] = {}
    for place, question in enumerate(questions):
        alike.setdefault((question.task.limit, bool(question.task.opening)), []).append(place)
    found: dict[int, Sampled] = {}
    for (limit, one_line), places in alike.items():
        longest = max(len(prompts[place]) for place in places)
        if longest + max(limit, 1) > context:
            raise UsageError(
                f"A question of {longest} tokens leaves no room for an answer in a context of {context}.",
                where=questions[places[0]].task.name,
                next_step="Give a larger --context.",
            )
        sampled = sample(
            policy,
            [prompts[place] for place in places],
            limit=limit or context - longest,
            temperature=temperature,
            seed=seed + places[0],
            stop=frozenset(end_ids(policy)) | (_line_ends(policy.tokenizer) if one_line else frozenset()),
            batch=batch,
        )
        found |= dict(zip(places, sampled, strict=True))
    return [
        Answer(question, tuple(prompts[place]), found[place], _text(policy, question.task, found[place]))
        for place, question in enumerate(questions)
    ]


def prompt_of(policy: PolicyModel, question: Question) -> list[int]:
    """Return the token ids that an answer goes on from: a chat that was asked something, or a text whose last line is begun."""
    if question.task.opening:
        text = "\n".join([*(message["content"] for message in question.messages), question.task.opening])
        completed: list[int] = policy.tokenizer(text)["input_ids"]
        return completed
    text = policy.tokenizer.apply_chat_template(list(question.messages), add_generation_prompt=True, tokenize=False)
    ids: list[int] = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def episode_of(answer: Answer, outcome: Outcome, reward: float | None, writer: Policy) -> Episode:
    """Return an answer as the stages read it.

    Args:
        answer: The answer.
        outcome: What the judge said of it.
        reward: What it earns.
        writer: The policy that wrote it.
    """
    prompt, ids = answer.prompt, answer.sampled.ids
    action = np.arange(len(prompt) + len(ids)) >= len(prompt)
    logprobs = np.full(len(action), np.nan, dtype=np.float32)
    logprobs[action] = answer.sampled.logprobs
    segment = Segment(np.array([*prompt, *ids], dtype=np.int32), action, logprobs, action.astype(np.int32))
    told = {name: value for name, value in asdict(outcome).items() if name != "reward"}
    components = {"judged": outcome.reward, **told}
    whole = json.dumps([answer.question.task.source_sha256, [*prompt, *ids], writer.weights, components])
    return Episode(
        id=hashlib.sha256(whole.encode()).hexdigest()[:32],
        task=answer.question.task.name,
        source_sha256=answer.question.task.source_sha256,
        segments=(segment,),
        reward=reward,
        components=components,
        truncated=answer.sampled.truncated,
        policy=writer,
        facts={"turns": 1, "operator": answer.question.task.operator, "answer": answer.text},
    )


def writer_of(policy: PolicyModel, version: int, temperature: float) -> Policy:
    """Return who writes, for the episodes."""
    hashes = policy.hashes
    return Policy(
        model=policy.folder.name,
        weights=hashes.weights,
        version=version,
        tokenizer_sha256=hashes.tokenizer_sha256,
        chat_template_sha256=hashes.chat_template_sha256,
        temperature=temperature,
    )


def judged(outcome: Outcome) -> float | None:
    """The judge's reward: -1, 1, 2 or 3."""
    return outcome.reward


def speedup(outcome: Outcome) -> float | None:
    """How many times as fast as torch.compile (eager, where it cannot compile) a right answer is, and -1 for a wrong one."""
    if outcome.reward is None or outcome.reward < 0:
        return outcome.reward
    return outcome.over_compile or outcome.over_eager or 1.0


REWARDS: Mapping[str, Callable[[Outcome], float | None]] = {"judged": judged, "speedup": speedup}
"""What an answer earns, by name."""


def _text(policy: PolicyModel, task: Task, sampled: Sampled) -> str:
    written: str = policy.tokenizer.decode(sampled.ids, skip_special_tokens=True)
    return task.opening + written


@cache
def _line_ends(tokenizer: Any) -> frozenset[int]:
    """Return the ids of all tokens that end a line."""
    return frozenset(token for token in range(len(tokenizer)) if "\n" in tokenizer.decode([token]))
