"""Answers of a policy, several at once: whoever asks joins the batch, and whoever is done leaves it.

One thread owns the model while it works. What a conversation has read already is not read again (``trainer.rollout.kv``),
and between short turns the device is the judges' (``trainer.rollout.turns``).
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from sandbox.errors import EnvironmentFault, InternalError, WarpsmithError
from trainer.policy.model import PolicyModel
from trainer.rollout.drawing import Sampling, draw, randomness
from trainer.rollout.kv import KeptPrefixes, argument_of, joined, length, mask_of, rows

Turn = Callable[[str], AbstractContextManager[float]]
"""Gives the device for a while; see ``DeviceTurns.turn``."""
_READ_AT_ONCE = 2048
_CLOSING = "The server is closing."


class OutOfMemory(EnvironmentFault):
    """The device has no room for these answers; ``at_once`` is how many were being written."""

    def __init__(self, at_once: int, tokens: int) -> None:
        fewer = "fewer are written at once from now on" if at_once > 1 else "a shorter conversation may fit"
        super().__init__(
            f"The device is out of memory with {at_once} answers of {tokens:,} tokens at once; {fewer}.",
            next_step="Make --batch, --kept-tokens or --context smaller.",
        )
        self.at_once = at_once


@dataclass(frozen=True)
class Token:
    """A token that was drawn, and its log-probability under the distribution that it was drawn from."""

    id: int
    logprob: float


@dataclass(eq=False)
class Request:
    """An answer that is wanted.

    Attributes:
        prompt: Token ids.
        most: Tokens of the answer at most.
        cached: Tokens of the prompt that had been read before.
        cancelled: Set by whoever no longer wants it.
    """

    prompt: Sequence[int]
    sampling: Sampling
    most: int
    cached: int = 0
    cancelled: bool = False
    _said: queue.SimpleQueue[Token | WarpsmithError | None] = field(default_factory=queue.SimpleQueue)

    def tokens(self) -> Iterator[Token]:
        """Yield the answer's tokens as they come.

        Raises:
            WarpsmithError: It cannot be answered.
        """
        while (said := self._said.get()) is not None:
            if isinstance(said, WarpsmithError):
                raise said
            yield said

    def tell(self, said: Token | WarpsmithError | None) -> None:
        """Pass on a token, what went wrong, or null for the end."""
        self._said.put(said)


@dataclass(eq=False)
class _Row:
    """A request that is being answered: what was read and drawn so far, the last drawn token not read yet."""

    request: Request
    ids: list[int]
    generator: torch.Generator
    drawn: int = 0

    @property
    def read(self) -> int:
        return len(self.ids) - 1


class Generator:
    """Answers requests in a thread of its own until it is closed.

    Args:
        policy: Whose answers they are.
        ends: Ids of the tokens that end an answer.
        turn: Gives the device.
        batch: Answers at once at most; others wait.
        kept_tokens: Of conversations whose keys and values are kept.
    """

    def __init__(self, policy: PolicyModel, ends: Sequence[int], turn: Turn, *, batch: int, kept_tokens: int) -> None:
        self._policy = policy
        self._network: Any = policy.network
        self._cache_as = argument_of(policy.base)
        self._device = policy.device
        self._ends = frozenset(ends)
        self._turn = turn
        self._most = batch
        self._kept = KeptPrefixes(kept_tokens)
        self._asked: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._waiting: list[Request] = []
        self._rows: list[_Row] = []
        self._cache = DynamicCache()
        self._at_work = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="generator", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Request:
        """Let a request be answered, and return it."""
        self._asked.put(request)
        return request

    @contextmanager
    def new_weights(self) -> Iterator[None]:
        """Hold all work while the weights change; what was read under the old ones is forgotten."""
        with self._at_work:
            self._kept.clear()
            self._fail(EnvironmentFault("The weights changed in the midst of an answer."))
            yield

    def close(self) -> None:
        """End the thread; whoever still waits for an answer is told so."""
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while self._take():
            try:
                with (
                    self._at_work,
                    self._turn("writing answers of") as until,
                    torch.inference_mode(),
                    self._policy.computing("policy"),
                ):
                    self._begin_waiting()
                    while self._rows and time.monotonic() < until:
                        self._step()
            except torch.OutOfMemoryError:
                self._make_room()
            except WarpsmithError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - the boundary of the thread: whoever waits is told
                traceback.print_exc()
                self._fail(InternalError(f"The policy could not be asked: {type(error).__name__}: {error}."))
        self._fail(EnvironmentFault(_CLOSING))

    def _take(self) -> bool:
        """Take what is asked, waiting for it if there is nothing to do; tells whether to go on."""
        while not (self._rows or self._waiting) or not self._asked.empty():
            request = self._asked.get()
            if request is None:
                return False
            self._waiting.append(request)
        return True

    def _begin_waiting(self) -> None:
        while self._waiting and len(self._rows) < self._most:
            self._begin(self._waiting[0])
            del self._waiting[0]

    def _begin(self, request: Request) -> None:
        """Read a prompt and draw the first token."""
        cache = self._kept.longest(request.prompt) or DynamicCache()
        request.cached = length(cache)
        ids = torch.tensor([request.prompt[request.cached :]], device=self._device)
        for piece in ids.split(_READ_AT_ONCE, dim=1):
            logits = self._network(input_ids=piece, **{self._cache_as: cache}, use_cache=True, logits_to_keep=1).logits
        row = _Row(request, list(request.prompt), randomness(request.sampling, len(request.prompt), self._device))
        self._cache = joined([self._cache, cache]) if self._rows else cache
        self._rows.append(row)
        self._draw(logits[:, -1], [row])

    def _step(self) -> None:
        """Read the last token of every answer, and draw the next one."""
        read = torch.tensor([row.read for row in self._rows], device=self._device)
        logits = self._network(
            input_ids=torch.tensor([[row.ids[-1]] for row in self._rows], device=self._device),
            attention_mask=mask_of(read + 1, length(self._cache) + 1),
            position_ids=read[:, None],
            **{self._cache_as: self._cache},
            use_cache=True,
        ).logits
        self._draw(logits[:, -1], self._rows)

    def _draw(self, logits: Tensor, drawing: list[_Row]) -> None:
        ids, logprobs = draw(logits, [row.request.sampling for row in drawing], [row.generator for row in drawing])
        for row, token, logprob in zip(drawing, ids, logprobs, strict=True):
            row.ids.append(token)
            row.drawn += 1
            row.request.tell(Token(token, logprob))
        done = [row for row in drawing if self._is_done(row)]
        if done:
            self._let_go(done)

    def _is_done(self, row: _Row) -> bool:
        return row.ids[-1] in self._ends or row.drawn >= row.request.most or row.request.cancelled

    def _let_go(self, done: list[_Row]) -> None:
        """End answers, and keep what was read for them."""
        for row in done:
            self._kept.keep(row.ids[:-1], rows(self._cache, [self._rows.index(row)], row.read))
            row.request.tell(None)
        left = [index for index, row in enumerate(self._rows) if row not in done]
        self._rows = [self._rows[index] for index in left]
        if left:
            self._cache = rows(self._cache, left, max(row.read for row in self._rows))
        else:
            self._cache = DynamicCache()

    def _make_room(self) -> None:
        """Give up the answers at work, and write fewer at once; whoever asks again finds more room."""
        at_once = len(self._rows) + bool(self._waiting)
        longest = max(len(row.ids) for row in self._rows) if self._rows else len(self._waiting[0].prompt)
        self._most = max(1, at_once // 2)
        self._kept.clear()
        self._fail(OutOfMemory(at_once, longest))
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _fail(self, error: WarpsmithError) -> None:
        for request in [*(row.request for row in self._rows), *self._waiting]:
            request.tell(error)
        self._rows, self._waiting, self._cache = [], [], DynamicCache()
