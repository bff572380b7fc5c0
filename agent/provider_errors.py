"""A provider's error as one of ours: in its own words, and told by whether asking again can help."""

from __future__ import annotations

import json
import re
import time
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
_NO_KEY = re.compile(r"missing credentials|api[_ ]?key", re.I)
_NO_SERVER = re.compile(r"^connection error|cannot connect to host|connection refused", re.I)
_WRAPPING = re.compile(r"^(litellm\.\w+: |\w*(Error|Exception|Timeout)( Error)?( -|:) |Error code: \d+ - )+")
_ASIDE = re.compile(r"( Original exception: |\. Received Model Group=| LiteLLM Retried).*", re.S)
_BODY = re.compile(r"^b?(['\"]?)(\{.*\})\1$", re.S)
_RETRY_IN = re.compile(r"(?:retryDelay\W+|(?:try again|retry) in )(\d+(?:\.\d+)?)\s*(ms|s|m)\b", re.I)


def explain(litellm: ModuleType, name: str, error: Exception) -> WarpsmithError:
    """Return the error that a request to the model ``name`` ended with as one of ours."""
    status = getattr(error, "status_code", None) or 0
    said = words_of(error)
    if isinstance(error, litellm.exceptions.ContextWindowExceededError) or status == 413 or _TOO_LONG.search(said):
        return ContextTooLong(f"The conversation is too long for {name}: {said}")
    if status == 500 and _NO_KEY.search(said):  # LiteLLM's own number: nobody was asked
        return ModelRefused(f"{name} has no key: {said}", next_step=_SET_KEY)
    reached = status and not (status == 500 and _NO_SERVER.search(said))
    what = f"{name} answered {status}: {said}" if reached else f"{name} cannot be reached: {said}"
    if status == 402 or (status in (400, 429) and _NO_CREDIT.search(said) and not _PER_TIME.search(str(error))):
        return ModelRefused(what, next_step=_ADD_CREDIT)
    if status in (408, 409, 425, 429) or status >= 500 or not status:
        return ModelRetryable(what, wait_seconds(error))
    if status in (401, 403):
        return ModelRefused(what, next_step=_SET_KEY)
    return ModelRefused(what, next_step="Check the settings 'model' and 'api_base'.")


def words_of(error: Exception) -> str:
    """Return what the provider said, as one sentence without LiteLLM's wrapping or the JSON around it."""
    text = _ASIDE.sub("", _WRAPPING.sub("", str(error)).strip())
    said = _told(text) or (text.splitlines() or [type(error).__name__])[0]
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _told(text: str) -> str:
    """Return the message of an error that is given as a JSON body, or nothing."""
    body = _BODY.match(text)
    if body is None:
        return ""
    try:
        data: Any = json.loads(body[2].replace("\\n", "\n") if body[1] else body[2], strict=False)
    except ValueError:
        return ""
    while isinstance(data, dict):
        data = data.get("error") or data.get("message") or data.get("detail")
    return " ".join(data.split()) if isinstance(data, str) else ""


def wait_seconds(error: Exception) -> float | None:
    """Return how long the provider asks to be left alone: its Retry-After (seconds or a date), or what its words say."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    if milliseconds := headers.get("retry-after-ms"):
        return _seconds(milliseconds, 0.001)
    if value := headers.get("retry-after"):
        return _seconds(value, 1.0)
    if named := _RETRY_IN.search(str(error)):
        return float(named[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[named[2].lower()]
    return None


def _seconds(value: str, unit: float) -> float | None:
    try:
        return max(0.0, float(value) * unit)
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
