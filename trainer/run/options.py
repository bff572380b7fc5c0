"""The options that all stages share, and what they open: processes, run, models, learner."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sandbox.counts import count, natural
from sandbox.errors import UsageError
from trainer.data.dataset import TrainingSet
from trainer.policy.adapters import LoraSettings
from trainer.policy.critic import Bounds, Critic, critic_beside, load_critic
from trainer.policy.identity import read_hashes
from trainer.policy.model import PolicyModel, load_policy
from trainer.run.checkpoint import BEGUN_FROM, KEPT
from trainer.run.faults import told
from trainer.run.learner import Learner
from trainer.run.presets import PRESETS, adjusted, preset, with_lora
from trainer.run.processes import Processes, started
from trainer.run.run import Origin, Run


def add_options(parser: argparse.ArgumentParser, *, steps: str) -> None:
    """Add what a stage over a training set takes.

    Args:
        parser: Of the stage.
        steps: How many steps the stage takes where nobody says.
    """
    parser.add_argument("data", type=Path, metavar="SET", help="the training set that ingest wrote")
    add_run_options(parser, steps=steps)


def add_run_options(parser: argparse.ArgumentParser, *, steps: str) -> None:
    """Add what every stage takes.

    Args:
        parser: Of the stage.
        steps: How many steps the stage takes where nobody says.
    """
    parser.add_argument("--model", type=Path, required=True, help="folder of the policy to begin from, or of a run")
    parser.add_argument("--out", type=Path, required=True, help="folder of this run; where it exists, the run goes on")
    parser.add_argument("--steps", type=count, help=f"steps of the whole run (default: {steps})")
    parser.add_argument("--preset", choices=PRESETS, default="long-horizon", help="the recipe (default: %(default)s)")
    parser.add_argument(
        "--set", dest="settings", metavar="NAME=VALUE", action="append", default=[], help="change one of its numbers"
    )
    parser.add_argument("--lora", type=count, metavar="RANK", help="train adapters of this rank, and not all weights")
    parser.add_argument("--seed", type=natural, default=0, help="of the order of the data (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument("--every", type=count, default=1, help="steps between checkpoints (default: %(default)s)")
    parser.add_argument("--keep", type=count, default=KEPT, help="checkpoints that are kept (default: %(default)s)")


@contextlib.contextmanager
def opened(
    options: argparse.Namespace, stage: str, trains: Sequence[str], data: TrainingSet | str, **fixed: Any
) -> Iterator[tuple[Run, Learner]]:
    """Open the run that the options ask for, with a learner that stands where the run stands.

    Args:
        options: Parsed; ``critic`` where the stage has such an option.
        stage: Its name.
        trains: ``policy``, ``critic``, or both.
        data: The training set, or what else it learns from.
        fixed: Numbers of the recipe that the stage settles.

    Raises:
        UsageError: An option does not fit the others, the folder or the model.
    """
    recipe = adjusted(with_lora(preset(options.preset)) if options.lora else preset(options.preset), options.settings)
    recipe = replace(recipe, **fixed)
    model = _begun_from(options.out, "model", options.model) or policy_of(options.model)
    critic = None
    if "critic" in trains:
        named = getattr(options, "critic", None) or options.model
        critic = _begun_from(options.out, "critic", named) or part_of(Path(named), "critic")
    name, sha256 = (data, "") if isinstance(data, str) else (str(data.folder.resolve()), data.sha256)
    if isinstance(data, TrainingSet):
        data.require_tokenizer(read_hashes(model).tokenizer_sha256, str(model))
    origin = Origin(
        stage=stage,
        recipe=recipe,
        model=str(model),
        critic=str(critic or ""),
        data=name,
        data_sha256=sha256,
        lora=options.lora,
        seed=options.seed,
    )
    with started(options.device) as processes:
        run = Run(options.out, origin, processes, every=options.every, kept=options.keep)
        for beginning in (model, critic):
            if processes.first and beginning and (beginning.parent / "state.json").is_file():
                with contextlib.suppress(OSError):  # it may be somebody else's
                    (beginning.parent / BEGUN_FROM).touch()
        with told(recipe, processes):
            learner = learner_of(origin, processes, trains)
            run.resume(learner)
        yield run, learner


def learner_of(origin: Origin, processes: Processes, trains: Sequence[str]) -> Learner:
    """Load policy and critic and make them ready to be trained, as they were when the run began.

    Args:
        origin: Of the run.
        processes: Who takes part.
        trains: ``policy``, ``critic``, or both.
    """
    torch.manual_seed(origin.seed)
    device = processes.device
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    lora = LoraSettings(rank=origin.lora, alpha=2 * origin.lora, seed=origin.seed) if origin.lora else None
    bounds = Bounds() if origin.recipe.critic_head == "bounded" else None
    policy: PolicyModel | None = None
    critic: Critic | None = None
    if lora or "policy" in trains:
        policy = load_policy(origin.model, lora=lora, dtype=dtype, device=device)
    if "critic" in trains:
        before = Path(origin.critic) if origin.critic else None
        if lora and policy:
            critic = critic_beside(policy, bounds, before)
        else:
            critic = load_critic(before or origin.model, bounds, dtype=dtype, device=device)
    return Learner(
        origin.recipe,
        processes,
        policy,
        critic,
        trains=trains,
        seed=origin.seed,
        version=version_of(Path(origin.model)),
    )


def part_of(path: Path, part: str) -> Path | None:
    """Return the folder of a policy or a critic that a path names: itself, a checkpoint's, or a run's latest.

    Args:
        path: A model's folder, a checkpoint's, or a run's.
        part: ``policy`` or ``critic``.

    Returns:
        The folder; null where there is no critic.

    Raises:
        UsageError: There is nothing there.
    """
    if not path.is_dir():
        raise UsageError("There is no such folder.", where=str(path), next_step="Name the folder of a model or a run.")
    if (path / "run.json").is_file():
        return _part_of_run(path, part)
    if (path / "state.json").is_file():
        return (path / part).resolve() if (path / part).is_dir() else _part_of_run(path.parents[1], part)
    is_critic = (path / "value_head.safetensors").is_file()
    return path.resolve() if is_critic == (part == "critic") else None


def _begun_from(run: Path, part: str, named: Path | str) -> Path | None:
    """Return what a run that exists began from where that lies in what is named now, which may have gone on since."""
    head = run / "run.json"
    if not head.is_file():
        return None
    before = json.loads(head.read_text()).get(part)
    return Path(before) if before and Path(before).is_relative_to(Path(named).resolve()) else None


def policy_of(path: Path) -> Path:
    """Return the folder of the policy that a path names, as `part_of` does.

    Raises:
        UsageError: There is none, only a critic.
    """
    found = part_of(path, "policy")
    if found is None:
        raise UsageError("This is a critic.", where=str(path), next_step="Name the folder of a policy or of a run.")
    return found


def version_of(policy: Path) -> int:
    """Return how many updates are behind a policy: those that its checkpoint tells of, or none."""
    state = policy.parent / "state.json"
    return int(json.loads(state.read_text())["version"]) if state.is_file() else 0


def _part_of_run(run: Path, part: str) -> Path | None:
    latest = run / "latest"
    if latest.is_file() and (folder := run / "checkpoints" / latest.read_text().strip() / part).is_dir():
        return folder.resolve()
    origin = json.loads((run / "run.json").read_text())["model" if part == "policy" else "critic"]
    return Path(origin) if origin else None
