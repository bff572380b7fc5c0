"""The command ``warpsmith``, and the Python API: ``from warpsmith import optimize, check, load``.

The API is for scripts that run in an environment which has Warpsmith and their own torch. Importing this module loads
nothing else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor, nn

    from sandbox.verdict import Verdict

    Inputs = Tensor | tuple[Any, ...] | list[Any] | dict[str, Any]

__all__ = ["check", "load", "optimize"]


def optimize(module: nn.Module, example_inputs: Inputs, *, quiet: bool = False, **options: Any) -> nn.Module:
    """Let an agent make a module faster, and return it in the form in which it would land; nothing is written to its project.

    The result shares the module's parameters and buffers and has its hooks, modes and device. A call unlike those that
    were verified runs the original forward, warns once and is counted, as with what lands.

    Args:
        module: Of a class that stands at the top level of a ``.py`` file.
        example_inputs: A tensor, a tuple of forward's arguments, or a dict of its keywords. Gradients are verified where
            the module is in train mode, or with ``gradients=True``.
        quiet: Tell nothing on stderr.
        options: ``model`` (any LiteLLM name, or ``replay:SESSION``), ``init`` (what the module was constructed with, as
            between the parentheses: ``"256, eps=1e-6"``) and whatever else ``warpsmith run`` takes: ``turn_limit``,
            ``dynamic=["x.0=1:4096"]``, ``policy``, ``home`` and so on; ``env``, variables for the processes that run it.

    Raises:
        TaskError: The module cannot be a task; says why.
        LandingRefused: No attempt was faster than eager, in its landed form and by a full verdict.
        EnvironmentFault: The machine or the model is at fault.
    """
    made: nn.Module = _api().optimize(module, example_inputs, quiet=quiet, options=options)
    return made


def check(
    module: nn.Module | str | Path,
    candidate: str | Path,
    example_inputs: Inputs | None = None,
    *,
    tier: Literal["quick", "full"] = "quick",
    **options: Any,
) -> Verdict:
    """Judge a candidate, a folder with the rewritten file and ``kernels/``, against a module, and return the verdict.

    Args:
        module: A module with ``example_inputs``, or a target as on the command line (``"blocks.py:Block"``).
        candidate: The folder, or the Python file with ``kernels/`` beside it.
        example_inputs: See ``optimize``.
        tier: Two placements, or everything.
        options: As for ``optimize``, but for the model; ``inputs="torch.randn(8, 64)"`` for a target.

    Raises:
        UsageError, TaskError, EnvironmentFault: Nothing could be judged.
    """
    verdict: Verdict = _api().check(module, Path(candidate), example_inputs, tier=tier, options=options)
    return verdict


def load(session: str | Path, module: nn.Module | None = None, **options: Any) -> Any:
    """Return the best attempt of a session in its landed form: a module in the place of ``module``, or the class.

    Args:
        session: ``last``, a folder, or the beginning of an id.
        module: See ``optimize``, for what the result shares with it.
        options: ``init``, where the module was constructed with arguments that nobody noted; ``home``.

    Raises:
        UsageError: There is no such session, or the module is of another kind.
        LandingRefused: It has no attempt that is correct in its landed form.
    """
    return _api().load(session, module, options=options)


def main() -> int:
    """Run the command line and return its exit code.

    A developer's ``PYTHONPATH`` may hold packages called ``app`` or ``agent``. It is meant for their interpreter, so this
    one starts again without it; the variable stays in the environment for theirs.
    """
    if os.environ.get("PYTHONPATH") and not sys.flags.ignore_environment:
        start = "import sys; from warpsmith import main; sys.exit(main())"
        os.execv(sys.executable, [sys.executable, "-I", "-c", start, *sys.argv[1:]])  # noqa: S606
    from app.cli import main as command_line

    return command_line()


def _api() -> Any:
    """Return the API's module, where no package of the caller's stands in its way."""
    import agent
    import sandbox

    for package in (agent, sandbox):
        if Path(str(package.__file__)).parent.parent != Path(__file__).parent:
            raise ImportError(
                f"This program's own package '{package.__name__}' ({package.__file__}) stands where Warpsmith's would. "
                "Use the command warpsmith, which is not in its way."
            )
    from agent import api

    return api
