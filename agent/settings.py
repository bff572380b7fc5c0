"""Settings: what a developer can set, where each value came from, and in which order the sources win.

Command line, then environment (``WARPSMITH_*``), then the project's ``warpsmith.toml``, then the user's, then the default.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import platformdirs

from agent.permissions.modes import MODES
from agent.permissions.rules import parse_rule
from sandbox.errors import UsageError

PROJECT_FILE = "warpsmith.toml"
_AT_LEAST = {
    "turn_limit": 1,
    "context_tokens": 1,
    "replay_delay": 0,
    "temperature": 0,
    "top_p": 0,
    "seed": 0,
    "max_output_tokens": 1,
    "token_limit": 0,
    "cost_limit_usd": 0,
    "time_limit_minutes": 0,
    "input_price_usd": 0,
    "output_price_usd": 0,
    "silence_seconds": 1,
}
_OPTIONAL: Mapping[str, type] = {"temperature": float, "top_p": float, "seed": int, "max_output_tokens": int}
"""Empty, these are left to the provider."""
_BOOLEANS = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
EFFORTS = ("", "none", "minimal", "low", "medium", "high", "xhigh", "max")
RewardTier = Literal["full", "quick", "correctness"]
REWARD_TIERS: tuple[RewardTier, ...] = get_args(RewardTier)
JOINED = ("allow", "ask", "deny")
"""Lists to which every source adds, so that a project can forbid more and nothing can forbid less."""
LIMITS = ("turn_limit", "token_limit", "cost_limit_usd", "time_limit_minutes")
"""What ends a run of the agent."""
NOT_FROM_A_PROJECT = (
    "permission_mode",
    "allow",
    "api_base",
    "home",
    "cache",
    "max_output_tokens",
    "reasoning_effort",
    *LIMITS,
    "context_tokens",
    "input_price_usd",
    "output_price_usd",
    "silence_seconds",
)
"""A project that is only looked at must not send the developer's key to a server of its own, nor choose where files go, nor
make answers dearer, grant a run more, or loosen what may be done without asking."""


@dataclass(frozen=True)
class Settings:
    """One frozen tree of everything that can be set; ``origins`` tells where each value came from."""

    model: str = ""
    """LiteLLM model name, or replay:SESSION."""
    api_base: str = ""
    """Address of a server of one's own, of the kind that the model's name begins with; empty for the provider's."""
    temperature: float | None = None
    """How freely answers are sampled; empty for the provider's default, as for the four that follow."""
    top_p: float | None = None
    """Share of the likeliest tokens that answers are sampled from."""
    seed: int | None = None
    """Makes sampling repeatable where the provider can."""
    max_output_tokens: int | None = None
    """Most tokens of one answer."""
    reasoning_effort: str = ""
    """How long a reasoning model thinks: none, minimal, low, medium, high, xhigh or max."""
    turn_limit: int = 150
    """Answers of the model in one run (200 for evaluation)."""
    token_limit: int = 0
    """Tokens that one run may read and write in all; 0 for no limit, as for the two that follow."""
    cost_limit_usd: float = 0.0
    """Dollars that one run may cost, as far as the provider's prices are known."""
    time_limit_minutes: float = 0.0
    """Minutes that one run may take; the best attempt is measured in full after them."""
    input_price_usd: float = 0.0
    """Dollars that a million tokens read cost; 0 for what the provider's price list says, as for the next."""
    output_price_usd: float = 0.0
    """Dollars that a million tokens written cost."""
    silence_seconds: float = 300.0
    """How long the model may send nothing before the connection counts as lost; one that thinks long stays silent long."""
    contrast: bool = True
    """Whether the agent is asked to compare earlier variants of its own before its next attempt."""
    verdicts_ahead: bool = True
    """Whether an edited workspace gets a quick verdict while the model thinks, which the agent's next Check takes."""
    reward_tier: RewardTier = "full"
    """What the best attempt of a run is measured by at its end: full; quick, which then draws the three placements that a
    reward of training takes; or correctness, with which no attempt is timed, and what is correct earns 1."""
    context_tokens: int = 131_072
    """Context budget in tokens; the model's own limit wins if it is smaller."""
    device: str = "auto"
    """Auto, cuda, cuda:N or cpu."""
    python: str = ""
    """The project's interpreter; empty for the active virtual environment, else ours."""
    isolation: str = ""
    """Weakest isolation to accept: namespaces, bubblewrap or limits; or docker; empty for the best there is but for that."""
    home: Path = Path(platformdirs.user_data_dir("warpsmith"))
    """Where sessions are kept."""
    cache: Path = Path(platformdirs.user_cache_dir("warpsmith"))
    """Where compiled kernels are kept."""
    permission_mode: str = "auto"
    """What the agent may do without asking: read-only, ask, or auto (all that its sandbox holds)."""
    allow: tuple[str, ...] = ()
    """Rules for calls that need no asking in ask mode, such as Bash(make *) or Write(kernels/**)."""
    ask: tuple[str, ...] = ()
    """Rules for calls to ask about in every mode; a project can add some."""
    deny: tuple[str, ...] = ()
    """Rules for calls that are never made; a project can add some."""
    replay_delay: float = 0.0
    """Seconds a replayed answer takes to stream, so that it can be followed."""
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON data, without origins."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "origins"}
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Settings:
        """Rebuild settings from their JSON data; unknown keys are ignored."""
        return cls(**{f.name: _typed(f.name, data[f.name], "session") for f in fields(cls) if f.name in data})


def load_settings(command_line: Mapping[str, Any], project: Path | None = None) -> Settings:
    """Merge all sources.

    Args:
        command_line: Values given as options; None means not given.
        project: Folder to look for ``warpsmith.toml`` in, upwards.

    Raises:
        UsageError: A file does not parse, or a value is unknown or of the wrong type.
    """
    user_file = Path(platformdirs.user_config_dir("warpsmith")) / "config.toml"
    sources: list[tuple[str, Mapping[str, Any]]] = [(str(user_file), _read(user_file))]
    if project is not None and (found := _project_file(project)):
        sources.append((str(found), _read(found)))
    environment = {
        f.name: os.environ[name] for f in fields(Settings) if (name := f"WARPSMITH_{f.name.upper()}") in os.environ
    }
    sources.append(("environment", environment))
    sources.append(("command line", {key: value for key, value in command_line.items() if value is not None}))
    values: dict[str, Any] = {}
    origins = {f.name: "default" for f in fields(Settings) if f.name != "origins"}
    for origin, source in sources:
        for key, value in source.items():
            if key not in origins:
                raise UsageError(
                    f"Unknown setting '{key}'.", where=origin, next_step=f"Known are: {', '.join(origins)}."
                )
            if key in NOT_FROM_A_PROJECT and Path(origin).name == PROJECT_FILE:
                raise UsageError(
                    f"A project may not set '{key}'.",
                    where=origin,
                    next_step=f"Set it in {user_file}, as WARPSMITH_{key.upper()} or on the command line.",
                )
            typed = _typed(key, value, origin)
            values[key] = (*values.get(key, ()), *typed) if key in JOINED else typed
            origins[key] = origin
    return Settings(**values, origins=origins)


def _project_file(folder: Path) -> Path | None:
    folder = folder.resolve()
    return next((f for parent in (folder, *folder.parents) if (f := parent / PROJECT_FILE).is_file()), None)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The settings file does not parse: {error}.", where=str(path)) from error


def _typed(key: str, value: Any, origin: str) -> Any:
    """Convert a value to its setting's type; text comes from the environment, other types from files."""
    if key in _OPTIONAL and value in (None, ""):
        return None
    if key in JOINED:
        return _rules(key, value, origin)
    kind: Any = _OPTIONAL.get(key) or type(getattr(Settings, key))
    if kind is bool and isinstance(value, str):
        value = _BOOLEANS.get(value.strip().lower(), value)
    if kind is bool and not isinstance(value, bool):
        raise UsageError(f"'{key}' must be true or false, not {value!r}.", where=origin)
    try:
        if issubclass(kind, Path):
            return Path(value).expanduser().absolute()
        converted = kind(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"'{key}' must be a {kind.__name__}, not {value!r}.", where=origin) from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise UsageError(f"'{key}' must be a finite number, not {value!r}.", where=origin)
    if key == "api_base" and value and not re.match(r"https?://[^/]", value):
        raise UsageError(
            f"'api_base' must be an http or https address, not {value!r}.",
            where=origin,
            next_step="Give one such as http://127.0.0.1:8000/v1.",
        )
    if key == "permission_mode" and converted not in MODES:
        raise UsageError(f"'{key}' must be one of {', '.join(MODES)}, not {value!r}.", where=origin)
    if key == "reasoning_effort" and converted not in EFFORTS:
        raise UsageError(f"'{key}' must be one of {', '.join(EFFORTS[1:])}, not {value!r}.", where=origin)
    if key == "reward_tier" and converted not in REWARD_TIERS:
        raise UsageError(f"'{key}' must be one of {', '.join(REWARD_TIERS)}, not {value!r}.", where=origin)
    if key in _AT_LEAST and converted < _AT_LEAST[key]:
        raise UsageError(f"'{key}' must be at least {_AT_LEAST[key]}, not {value!r}.", where=origin)
    return converted


def _rules(key: str, value: Any, origin: str) -> tuple[str, ...]:
    """Return rules from a list, or from the environment's text with one a line."""
    texts = [line for line in value.splitlines() if line.strip()] if isinstance(value, str) else value
    try:
        return tuple(str(parse_rule(text)) for text in texts)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"'{key}' must be a list of rules: {error}.", where=origin) from error
