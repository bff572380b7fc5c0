"""Two steps of PPO, all weights and then adapters, on however many GPUs ``torchrun`` starts; tells what it does.

What takes longer than a minute hangs: then each process tells where, and ends.

torchrun --standalone --nproc-per-node 2 -m tests.gpu.trainer_steps MODEL OUT
"""

import faulthandler
import sys
from pathlib import Path

import torch

from tests.trainer.made import episodes
from trainer import ppo
from trainer.run.options import learner_of
from trainer.run.presets import Recipe
from trainer.run.processes import Processes, started
from trainer.run.run import Origin, Run

ADAPTERS = {"all-weights": None, "adapters": 8}
RECIPE = Recipe(actor_lr=1e-3, critic_lr=1e-3, warm_up=1, tokens=40, whiten=True, averaging="token")


def opened(processes: Processes, model: Path, out: Path, name: str):
    """A run and its learner, standing where the run stands."""
    origin = Origin("test", RECIPE, str(model), lora=ADAPTERS[name])
    run, learner = Run(out / name, origin, processes), learner_of(origin, processes, ["policy", "critic"])
    run.resume(learner)
    return run, learner


def take(processes: Processes, model: Path, out: Path) -> None:
    """Train both kinds."""
    made = episodes(8)
    for name in ADAPTERS:
        run, learner = opened(processes, model, out, name)
        run.say(f"{name}: loaded on {processes.world} GPUs")
        run.train(learner, 2, lambda learner=learner: ppo.update(learner, made))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(60, exit=True)
    print("imported; the processes meet", file=sys.stderr)
    with started("cuda") as all_processes:
        met = all_processes.total(torch.ones(1))
        print(f"process {all_processes.rank} has met {met.item():.0f} on {all_processes.device}", file=sys.stderr)
        take(all_processes, Path(sys.argv[1]), Path(sys.argv[2]))
