"""Asking the model until it answers: what failed in passing is asked again, after the wait that was asked for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from agent.model import Answer, Messages, Model, ModelRefused, ModelRetryable, OnPiece

ATTEMPTS = 6
LONGEST_WAIT = 600.0
"""Seconds. A provider that asks to be left alone for longer has refused."""

OnRetry = Callable[[str, float], None]


async def ask(
    model: Model,
    messages: Messages,
    tools: Messages,
    on_piece: OnPiece,
    on_retry: OnRetry,
) -> Answer:
    """Return the model's answer, asking up to six times.

    What streamed before a failure is void: the answer is asked for anew. Waits double from one second, with jitter, unless
    the provider names one; ``on_retry`` is told what failed and the seconds before each.

    Raises:
        ModelRefused: It refused, or failed every time.
        ContextTooLong, RunStopped: See ``agent.model``.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await model.answer(messages, tools, on_piece)
        except ModelRetryable as error:
            failure = error
        wait = failure.wait_seconds
        if wait is not None and wait > LONGEST_WAIT:
            raise ModelRefused(f"{failure.what} It asks to wait {wait:.0f} seconds.", next_step=failure.next_step)
        if attempt < ATTEMPTS:
            seconds = wait if wait is not None else 2.0 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311
            on_retry(failure.what, seconds)
            await asyncio.sleep(seconds)
    raise ModelRefused(f"{failure.what} (asked {ATTEMPTS} times)", next_step=failure.next_step)
