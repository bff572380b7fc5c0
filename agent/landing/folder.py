"""The folder of kernels that lands beside a module: its sources, and all it takes to run them without Warpsmith."""

from __future__ import annotations

import ast
import hashlib
import json
import keyword
import pprint
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sandbox
from agent.landing.fallback import Fallback
from agent.landing.verified import VerifiedInputs
from sandbox.build import calls
from sandbox.build.signature import Launcher, parse_launchers
from sandbox.build.sources import HEADER_SUFFIXES, read_directives
from sandbox.build.target import Target, cpu_target, cuda_target
from sandbox.errors import LandingRefused
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict

RECORD = "_landed.py"
ORIGINAL = "_original.py"
CALLS = "_landed_calls.cpp"
"""For each launcher a function that takes its arguments in one piece, which saves half the time of a call."""
FORMAT = "warpsmith.landed/1"
_TAKEN = {"counts", "landed"}
_HEADER = b"""\
# Landed by Warpsmith; its undo takes it away again.
# mypy: ignore-errors
# flake8: noqa
# pylint: skip-file
# isort: skip_file
# fmt: off
"""
"""Keeps the developer's own checkers and formatters from files that are not theirs to mend."""

_KEPT_OF_ENVIRONMENT = ("device", "sm", "cpu", "driver", "torch", "cuda", "python")
_RUNTIME = Path(__file__).parent / "runtime"
_BINDING = Path(sandbox.__file__).parent / "harness/warpsmith_harness/kernels.py"


def kernel_files(spec: TaskSpec, state: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the sources and headers of a state, by their path below its ``kernels`` folder."""
    kept = {spec.kernel_suffix, *HEADER_SUFFIXES}
    inside = {name.removeprefix("kernels/"): data for name, data in state.items() if name.startswith("kernels/")}
    return {name: data for name, data in sorted(inside.items()) if Path(name).suffix in kept}


def package(spec: TaskSpec, kernels: Mapping[str, bytes], verdict: Verdict) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of a folder of kernels without its record, and the record."""
    sources = {name: data for name, data in kernels.items() if Path(name).suffix == spec.kernel_suffix}
    launchers = [each for name, data in sources.items() for each in parse_launchers(data, name).launchers]
    for launcher in launchers:
        if launcher.name in _TAKEN:
            what = f"A kernel is called {launcher.name}, which is a name of the folder's own."
            raise LandingRefused(
                what, where=f"kernels/{launcher.file}", next_step="Have the agent give it another name."
            )
    record: dict[str, Any] = {
        "format": FORMAT,
        "class": spec.candidate_class,
        "device": spec.device.partition(":")[0],
        "arch": "cpu" if spec.device == "cpu" else verdict.environment["sm"],
        "functions": [launcher.to_json() for launcher in launchers],
        "recipe": _recipe(spec, sources, kernels, verdict),
        "verdict": _summary(verdict),
    }
    digest = hashlib.sha256(json.dumps(record["recipe"], sort_keys=True).encode())
    for name, data in kernels.items():
        digest.update(f"\0{name}\0".encode() + data)
    record["namespace"] = re.sub(r"\W", "_", spec.kernels_module, flags=re.ASCII) + "_" + digest.hexdigest()[:8]
    files = {path.name: _HEADER + path.read_bytes() for path in sorted(_RUNTIME.glob("_*.py"))}
    if launchers:
        files[CALLS] = calls.source(launchers)
    files["_kernels.py"] = _HEADER + _BINDING.read_bytes()
    files["__init__.py"] = _HEADER + _init_source(spec, launchers, verdict).encode()
    return {**files, **kernels}, record


def guarded(record: dict[str, Any], verified: VerifiedInputs, fallback: Fallback) -> dict[str, Any]:
    """Add to a record what the landed class checks, and how its original runs."""
    return {**record, "contract": verified.to_json(), "original": fallback.to_json()}


def write_record(record: Mapping[str, Any]) -> bytes:
    """Return a record as a Python file: it is there wherever its package is, while data files may be left behind."""
    what = '"""What landed here, how it was verified, and the hash of every file of it."""'
    return _HEADER + f"{what}\n\nRECORD = {pprint.pformat(dict(record), width=118)}\n".encode()


def read_record(data: bytes | None) -> dict[str, Any]:
    """Read a record that was written; empty if there is none, or it was edited beyond recognition."""
    record = _read_value(data)
    return record if isinstance(record, dict) else {}


def write_original(spec: TaskSpec, source: bytes) -> bytes:
    """Return a developer's file as the value of a Python file, which no checker of theirs mistakes for a module."""
    lines = "".join(f"    {line!r}\n" for line in source.splitlines(keepends=True)) or '    b""\n'
    return _HEADER + f'"""What {spec.path.name} was before the landing."""\n\nSOURCE = (\n{lines})\n'.encode()


def read_original(data: bytes | None) -> bytes | None:
    """Return the developer's file that was kept, or None."""
    source = _read_value(data)
    return source if isinstance(source, bytes) else None


def _read_value(data: bytes | None) -> Any:
    """Return what the only assignment of a Python file assigns, if that is a literal."""
    try:
        (statement,) = (node for node in ast.parse(data or b"").body if isinstance(node, ast.Assign))
        return ast.literal_eval(statement.value)
    except (SyntaxError, ValueError):
        return None


def _recipe(
    spec: TaskSpec, sources: Mapping[str, bytes], kernels: Mapping[str, bytes], verdict: Verdict
) -> dict[str, Any]:
    """Return how the library is made: flags of each file, without the architecture, which the machine it runs on decides."""
    files: dict[str, Any] = {}
    if not sources:
        return {"files": files, "headers": [], "link": []}
    on_cpu = spec.kernel_suffix == ".cpp"
    target = cpu_target() if on_cpu else cuda_target(verdict.environment["sm"], (), ())
    files[CALLS] = {"flags": [flag if on_cpu else f"-Xcompiler={flag}" for flag in calls.FLAGS], "link": []}
    for name, data in sources.items():
        libraries, fast_math, _ = read_directives(data.decode(errors="replace"), cuda=not on_cpu)
        files[name] = {"flags": [*_flags(target), *(target.fast_math if fast_math else ())], "link": list(libraries)}
    return {
        "files": files,
        "headers": [name for name in kernels if name not in sources],
        "link": ["-fopenmp"] if on_cpu else [],
    }


def _flags(target: Target) -> list[str]:
    flags = list(target.flags)
    if "-gencode" in flags:
        position = flags.index("-gencode")
        del flags[position : position + 2]
    return [flag for flag in flags if flag != "-Xptxas=-v"]


def _summary(verdict: Verdict) -> dict[str, Any]:
    """Return what a later look at the landing needs of the verdict."""
    speedup = {} if verdict.profile is None else {name: vars(each) for name, each in verdict.profile.speedup.items()}
    return {
        "tier": verdict.tier,
        "reward": verdict.reward,
        "candidate_sha256": verdict.candidate_sha256,
        "environment": {key: verdict.environment.get(key) for key in _KEPT_OF_ENVIRONMENT},
        "speedup": speedup,
    }


def _init_source(spec: TaskSpec, launchers: list[Launcher], verdict: Verdict) -> str:
    lines = [
        f'"""Kernels of {spec.candidate_class} in {spec.candidate_file}, written, judged and landed by Warpsmith.',
        "",
        *_claims(verdict),
        "They are compiled on first use, for the machine they run on, into the user's cache.",
    ]
    if spec.kind == "module":
        gradients = "mode, gradients too" if spec.gradients else "mode, no gradients"
        lines += [
            "",
            f"A call like those that were verified (dtypes, shapes, device, {gradients}) runs them. Any other call runs the",
            f"original forward, which {ORIGINAL} keeps. counts() tells how often each happened, and why.",
        ]
    lines += [
        '"""',
        "",
        "from . import _kernels, _landed, _runtime",
        "",
        "_landing = _runtime.Landing(__name__, __file__, _landed.RECORD, _kernels.bind)",
    ]
    if spec.kind == "module":
        lines += ["landed = _landing.landed"]
    lines += ["counts = _landing.counts", ""]
    lines += [f'_{launcher.name} = _landing.operator("{launcher.name}")' for launcher in launchers]
    for launcher in launchers:
        names = ", ".join(_python_names(launcher))
        written = [param.name for param in launcher.params if param.kind == "output"]
        lines += [
            "",
            "",
            f"def {launcher.name}({names}):",
            f'    """Run {launcher.name} of {launcher.file}; it writes {", ".join(written) or "nothing"}."""',
            "    _bound = None if _runtime.is_compiling() else _landing.here.kernels",
            "    if _bound is None:",
            f"        _{launcher.name}({names})",
            "    else:",
            '        _landing.tally["launches"] += 1',
            f"        _bound.{launcher.name}({names})",
        ]
    return "\n".join(lines) + "\n"


def _claims(verdict: Verdict) -> list[str]:
    """Say in a sentence or two what was measured, and on what."""
    environment = verdict.environment
    device = environment.get("cpu", "a CPU") if environment["device"] == "cpu" else environment["device"]
    lines = [f"Verified on {device} with torch {environment.get('torch', '')}."]
    if verdict.profile is not None:
        for name, each in verdict.profile.speedup.items():
            lines.append(f"Speed against {name}: {each.ratio:.2f} times ({each.low:.2f} to {each.high:.2f}).")
    return lines


def _python_names(launcher: Launcher) -> list[str]:
    names: list[str] = []
    for param in launcher.params:
        name = param.name.lstrip("_") or "arg"
        while keyword.iskeyword(name) or name in names:
            name += "_"
        names.append(name)
    return names
