"""Options that several commands share, and how they become settings and a task."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from agent.permissions.modes import MODES
from agent.settings import LIMITS, Settings, load_settings
from sandbox.asked import asked_task, inputs_file
from sandbox.counts import amount, count, natural
from sandbox.errors import UsageError
from sandbox.machine.devices import resolve_device
from sandbox.target import parse_dynamic
from sandbox.task import TaskSpec


def add_task_options(parser: argparse.ArgumentParser, second: argparse.Action | None = None) -> None:
    """Add everything that describes a task beyond its target; ``second`` is what the command is given behind that."""

    class Capture(argparse.Action):
        """Keeps the folder, which stands for the target: of two names on the command line one may be left out."""

        def __call__(self, _: object, namespace: argparse.Namespace, values: Any, __: str | None = None) -> None:
            setattr(namespace, self.dest, values)
            if second is not None:
                second.nargs, second.required = "?", False

    group = parser.add_argument_group("task")
    group.add_argument(
        "--capture",
        action=Capture,
        default="",
        metavar="FOLDER",
        help="a capture of your own run: the module with its arguments, state, inputs and mode; TARGET may be left out",
    )
    group.add_argument("--init", default="", metavar="ARGS", help='constructor arguments, as Python: "64, eps=1e-6"')
    group.add_argument(
        "--inputs",
        default="",
        metavar="ARGS",
        help='forward arguments, as Python: "torch.randn(8, 64)"; or a .pt file that torch.save wrote them to',
    )
    group.add_argument(
        "--factory",
        default="",
        metavar="NAME",
        help="function that returns the forward arguments (name, or module:name)",
    )
    group.add_argument("--dtype", default="", help="cast module and floating inputs: bfloat16, float16, float32")
    group.add_argument("--train", action=argparse.BooleanOptionalAction, help="judge in train mode instead of eval")
    group.add_argument(
        "--gradients",
        action=argparse.BooleanOptionalAction,
        help="the module is trained: verify gradients too, and both modes",
    )
    group.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="DIMS=LOW:HIGH",
        help="sizes that vary: x.0=1:4096, or x.0,mask.0=1:4096 for dimensions that change together; repeatable",
    )
    group.add_argument(
        "--precision", default="auto", choices=["auto", "fp32", "tf32", "bf16", "fp16", "fp8"], help="precision class"
    )
    group.add_argument(
        "--policy", default="own-kernels", choices=["own-kernels", "library-ok"], help="what the candidate may call"
    )
    group.add_argument(
        "--judged-by",
        default="device",
        choices=["device", "latency"],
        help="what speedups are about: time on the device, or what a caller waits",
    )
    group.add_argument(
        "--tolerance", default="budget", choices=["budget", "1e-2"], help="how exact; 1e-2 is the published tolerance"
    )


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Add what selects device, interpreter, isolation and folders; each is also a setting."""
    group = parser.add_argument_group("machine")
    group.add_argument("--device", help="auto, cuda, cuda:N or cpu")
    group.add_argument("--python", metavar="PATH", help="your project's interpreter or virtual environment")
    group.add_argument(
        "--isolation", metavar="LEVEL", help="weakest isolation to accept: namespaces, bubblewrap or limits; or docker"
    )
    group.add_argument("--home", metavar="DIR", help="where sessions are kept")
    group.add_argument("--cache", metavar="DIR", help="where compiled kernels are kept")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add what selects the language model; each is also a setting."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="NAME", help="any LiteLLM model name, or replay:SESSION")
    group.add_argument(
        "--api-base",
        metavar="URL",
        help="address of a server of your own, spoken to as the model's prefix says (anthropic/, gemini/, ollama/ and so "
        "on); as OpenAI's for openai/, hosted_vllm/ and a name without a prefix",
    )
    group.add_argument(
        "--permission-mode", choices=list(MODES), help="what the agent may do without asking (default auto)"
    )
    add_limit_options(group)


def add_limit_options(group: argparse._ActionsContainer) -> None:
    """Add what ends a run of the agent; each is also a setting."""
    group.add_argument("--turns", dest="turn_limit", type=count, metavar="N", help="turn limit (default 150)")
    group.add_argument(
        "--tokens", dest="token_limit", type=natural, metavar="N", help="limit of tokens read and written"
    )
    group.add_argument("--dollars", dest="cost_limit_usd", type=amount, metavar="X", help="limit of what the run costs")
    group.add_argument("--minutes", dest="time_limit_minutes", type=amount, metavar="X", help="limit of the run's time")


def given_limits(options: argparse.Namespace) -> dict[str, Any]:
    """Return the limits that the command line names, by their settings."""
    return {name: value for name in LIMITS if (value := getattr(options, name)) is not None}


def settings_from(options: argparse.Namespace) -> Settings:
    """Merge the given options with environment, files and defaults."""
    names = ("model", "api_base", *LIMITS, "permission_mode", "device", "python", "isolation", "home", "cache")
    given = {name: getattr(options, name, None) for name in names}
    return load_settings(given, project=Path.cwd())


def task_from(options: argparse.Namespace, target: str | None, settings: Settings) -> TaskSpec:
    """Resolve a target, or a capture, with the task options of a command line.

    Raises:
        UsageError: Neither is named, or the target is another module than was captured; see also ``resolve_target``.
    """
    return asked_task(
        target,
        options.capture,
        python=settings.python,
        device=resolve_device(settings.device),
        training=options.train,
        gradients=options.gradients,
        init=options.init,
        inputs=inputs_file(options.inputs),
        factory=options.factory,
        dtype=options.dtype,
        precision=options.precision,
        policy=options.policy,
        judged_by=options.judged_by,
        tolerance=options.tolerance,
        dynamic=tuple(parse_dynamic(text) for text in options.dynamic),
    )


def require_named(options: argparse.Namespace) -> None:
    """Raise UsageError where neither a target nor a capture is named."""
    if options.target is None and not options.capture:
        raise UsageError("No target is named.", next_step="Name path.py:Class, or a capture with --capture FOLDER.")
