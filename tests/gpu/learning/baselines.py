"""What the runs are compared with: known answers, a random policy, constant answers, the best of several."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

from tests.gpu.learning.results import Results
from trainer.tasks.judging import Desk
from trainer.tasks.rows import known_answers
from trainer.tasks.task import Task

DRAWS = 16
_CONSTANTS = {
    "first =": (
        "first = 0, last = columns",
        "first = 0, last = 64",
        "first = columns - 64, last = columns",
        "first = max(0, i - 32), last = min(columns, i + 32)",
    ),
    "total =": (
        "total = total + value",
        "total = fmaxf(total, value)",
        "total = fminf(total, value)",
        "total = fminf(total, fabsf(value))",
        "total = total + cosf(value)",
        "total = total + value * value * value",
    ),
}
"""Answers that are right for more than one task, or for a task that is held out, by how they begin."""


def told_apart(desk: Desk, tasks: Sequence[Task], results: Results) -> list[Task]:
    """Judge the known answers to each task; return the tasks at which a right one earns more than the others."""
    asked = [(task, name, answer) for task in tasks for name, answer in known_answers(task).items()]
    outcomes = desk.judge([(task, answer) for task, _, answer in asked])
    rewards: dict[str, dict[str, int]] = {}
    for (task, name, answer), outcome in zip(asked, outcomes, strict=True):
        rewards.setdefault(task.name, {})[name] = outcome.reward or 0  # no verdict is no known answer
        results.add("known", task=task.name, name=name, answer=answer, reward=outcome.reward, us=outcome.device_us)
    good = [task for task in tasks if _tells(rewards[task.name])]
    for task in tasks:
        if task not in good:
            print(f"left out: {task.name}: {rewards[task.name]}", flush=True)
    return good


def _tells(rewards: dict[str, int]) -> bool:
    return rewards["wrong"] == -1 and rewards["right"] > max(0, rewards.get("whole", rewards["wrong"]))


def take(desk: Desk, trained: Sequence[Task], held_out: Sequence[Task], results: Results) -> None:
    """Judge a random policy and the best constant answers on the tasks that are held out."""
    draw = random.Random(0)
    pool: dict[str, list[str]] = {}
    for task in trained:
        right = known_answers(task)["right"]
        if right not in pool.setdefault(task.opening, []):
            pool[task.opening].append(right)
    alike = [task for task in held_out if task.opening in pool]
    asked = [(task, draw.choice(pool[task.opening])) for task in alike for _ in range(DRAWS)]
    mean = fmean(outcome.reward or 0 for outcome in desk.judge(asked))
    results.add_baseline("random policy", mean, "drawn from what is right in training")
    total, best = 0.0, {}
    for opening, constants in _CONSTANTS.items():
        tasks = [task for task in held_out if task.opening == opening]
        if not tasks:
            continue
        outcomes = desk.judge([(task, answer) for answer in constants for task in tasks])
        sums = {
            answer: sum(outcome.reward or 0 for outcome in outcomes[number * len(tasks) : (number + 1) * len(tasks)])
            for number, answer in enumerate(constants)
        }
        best[opening] = max(sums, key=lambda answer: sums[answer])
        total += sums[best[opening]]
    results.add_baseline("best constant answer", total / len(held_out), "; ".join(best.values()))
