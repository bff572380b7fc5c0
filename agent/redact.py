"""Keeping secrets out of conversation and trajectory: they are replaced where a tool's or the judge's output enters.

A secret is found whole, split by colour codes, and wrapped over lines; known values also in base64, hexadecimal and as part
of an address.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|AUTH)S?(_|$)", re.I)
_SHORTEST = 8
_KEYLIKE = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9_+/=-]{24,}")
_BITS_A_CHARACTER = 3.6

_SHAPES = re.compile(
    r"\b(?:"
    r"sk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and those who follow them
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|hf_[A-Za-z0-9]{24,}|nvapi-[A-Za-z0-9_-]{24,}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{32,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])|xox[abprs]-[A-Za-z0-9-]{10,}|gsk_[A-Za-z0-9]{32,}|r8_[A-Za-z0-9]{32,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"  # a JSON web token
    r")"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<=\bbearer )(?=[A-Za-z._~+/=-]*\d)[A-Za-z0-9._~+/=-]{16,}|(?<=\bBearer )(?=[A-Za-z._~+/=-]*\d)[A-Za-z0-9._~+/=-]{16,}"
    r"|(?<=://)[^\s/:@\"'<>{}$]*:[^\s/@\"'<>{}$*]+(?=@[\w\[])",  # an address with a password
    re.DOTALL,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BREAK = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\\?\r?\n[ \t]*")

Replacing = Callable[[re.Match[str]], str]


class Redactor:
    """Replaces secrets: values of variables whose name or look says so, and what has the shape of a well-known token.

    Args:
        environment: Where the variables are, such as ``os.environ``.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        secrets = {
            form: name
            for name, value in environment.items()
            if len(value) >= _SHORTEST
            and not value.startswith("/")
            and (_NAMES.search(name) or _looks_like_a_key(value))
            for form in _forms(value)
        }
        self._names = secrets
        longest_first = sorted(secrets, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    def __call__(self, text: str) -> str:
        """Return the text with every secret replaced by its name in brackets."""
        text = self._replaced(text)
        for between in (_COLOUR, _BREAK):
            if between.search(text):
                text = self._replaced_across(text, between)
        return text

    def data(self, data: Any) -> Any:
        """Return JSON data with every secret in its texts replaced; keys stay as they are."""
        match data:
            case str():
                return self(data)
            case dict():
                return {key: self.data(value) for key, value in data.items()}
            case list() | tuple():
                return [self.data(value) for value in data]
            case _:
                return data

    def _replaced(self, text: str) -> str:
        if self._values:
            text = self._values.sub(self._named, text)
        return _SHAPES.sub(_token, text)

    def _named(self, match: re.Match[str]) -> str:
        return f"[redacted: {self._names[match[0]]}]"

    def _replaced_across(self, text: str, between: re.Pattern[str]) -> str:
        """Replace what only shows once what stands ``between`` is taken out; everything else stays as it is."""
        if next(self._matches(between.sub("", text)), None) is None:
            return text
        joined, places = _without(text, between)
        found = [(match.start(), match.end(), said) for match, said in self._matches(joined)]
        pieces, done = [], 0
        for start, end, said in sorted(found):
            first, last = places[start], places[end - 1] + 1
            if first >= done and last - first > end - start:  # split: what is whole was replaced before
                pieces += [text[done:first], said]
                done = last
        return "".join([*pieces, text[done:]])

    def _matches(self, text: str) -> Iterator[tuple[re.Match[str], str]]:
        if self._values:
            yield from ((match, self._named(match)) for match in self._values.finditer(text))
        yield from ((match, "[redacted: token]") for match in _SHAPES.finditer(text))


def _token(_match: re.Match[str]) -> str:
    return "[redacted: token]"


def _without(text: str, between: re.Pattern[str]) -> tuple[str, list[int]]:
    """Return a text without what matches, and for each of its characters where it stood."""
    kept: list[str] = []
    places: list[int] = []
    done = 0
    for match in [*between.finditer(text), None]:
        end = match.start() if match else len(text)
        kept.append(text[done:end])
        places += range(done, end)
        done = match.end() if match else end
    return "".join(kept), places


def _forms(value: str) -> Iterator[str]:
    """Yield a value as it may be written: as it is, in hexadecimal, in an address, and in base64 wherever it begins there."""
    yield value
    data = value.encode()
    yield data.hex()
    yield quote(value, safe="")
    for offset in range(3):
        skipped, rest = (0, 2, 3)[offset], (offset + len(data)) % 3
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * offset + data).decode().rstrip("=")
            core = text[skipped : len(text) - 1 if rest else len(text)]
            if len(core) >= _SHORTEST:
                yield core


def _looks_like_a_key(value: str) -> bool:
    """Whether a value is long, of letters of both cases and digits, and as mixed as chance makes it."""
    if not _KEYLIKE.fullmatch(value) or "/" in value[:2]:
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= _BITS_A_CHARACTER
