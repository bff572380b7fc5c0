"""The Python API behind ``warpsmith.py``: a module and example inputs in, the landed-form module out.

What handles the caller's tensors is loaded by its path from the harness and finds the caller's torch; nothing here
imports it. Everything else happens in processes of Warpsmith's own, as on the command line.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agent.events import RunEnded
from agent.form import ready_form
from agent.kept_recordings import new_recording
from agent.model import require_model
from agent.session import create_session, find_session
from agent.settings import Settings, load_settings
from agent.store import read_events
from sandbox.asked import asked_task, inputs_file
from sandbox.errors import EnvironmentFault, ExitCode, InternalError, TaskError, UsageError, WarpsmithError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.devices import resolve_device
from sandbox.machine.scratch import scratch_folder
from sandbox.target import parse_dynamic
from sandbox.task import TaskSpec
from sandbox.verdict import Tier, Verdict

_RECORDER = "_warpsmith_recorder"
_FOLDER = Path(__file__).parent.parent / "sandbox" / "harness" / "recorder"
_RUN = "import sys; from pathlib import Path; from agent.headless import resume; sys.exit(resume(Path(sys.argv[1])))"
_TASK_OPTIONS = ("init", "inputs", "factory", "dtype", "precision", "policy", "judged_by", "tolerance", "dynamic")
_MODES = ("training", "gradients", "capture", "env")


def optimize(module: Any, example_inputs: Any, *, quiet: bool, options: Mapping[str, Any]) -> Any:
    """See ``warpsmith.optimize``."""
    settings, asked = _sorted(options)
    require_model(settings)
    spec = _captured(module, example_inputs, settings, asked, new_recording(settings.home))
    folder = create_session(spec, settings, settings.home)
    flag = "-I" if sys.flags.isolated else "-P"
    output = subprocess.DEVNULL if quiet else 2
    command = [sys.executable, flag, "-c", _RUN, str(folder)]
    _require_run(folder, subprocess.run(command, stdout=output, stderr=output, check=False).returncode)
    return _replaced(folder, module, asked.get("init", ""), faster=True)


def check(module: Any, candidate: Path, example_inputs: Any, *, tier: Tier, options: Mapping[str, Any]) -> Verdict:
    """See ``warpsmith.check``."""
    settings, asked = _sorted(options)
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-capture-") as capture,
        scratch_folder("warpsmith-api-") as scratch,
    ):
        if isinstance(module, str | Path):
            asked["inputs"] = inputs_file(asked.get("inputs", ""))
            device = resolve_device(settings.device)
            spec = asked_task(str(module), python=settings.python or sys.executable, device=device, **asked)
        else:
            spec = _captured(module, example_inputs, settings, asked, Path(capture))
        isolation = best_isolation(settings.isolation or None)
        with Judge(spec, isolation=isolation, cache=settings.cache, scratch=scratch) as judge:
            return judge.check(candidate, tier)


def load(source: str | Path, module: Any, *, options: Mapping[str, Any]) -> Any:
    """See ``warpsmith.load``."""
    settings, asked = _sorted(options)
    return _replaced(find_session(settings.home, str(source)), module, asked.get("init", ""), faster=False)


def _replaced(session: Path, module: Any, init: str, *, faster: bool) -> Any:
    """Return a session's best attempt in its landed form: the class, or a module in the place of the given one."""
    folder, told = ready_form(session, faster=faster)
    form = _recorder("form")
    cls = form.load_class(folder, told, module)
    if module is None:
        return cls
    known = _recorder("one").constructed_with(module, init or told["init"])
    try:
        return form.replaced(cls, module, known)
    except form.Unfit as unfit:
        raise UsageError(
            f"This module is not like the one that was optimised: {unfit}.",
            where=told["class"],
            next_step="Give one that is built the same way, and init=... as it was built.",
        ) from unfit


def _require_run(folder: Path, status: int) -> None:
    """Raise what kept a session from being a run of the agent: the task, the machine or model, an interrupt, or us."""
    if status in (ExitCode.OK, ExitCode.FAILED):
        return
    if status == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    ends = [stored.event for stored in read_events(folder) if isinstance(stored.event, RunEnded)]
    what = f"The session ended: {ends[-1].reason}. {ends[-1].detail}" if ends else f"The session ended with {status}."
    kinds: dict[int, type[WarpsmithError]] = {ExitCode.USAGE: TaskError, ExitCode.ENVIRONMENT: EnvironmentFault}
    raise kinds.get(status, InternalError)(
        what.strip(), where=str(folder), next_step="What was judged before is kept: warpsmith sessions show last"
    )


def _captured(module: Any, inputs: Any, settings: Settings, asked: Mapping[str, Any], folder: Path) -> TaskSpec:
    """Capture a module of the caller's and return its task, in the caller's interpreter and on the module's device."""
    one = _recorder("one")
    if inputs is None:
        raise UsageError("Example inputs are missing.", next_step="Give a tensor, a tuple of arguments or a dict.")
    gradients = bool(module.training) if asked.get("gradients") is None else asked["gradients"]
    device = resolve_device(one.device_of(module, inputs))
    known = one.constructed_with(module, asked.get("init", ""))
    capture = one.capture_one(folder, module, inputs, known, gradients)
    named = {**asked, "gradients": gradients, "init": asked.get("init", "")}
    return asked_task(None, str(capture), python=settings.python or sys.executable, device=device, **named)


def _sorted(options: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Return options as settings and as what describes a task.

    Raises:
        UsageError: One is neither.
    """
    known = {field.name for field in fields(Settings)} - {"origins"}
    for name in options:
        if name not in known and name not in (*_TASK_OPTIONS, *_MODES):
            raise UsageError(
                f"There is no option '{name}'.",
                next_step=f"Known are: {', '.join(sorted({*known, *_TASK_OPTIONS, *_MODES}))}.",
            )
    settings = load_settings({name: options[name] for name in options if name in known}, project=Path.cwd())
    asked = {name: value for name, value in options.items() if name not in known}
    if "dynamic" in asked:
        asked["dynamic"] = tuple(parse_dynamic(text) for text in asked["dynamic"])
    return settings, asked


def _recorder(part: str) -> Any:
    """Return a part of the harness that handles the caller's tensors; the caller's torch is what it imports."""
    if _RECORDER not in sys.modules:
        spec: Any = importlib.util.spec_from_file_location(
            _RECORDER, _FOLDER / "__init__.py", submodule_search_locations=[str(_FOLDER)]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules[_RECORDER] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{_RECORDER}.{part}")
