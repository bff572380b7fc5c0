"""Keeping secrets out of the conversation, and so out of the trajectory: they are replaced where a tool's output enters."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.I)
_SHORTEST = 8

_SHAPES = re.compile(
    r"\b(?:"
    r"sk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and those who follow them
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|hf_[A-Za-z0-9]{24,}|nvapi-[A-Za-z0-9_-]{24,}|AIza[A-Za-z0-9_-]{30,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"  # a JSON web token
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


class Redactor:
    """Replaces secrets: the values of variables whose name says so, and what has the shape of a well-known token.

    Args:
        environment: Where the variables are, such as ``os.environ``.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        secrets = {
            value: name
            for name, value in environment.items()
            if _NAMES.search(name) and len(value) >= _SHORTEST and not value.startswith("/")
        }
        self._names = secrets
        longest_first = sorted(secrets, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    def __call__(self, text: str) -> str:
        """Return the text with every secret replaced by its name in brackets."""
        if self._values:
            text = self._values.sub(lambda match: f"[redacted: {self._names[match[0]]}]", text)
        return _SHAPES.sub("[redacted: token]", text)
