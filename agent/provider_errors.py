"""A provider's error as one of ours: in its own words, and told by whether asking again can help."""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any

from agent.model import ContextTooLong, ModelRefused, ModelRetryable
from sandbox.errors import WarpsmithError

_TOO_LONG = re.compile(
    r"context.{0,12}(length|window|size)|prompt is too long|too many (input )?tokens|maximum context"
    r"|input token count.{0,40}exceeds|input is too long|exceeds the (model's )?max",
    re.I,
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing|credit balance|exceeded your current quota|insufficient balance", re.I
)
_PER_TIME = re.compile(r"per[ _-]?(minute|second|day)|retry in|retryDelay", re.I)
_SET_KEY = "Set the provider's API key in the environment, then run again."
_ADD_CREDIT = "Check the account's credit, or choose another model with --model."
_BAD_KEY = re.compile(r"api[_ ]?key not valid|invalid api[_ ]?key", re.I)
_NO_KEY = re.compile(r"missing credentials|unable to locate credentials|api[_ ]?key", re.I)
_NOT_INSTALLED = re.compile(r"no module named|pip install", re.I)
_NO_SERVER = re.compile(r"^connection error|cannot connect to host|connection refused", re.I)
_WRAPPING = re.compile(
    r"^(litellm\.\w+: |(\w*(Error|Exception|Timeout) ?)+(-|:) |\w+Exception( [A-Za-z]+){1,3} - |Error code: \d+ - )+"
)
_ASIDE = re.compile(
    r"( Original exception: |\. Received Model Group=| LiteLLM Retried|\.? Handle with `litellm).*| ssl:<[^>]*>", re.S
)
_LINE_OF_OLLAMA = re.compile(r"Got unexpected response from Ollama: (\{.*\})", re.S)
_LOST = ("ReadError", "RemoteProtocolError", "ConnectionResetError")
_BODY = re.compile(r"(b['\"])?\{.*\}['\"]?$", re.S)
_RETRY_IN = re.compile(r"(?:retryDelay\W+|(?:try again|retry) in )(\d+(?:\.\d+)?)\s*(ms|s|m)\b", re.I)


def explain(litellm: ModuleType, name: str, error: Exception) -> WarpsmithError:
    """Return the error that a request to the model ``name`` ended with as one of ours."""
    status, said = _answered(error) or getattr(error, "status_code", None) or 0, words_of(error)
    too_long = isinstance(error, litellm.exceptions.ContextWindowExceededError) or _TOO_LONG.search(said)
    if status == 413 or (too_long and status != 429):  # too many tokens at a time is another matter
        return ContextTooLong(f"The conversation is too long for {name}: {said}")
    if not _answered(error) and (broken := _broken_off(litellm, name, error, said)):
        return ModelRetryable(broken, wait_seconds(error))
    if not _answered(error) and _NO_KEY.search(said):  # the status is LiteLLM's own: nobody was asked
        return ModelRefused(f"{name} has no key: {said}", next_step=_SET_KEY)
    if status == 500 and _NOT_INSTALLED.search(said):
        return ModelRefused(f"{name} cannot be asked: {said}", next_step="Install that beside Warpsmith.")
    reached = status and not (status == 500 and _NO_SERVER.search(said))
    what = f"{name} answered {status}: {said}" if reached else f"{name} cannot be reached: {said}"
    if status == 402 or (status in (400, 429) and _NO_CREDIT.search(said) and not _PER_TIME.search(str(error))):
        return ModelRefused(what, next_step=_ADD_CREDIT)
    if status in (408, 409, 425, 429) or status >= 500 or not status:
        return ModelRetryable(what, wait_seconds(error))
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(said)):
        return ModelRefused(what, next_step=_SET_KEY)
    return ModelRefused(what, next_step="Check the settings 'model' and 'api_base'.")


def _broken_off(litellm: ModuleType, name: str, error: Exception, said: str) -> str:
    """Return what to say of an answer that had begun and did not end as it should; nothing of other errors."""
    if _LINE_OF_OLLAMA.search(str(error)):
        return f"{name} broke its answer off: {said}"
    if not isinstance(error, litellm.exceptions.MidStreamFallbackError):
        return ""
    if any(type(cause).__name__ in _LOST for cause in _causes(error)):
        return f"The connection to {name} was lost in the middle of its answer."
    return f"{name} broke its answer off: {said}"


def fell_silent(litellm: ModuleType, error: Exception) -> bool:
    """Whether the error is that the provider sent nothing for too long."""
    late = (TimeoutError, litellm.exceptions.Timeout)
    return not _answered(error) and any(
        isinstance(e, late) or type(e).__name__ == "ReadTimeout" for e in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from, outermost first."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _answered(error: Exception) -> int:
    """Return the status that the provider really answered; 0 if it did not (LiteLLM makes up responses without headers)."""
    responses = (getattr(cause, "response", None) for cause in _causes(error))
    return next((int(r.status_code) for r in reversed(list(responses)) if getattr(r, "headers", None)), 0)


def words_of(error: Exception) -> str:
    """Return what the provider said, as one sentence without LiteLLM's wrapping or the JSON around it."""
    text = _ASIDE.sub("", _WRAPPING.sub("", str(error)).strip()).strip()
    if line := _LINE_OF_OLLAMA.search(text):
        text = line[1]
    said = _told(text) or (text.splitlines() or [type(error).__name__])[0]
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _told(text: str) -> str:
    """Return the message of an error that is given as a JSON body, or nothing."""
    if body := _BODY.search(text):
        text = body[0]
    try:
        text = str(ast.literal_eval(text), "utf-8") if text[:2] in ("b'", 'b"') else text
        data: Any = ast.literal_eval(text) if text.startswith("{'") else json.loads(text, strict=False)
    except (ValueError, SyntaxError):
        return ""
    while isinstance(data, dict):
        data = data.get("error") or data.get("message") or data.get("detail")
    return " ".join(data.split()) if isinstance(data, str) else ""


def wait_seconds(error: Exception) -> float | None:
    """Return how long the provider asks to be left alone: its Retry-After (seconds or a date), or what its words say."""
    headers = _headers(error)
    if milliseconds := headers.get("retry-after-ms"):
        return _seconds(milliseconds, 0.001)
    if value := headers.get("retry-after"):
        return _seconds(value, 1.0)
    if named := _RETRY_IN.search(str(error)):
        return float(named[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[named[2].lower()]
    return None


def _headers(error: Exception) -> Any:
    """Return the headers of the provider's answer, wherever LiteLLM put them."""
    for cause in _causes(error):
        for holder in (getattr(cause, "response", None), cause):
            for name in ("headers", "litellm_response_headers"):
                if found := getattr(holder, name, None):
                    return found
    return {}


def _seconds(value: str, unit: float) -> float | None:
    try:
        return max(0.0, float(value) * unit)
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
