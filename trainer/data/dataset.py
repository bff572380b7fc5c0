"""A training set on disk: a folder with an index and shards of token arrays, written whole or not at all.

``index.json`` holds the head and what is known of every episode; ``shard-00000.safetensors`` and so on hold the arrays of
``Segment``, one episode's segments after the other. The index has the hash of every shard, so that what is torn or was made
by somebody else is refused before anything learns from it. A set is derived: it can always be made again from the sessions.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sandbox.errors import EnvironmentFault, InternalError, UsageError
from trainer.data.episode import Episode, Policy, Segment, Stage

FORMAT = "warpsmith.training-set/1"
INDEX = "index.json"
SHARD_TOKENS = 16_777_216
"""About so many tokens are in a shard; an episode is never cut."""

_ARRAYS: dict[str, type[np.generic]] = {"ids": np.int32, "action": np.bool_, "logprobs": np.float32, "turn": np.int32}
_AGAIN = "Make the set again: warpsmith train ingest"


def write_set(folder: Path, episodes: Iterable[Episode], head: Mapping[str, Any]) -> None:
    """Write a training set; ``folder`` appears when it is complete.

    Raises:
        UsageError: There is something at ``folder`` already.
        EnvironmentFault: It cannot be written, such as when the disk is full; then nothing of it is left.
    """
    with SetWriter(folder) as writer:
        for episode in episodes:
            writer.add(episode)
        writer.finish(head)


class SetWriter:
    """Writes a training set episode by episode, in a folder beside the one that it becomes; see ``write_set``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        self._episodes: list[dict[str, Any]] = []
        self._shards: list[dict[str, Any]] = []
        self._waiting: list[Segment] = []
        self._tokens = 0

    def __enter__(self) -> SetWriter:
        if self.folder.exists():
            raise UsageError(
                "There is something here already.", where=str(self.folder), next_step="Name another folder with --out."
            )
        with _disk_faults(self.folder):
            shutil.rmtree(self._part, ignore_errors=True)
            self._part.mkdir(parents=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._part, ignore_errors=True)

    def add(self, episode: Episode) -> None:
        """Add an episode.

        Raises:
            InternalError: It is none: a reward that is not finite, or arrays that do not fit each other.
        """
        if problem := _unfit(episode):
            raise InternalError(f"This is no episode: {problem}.", where=episode.id)
        places = []
        for segment in episode.segments:
            places.append({"shard": len(self._shards), "start": self._tokens, "tokens": len(segment.ids)})
            self._waiting.append(segment)
            self._tokens += len(segment.ids)
        self._episodes.append({**_described(episode), "segments": places})
        if self._tokens >= SHARD_TOKENS:
            self._write_shard()

    def finish(self, head: Mapping[str, Any]) -> None:
        """Write what is left, and let the set appear."""
        if self._waiting:
            self._write_shard()
        index = {"format": FORMAT, "head": dict(head), "shards": self._shards, "episodes": self._episodes}
        with _disk_faults(self.folder):
            _write(self._part / INDEX, json.dumps(index, allow_nan=False, indent=1).encode())
            self._part.rename(self.folder)

    def _write_shard(self) -> None:
        arrays: dict[str, NDArray[Any]] = {
            name: np.concatenate([getattr(segment, name) for segment in self._waiting]).astype(kind)
            for name, kind in _ARRAYS.items()
        }
        data, name = save(arrays), f"shard-{len(self._shards):05}.safetensors"
        with _disk_faults(self.folder):
            _write(self._part / name, data)
        self._shards.append({"file": name, "sha256": hashlib.sha256(data).hexdigest(), "tokens": self._tokens})
        self._waiting, self._tokens = [], 0


class _Episodes(Sequence[Episode], ABC):
    """Episodes that are read when they are asked for."""

    @abstractmethod
    def _read(self, index: int) -> Episode:
        """Read one."""

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        if isinstance(index, slice):
            return [self._read(each) for each in range(*index.indices(len(self)))]
        return self._read(index)


@dataclass(frozen=True)
class TrainingSet(_Episodes):
    """Episodes on disk, read when they are asked for.

    Attributes:
        folder: Where they are.
        head: How the set was made: version, target, what was left out and why, counts.
    """

    folder: Path
    head: dict[str, Any]
    _episodes: list[dict[str, Any]]
    _shards: list[str]

    def __len__(self) -> int:
        return len(self._episodes)

    def _read(self, index: int) -> Episode:
        data = self._episodes[index]
        return _episode(data, tuple(self._segment(**place) for place in data["segments"]))

    def eligible(self, stage: Stage) -> Eligible:
        """Return the episodes that may enter a stage.

        Raises:
            UsageError: There is none; says the most frequent reason.
        """
        chosen = [index for index, data in enumerate(self._episodes) if stage not in data["refused"]]
        if not chosen:
            reasons = Counter(data["refused"][stage] for data in self._episodes)
            most = "; ".join(f"{count} × {why}" for why, count in reasons.most_common(3)) or "the set is empty"
            raise UsageError(
                f"No episode of this set may enter {stage}: {most}",
                where=str(self.folder),
                next_step="Ingest other sessions, or see why each is refused: warpsmith train ingest --json",
            )
        return Eligible(self, tuple(chosen))

    def require_tokenizer(self, sha256: str, where: str) -> None:
        """Refuse a policy whose tokens mean something else than the set's.

        Args:
            sha256: Of the policy's tokenizer (``trainer.policy.identity.read_hashes``).
            where: The policy's folder.

        Raises:
            UsageError: They do.
        """
        own = self.head.get("tokenizer_sha256", "")
        if own != sha256:
            told = (
                f"the set's is {own[:12]}, the policy's {sha256[:12]}" if own else "the set was made for no tokenizer"
            )
            raise UsageError(
                f"The tokenizer does not match: {told}.",
                where=f"{self.folder} and {where}",
                next_step=f"Make the set for this policy: warpsmith train ingest ... --tokenizer {where}",
            )

    @cached_property
    def sha256(self) -> str:
        """Hash of the index, and so of all that is in the set."""
        return hashlib.sha256((self.folder / INDEX).read_bytes()).hexdigest()

    @cached_property
    def _open(self) -> dict[int, Any]:
        return {}

    def _segment(self, shard: int, start: int, tokens: int) -> Segment:
        if shard not in self._open:
            self._open[shard] = safe_open(self.folder / self._shards[shard], framework="numpy")
        file = self._open[shard]
        return Segment(**{name: file.get_slice(name)[start : start + tokens] for name in _ARRAYS})


@dataclass(frozen=True)
class Eligible(_Episodes):
    """Some episodes of a set, read when they are asked for."""

    of: TrainingSet
    indices: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.indices)

    def _read(self, index: int) -> Episode:
        return self.of[self.indices[index]]


def read_set(folder: Path) -> TrainingSet:
    """Open a training set, after looking at every byte of it.

    Raises:
        UsageError: The folder holds none, or it is torn, was changed, or has a format that this version does not know.
    """
    try:
        index = json.loads((folder / INDEX).read_text(), parse_constant=_refuse_constant)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"This is no training set that can be read: {why}.", where=str(folder / INDEX), next_step=_AGAIN
        ) from error
    found = index.get("format") if isinstance(index, dict) else None
    if found != FORMAT:
        raise UsageError(
            f"The format of this training set is {found}; this version reads {FORMAT}.",
            where=str(folder / INDEX),
            next_step=_AGAIN,
        )
    try:
        for shard in index["shards"]:
            _check(folder / str(shard["file"]), shard)
        whole = TrainingSet(folder, index["head"], index["episodes"], [str(shard["file"]) for shard in index["shards"]])
        for data in index["episodes"]:
            _check_described(data, index["shards"])
    except (KeyError, TypeError, ValueError, AttributeError, SafetensorError) as error:
        raise UsageError(
            f"This training set is damaged: {type(error).__name__} {error}.", where=str(folder), next_step=_AGAIN
        ) from error
    return whole


def _check(path: Path, shard: Mapping[str, Any]) -> None:
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(
            f"A part of this training set cannot be read: {error.strerror}.", where=str(path), next_step=_AGAIN
        ) from error
    if sha256 != shard["sha256"]:
        raise UsageError("A part of this training set is torn, or was changed.", where=str(path), next_step=_AGAIN)


def _check_described(data: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]) -> None:
    """See that an episode of the index is one, and that its segments lie in their shards."""
    if problem := _infinite(_episode(data, ()).reward):
        raise ValueError(f"episode {data['id']}: {problem}")
    for place in data["segments"]:
        start, tokens = place["start"], place["tokens"]
        if not 0 <= start <= start + tokens <= shards[place["shard"]]["tokens"]:
            raise ValueError(f"episode {data['id']} lies outside of its shard")
    if not data["segments"]:
        raise ValueError(f"episode {data['id']} has no tokens")


def _described(episode: Episode) -> dict[str, Any]:
    kept = {f.name: getattr(episode, f.name) for f in fields(episode) if f.name not in ("segments", "policy")}
    return {**kept, "policy": asdict(episode.policy)}


def _episode(data: Mapping[str, Any], segments: tuple[Segment, ...]) -> Episode:
    known = {f.name for f in fields(Episode)}
    values = {key: value for key, value in data.items() if key in known}
    refused = {Stage(stage): why for stage, why in data["refused"].items()}
    reward = None if data["reward"] is None else float(data["reward"])
    policy = Policy(**{f.name: data["policy"][f.name] for f in fields(Policy)})
    return Episode(**{**values, "segments": segments, "refused": refused, "reward": reward, "policy": policy})


def _unfit(episode: Episode) -> str:
    """Return why an episode must not be written, or an empty text."""
    if problem := _infinite(episode.reward):
        return problem
    if not episode.segments:
        return "it has no segments"
    for segment in episode.segments:
        if len({len(getattr(segment, name)) for name in _ARRAYS}) != 1:
            return "the arrays of a segment have different lengths"
        if segment.action[:1].any():
            return "the first token of a segment is an action"
    return ""


def _infinite(reward: float | None) -> str:
    return "" if reward is None or math.isfinite(reward) else f"its reward is {reward}"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is no number")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _disk_faults(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(
            f"The training set cannot be written: {error.strerror}.",
            where=str(folder),
            next_step="Free some space, or name another place with --out.",
        ) from error
