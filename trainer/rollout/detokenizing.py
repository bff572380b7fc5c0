"""Text of tokens as they come: a character that takes several of them is told once it is whole."""

from __future__ import annotations

from typing import Any

_HALF = "\ufffd"


class Detokenizer:
    """Takes ids one by one.

    Args:
        tokenizer: A ``transformers`` tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = 0
        self._told = 0

    def add(self, token: int) -> str:
        """Return the text that became certain; a few ids before it are decoded with it, since words depend on their left."""
        self._ids.append(token)
        text = self._new()
        if text.endswith(_HALF):
            return ""
        self._start, self._told = self._told, len(self._ids)
        return text

    def rest(self) -> str:
        """Return what is left at the end, whole or not."""
        return self._new() if self._told < len(self._ids) else ""

    def _new(self) -> str:
        return self._decoded(self._ids[self._start :])[len(self._decoded(self._ids[self._start : self._told])) :]

    def _decoded(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
