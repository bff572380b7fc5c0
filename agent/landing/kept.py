"""What the index of a project keeps of one landing: where it is, what was judged, and how it is judged again."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.landing.change import FileChange
from agent.landing.folder import ORIGINAL, RECORD, read_original
from agent.landing.source import find_class
from agent.landing.write import read
from sandbox.errors import LandingRefused
from sandbox.task import DynamicSize, TaskSpec
from sandbox.verdict import Verdict

ENVIRONMENT = ("torch", "cuda", "driver", "device", "sm", "cpu")
"""What a landing grows stale with, as far as the verdict named it."""
_PLACES = ("kind", "path", "class_name", "module_name", "root", "python", "device", "lands_at")
CAPTURES = ".warpsmith/captures"


@dataclass(frozen=True)
class Kept:
    """One landing.

    Attributes:
        name: ``pkg/blocks.py:Block``.
        kind: ``module`` or ``kernelbench``, as in the task.
        file: The developer's file, relative to the project, as the folder is.
        folder: What landed beside it.
        class_name: The class.
        device: ``cpu`` or ``cuda``.
        landed: When, in UTC.
        file_sha256: Of the developer's file as the landing left it; line ends do not count.
        class_sha256: Of the source of the class in it, likewise.
        original_sha256: Of the file as it was before.
        record_sha256: Of the folder's record, which holds the hash of every other file.
        speedup: By baseline, the ratio with its interval.
        environment: What it was judged on; see ``ENVIRONMENT``.
        task: What makes the task beyond its class, as fields of ``TaskSpec`` that are not at their default. Paths are
            relative to the project.
        reward: Of the verdict that the landing rests on; None where it could not be timed.
        session: The session it comes from, on the machine of whoever landed it.
    """

    name: str
    kind: str
    file: str
    folder: str
    class_name: str
    device: str
    landed: str
    file_sha256: str
    class_sha256: str
    original_sha256: str
    record_sha256: str
    speedup: dict[str, tuple[float, float, float]]
    environment: dict[str, str]
    task: dict[str, Any]
    reward: int | None = None
    session: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data, without its name and without a reward that there is not."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "name"}
        data = {key: value for key, value in values.items() if value is not None}
        return {**data, "speedup": {key: list(value) for key, value in self.speedup.items()}}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> Kept:
        """Rebuild a record; unknown keys are ignored.

        Raises:
            KeyError: Keys are missing; it names them.
            TypeError, ValueError: A value is none of its key; it names the key.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"it is {data!r}, not a table")
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        _expect_types(known)
        ratios = {key: (value[0], value[1], value[2]) for key, value in dict(data.get("speedup", {})).items()}
        whole = {"environment": {}, "task": {}, **known, "speedup": ratios}
        missing = [each.name for each in fields(cls) if each.default is MISSING and each.name not in ("name", *whole)]
        if missing:
            raise KeyError(", ".join(missing))
        return cls(name=name, **whole)


def _expect_types(known: Mapping[str, Any]) -> None:
    """Refuse values that no landing has. Raises ``TypeError`` or ``ValueError``, which name the key."""
    for key, value in known.items():
        wanted = {"reward": int, "speedup": dict, "environment": dict, "task": dict}.get(key, str)
        _expect_type(key, value, wanted)
    if known.get("kind", "module") not in ("module", "kernelbench"):
        raise ValueError(f"kind is {known['kind']!r}, not 'module' or 'kernelbench'")
    for key, value in known.get("environment", {}).items():
        _expect_type(f"environment.{key}", value, str)
    for key, value in known.get("speedup", {}).items():
        numbers = isinstance(value, list | tuple) and [type(each) in (int, float) for each in value]
        if numbers != [True, True, True]:
            raise TypeError(f"speedup.{key} is {value!r}, not three numbers")
    plain = TaskSpec("module", Path(), "", "", Path(), Path()).to_json()
    for key, value in known.get("task", {}).items():
        if key == "dynamic":
            _expect_type("task.dynamic", value, list)
            tuple(DynamicSize.from_json(each) for each in value)
        elif key in plain:
            _expect_type(f"task.{key}", value, type(plain[key]))


def _expect_type(key: str, value: object, wanted: type) -> None:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        name = {str: "text", int: "a whole number", dict: "a table", list: "a list", bool: "true or false"}[wanted]
        raise TypeError(f"{key} is {value!r}, not {name}")


def kept_of(spec: TaskSpec, changes: Sequence[FileChange], verdict: Verdict, project: Path, session: str = "") -> Kept:
    """Return what the index will say of a landing that was planned.

    Raises:
        LandingRefused: A path is no text, which the index has to be.
    """
    written = {change.path: change.after for change in changes}
    folder = spec.path.parent / (f"{spec.path.stem}_new" if spec.kind == "kernelbench" else spec.kernels_module)
    record = (folder / "kernels" if spec.kind == "kernelbench" else folder) / RECORD
    kept_original = folder / ("model.py" if spec.kind == "kernelbench" else ORIGINAL)

    def content(path: Path) -> bytes:
        return (written[path] if path in written else read(path)) or b""

    original = content(kept_original) if spec.kind == "kernelbench" else read_original(content(kept_original)) or b""
    return Kept(
        name=name_of(spec, project),
        kind=spec.kind,
        file=_relative(spec.path, project),
        folder=_relative(folder, project),
        class_name=spec.class_name,
        device=spec.device.partition(":")[0],
        landed=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        file_sha256=text_sha256(content(spec.path)),
        class_sha256=class_sha256(content(spec.path), spec.class_name),
        original_sha256=text_sha256(original),
        record_sha256=text_sha256(content(record)),
        **summary_of(verdict),
        task=_task(spec, project),
        session=session,
    )


def summary_of(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of ``Kept`` that say what a verdict said: ``reward``, ``speedup`` and ``environment``."""
    gains = verdict.profile.speedup if verdict.profile is not None else {}
    return {
        "reward": verdict.reward,
        "speedup": {key: (round(g.ratio, 4), round(g.low, 4), round(g.high, 4)) for key, g in gains.items()},
        "environment": {key: str(verdict.environment[key]) for key in ENVIRONMENT if verdict.environment.get(key)},
    }


def name_of(spec: TaskSpec, project: Path) -> str:
    """Return the name that a landing of a task has in the project's index."""
    return f"{_relative(spec.path, project)}:{spec.class_name}"


def text_sha256(data: bytes) -> str:
    """Return the hash of a text however its lines end: a clone may have other line ends."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def class_sha256(source: bytes, name: str) -> str:
    """Return the hash of a class's own lines; empty if the file does not parse or lacks it."""
    try:
        node = find_class(ast.parse(source), name)
    except (SyntaxError, ValueError, LookupError):
        return ""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return text_sha256(b"".join(source.splitlines(keepends=True)[first - 1 : node.end_lineno]).rstrip(b"\r\n"))


def _relative(path: Path, project: Path) -> str:
    try:
        text = path.relative_to(project).as_posix()
        text.encode()
    except (ValueError, UnicodeEncodeError) as error:
        what = "The index of landings cannot name this file."
        raise LandingRefused(what, where=ascii(str(path)), next_step="Give it a name that is text.") from error
    return text


def _task(spec: TaskSpec, project: Path) -> dict[str, Any]:
    """Return what makes the task again: fields that are not at their default, files by their place in the project."""
    plain = TaskSpec("module", spec.path, "", "", spec.root, spec.python).to_json()
    told = {key: value for key, value in spec.to_json().items() if key not in _PLACES and value != plain[key]}
    for key in ("capture", "inputs"):
        if Path(str(told.get(key, ""))).is_absolute():
            told[key] = _portable(Path(told[key]), project)
    portable: dict[str, Any] = json.loads(json.dumps(told))
    return portable


def _portable(path: Path, project: Path) -> str:
    """Return a path below the project; what lies elsewhere is expected among its captures."""
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else f"{CAPTURES}/{path.name}"
