"""A session of another model, or of a server that gave no token ids, written anew in the tokens of the policy in training.

The conversation is written by the target's chat template, answer by answer. What the policy would have to write is an
action: the answer's text, its tool calls, and the token that ends it. Text is cut into tokens where a policy begins and
ends to write, as it would be if the policy had sampled it. Reasoning is left out: another model's is a summary or sealed,
and never the tokens it was thought in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from agent.exports.plain import plain, with_objects
from agent.exports.stretches import Written
from agent.exports.trajectory import Message, Trajectory, Turn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class NotWritable(Exception):
    """The target's chat template cannot write a conversation; says why, in one sentence."""


def retokenized(trajectory: Trajectory, tokenizer: PreTrainedTokenizerBase) -> Iterator[Written]:
    """Yield a session's answers in the target's tokens; no log-probabilities are known.

    Raises:
        NotWritable: The template cannot write what was said and done.
    """
    pen = _Pen(tokenizer)
    text, ids = "", list[int]()
    for turn in trajectory.turns:
        asked, answer = pen.exchange(turn)
        if not asked.startswith(text):
            text, ids = "", []
        ids = [*ids, *pen.tokens(asked[len(text) :])]
        written = pen.tokens(answer)
        yield Written(turn, ids, written, None)
        text, ids = asked + answer, [*ids, *written]


class _Pen:
    """Writes messages by a tokenizer's chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if not tokenizer.chat_template:
            raise NotWritable("The tokenizer has no chat template to write a conversation with.")
        self._tokenizer = tokenizer
        added = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        special = sorted({*tokenizer.all_special_tokens, *added}, key=len, reverse=True)
        self._ended = re.compile(f"({'|'.join(map(re.escape, special))})\\s*\\Z") if special else None

    def exchange(self, turn: Turn) -> tuple[str, str]:
        """Return all that an answer was asked with, up to where the model begins to write, and what it would have to write.

        That goes up to the token that ends it, or to before it where the answer was cut off.
        """
        asked, whole = self._written(turn.messages, turn, asking=True), self._written(turn.conversation, turn)
        if not whole.startswith(asked):
            raise NotWritable("The chat template writes a prompt otherwise once it is answered.")
        answer = whole[len(asked) :]
        names = [call["function"]["name"] for call in turn.event.message.get("tool_calls") or ()]
        if any(name not in answer for name in names):
            raise NotWritable("The chat template does not write the calls of tools.")
        if found := self._ended and self._ended.search(answer):
            answer = answer[: found.start() if turn.event.finish_reason == "length" else found.end(1)]
        return asked, answer

    def tokens(self, text: str) -> list[int]:
        """Return text as token ids; the template wrote every special token there is."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids

    def _written(self, messages: Iterable[Message], turn: Turn, *, asking: bool = False) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                with_objects(map(_without_reasoning, plain(messages))),
                tools=list(turn.tools) or None,
                tokenize=False,
                add_generation_prompt=asking,
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise NotWritable(f"The chat template refuses the conversation: {_in_a_line(error)}") from error
        return str(text)


def _without_reasoning(message: Message) -> Message:
    kept: dict[str, Any] = {key: value for key, value in message.items() if key != "reasoning_content"}
    return {**kept, "content": kept.get("content") or ""}


def _in_a_line(error: Exception) -> str:
    text = str(error).partition("\n")[0] or type(error).__name__
    return text if text.endswith(".") else f"{text}."
