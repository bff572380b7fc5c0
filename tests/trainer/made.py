"""Episodes made up for tests, and folders of tiny models and training sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from trainer.data.dataset import write_set
from trainer.data.episode import Episode, Policy, Segment
from trainer.policy.identity import read_hashes
from trainer.run.learner import Learner
from trainer.run.options import learner_of
from trainer.run.presets import Recipe
from trainer.run.processes import Processes
from trainer.run.run import Origin

VOCABULARY = 300


def segment(random: np.random.Generator, tokens: int, *, vocabulary: int = VOCABULARY) -> Segment:
    """A prompt, an answer, what a tool said, another answer; with the log-probabilities of a uniform policy."""
    action = np.zeros(tokens, dtype=np.bool_)
    action[tokens // 4 : tokens // 2] = True
    action[3 * tokens // 4 :] = True
    turn = np.where(action, 1 + (np.arange(tokens) > tokens // 2), 0).astype(np.int32)
    logprobs = np.where(action, -np.log(vocabulary), np.nan).astype(np.float32)
    return Segment(random.integers(5, vocabulary, tokens).astype(np.int32), action, logprobs, turn)


def episodes(count: int, *, seed: int = 0, longest: int = 40, **others) -> list[Episode]:
    """Episodes of one or two segments with every reward there is."""
    random = np.random.default_rng(seed)
    return [
        Episode(
            id=f"episode-{seed}-{number}",
            task="a task",
            source_sha256="0" * 64,
            segments=tuple(segment(random, int(random.integers(8, longest))) for _ in range(1 + number % 3 // 2)),
            reward=float((-1, 1, 2, 3)[number % 4]),
            truncated=number % 5 == 0,
            policy=Policy(version=0),
            **others,
        )
        for number in range(count)
    ]


def training_set(folder: Path, model: Path, made: list[Episode]) -> Path:
    """Write episodes as a set for the tokenizer of a model."""
    write_set(folder, made, {"tokenizer_sha256": read_hashes(model).tokenizer_sha256})
    return folder


ALONE = Processes(0, 1, torch.device("cpu"))


def learner_over(
    model: Path, *, trains: list[str], processes: Processes = ALONE, lora: int | None = None, **settings
) -> Learner:
    """A learner with the published recipe but for some of its numbers."""
    recipe = replace(Recipe(), **settings)
    return learner_of(Origin(stage="test", recipe=recipe, model=str(model), lora=lora), processes, trains)
