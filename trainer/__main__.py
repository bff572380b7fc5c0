"""``python -m trainer STAGE``, which ``warpsmith train STAGE`` becomes: parses, and runs one stage.

A stage is a module with ``add_options(parser)`` and ``run(options) -> int``, the exit code. Its docstring is its help. It is
imported when it is asked for, so that what reads sessions never waits for torch.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Sequence

from sandbox.boundary import exit_code_of
from sandbox.errors import EnvironmentFault

STAGES: dict[str, tuple[str, str]] = {
    "ingest": ("trainer.data.ingest", "make a training set of stored sessions"),
    "warmup": ("trainer.warmup", "single-turn PPO on the judge's reward"),
    "rft": ("trainer.rft", "fine-tune the policy on the episodes that earned something"),
    "value": ("trainer.value", "pretrain the critic on all episodes, failures too"),
    "ppo": ("trainer.ppo", "PPO over stored episodes of many turns"),
    "contrast": ("trainer.contrast", "learn from earlier answers and their scores, by comparing answers"),
    "cycle": ("trainer.cycle", "serve the policy, run sessions with it, learn from them, and again"),
    "serve": ("trainer.rollout.serve", "serve a policy to the IDE and to other programs"),
    "plot": ("trainer.run.plot", "draw the curves of runs"),
}
"""Names of stages to their modules, and what they do in a line."""

EXTRA = ("matplotlib", "numpy", "peft", "safetensors", "tokenizers", "torch", "transformers")
"""Packages that come with the extra ``train``, or with what it needs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one stage and return its exit code (``sandbox.errors.ExitCode``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    warnings.filterwarnings("ignore", "The pynvml package is deprecated", FutureWarning)  # torch's, for its authors
    return exit_code_of(lambda: _dispatch(arguments))


def _dispatch(arguments: Sequence[str]) -> int:
    name, *others = arguments or ["--help"]
    if name not in STAGES:
        _overview().parse_args([name])  # tells what is wrong, or helps, and ends the process
    module, summary = STAGES[name]
    try:
        stage = importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise EnvironmentFault(
            f"Training needs the package {package}, which is not installed.",
            where=sys.executable,
            next_step="Install what the trainer needs, in Warpsmith's folder: pip install -e '.[train]'",
        ) from error
    parser = argparse.ArgumentParser(
        prog=f"warpsmith train {name}",
        description=stage.__doc__ or summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stage.add_options(parser)
    return int(stage.run(parser.parse_args(others)))


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, STAGES), default=0)
    listing = "\n".join(f"  {name:{width}}  {summary}" for name, (_, summary) in STAGES.items())
    parser = argparse.ArgumentParser(
        prog="warpsmith train",
        usage="warpsmith train STAGE [OPTIONS]   (each stage has --help)",
        description="From stored sessions to a better policy.",
        epilog=f"stages:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stage", metavar="STAGE", choices=STAGES, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
