"""A toy in which learning through the whole circle is real and quick: our loop, tools and judge, and a policy of two layers.

The task is a small module. The policy's vocabulary has whole calls of tools as single tokens: the module's file, and four
kernels for it, of which one does not compile, one is wrong, one is correct and slow, one correct and fast. So the policy
acts in sessions like any other, and what earns something is for it to find out. The system message and each tool's
description are one token each too, so that a session is a few hundred tokens long.

It begins from recorded sessions, in which each kernel was written as often, and imitates all of them: as likely to fail as to
win. From there on it learns from nothing but its own sessions::

    python -m tests.trainer.rollout.toy FOLDER --device cpu --steps 6 --sessions 8

makes the start below FOLDER, goes round, and prints a line for each step: what its sessions earned. FOLDER/steps.jsonl has those
lines with all numbers of the step. The same command goes on with it; ``--minutes`` ends it in time, within a step if need be.
With ``--kernels broken wrong fast`` what earns something is what is correct, and no fine difference of times decides; with
``--reward-tier correctness`` nothing is timed at all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from agent.session import create_session, read_state, session_folders
from agent.settings import REWARD_TIERS, RewardTier, Settings
from agent.state import Judged
from agent.store import read_events
from sandbox.asked import asked_task
from sandbox.errors import ExitCode
from tests.servers.openai_server import Call, OpenAIServer, Reply
from trainer import rft
from trainer.__main__ import main as trainer
from trainer.data.episode import Episode
from trainer.data.episodes import Choice, Report, episodes_of
from trainer.data.segments import Target
from trainer.policy.tiny import write_tiny_policy
from trainer.rollout.sessions import run_sessions
from trainer.run.options import learner_of
from trainer.run.presets import preset
from trainer.run.processes import started
from trainer.run.run import Origin

ENVIRONMENT = {"TORCH_COMPILE_DISABLE": "1", "OMP_NUM_THREADS": "1"}
"""Compiling a baseline takes a processor twenty seconds; without it a reward is 2 at most."""
STEPS = "steps.jsonl"
REFERENCE = '''"""Scale, shift, clamp and square, each a pass over memory."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(x * 1.5 + 1.0, -2.0, 2.0)
        return y * y - x


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SIZE)]
'''
CANDIDATE = """import torch
from torch import nn

from kernels import square


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        square(x, out, x.numel())
        return out
"""
ELEMENT = """    float y = x[i] * 1.5f + 1.0f;
    y = y < -2.0f ? -2.0f : (y > 2.0f ? 2.0f : y);
    out[i] = y * y - x[i];
"""
SLOW = """    volatile float again = x[i];
    for (int k = 0; k < 100; ++k) again = again + 0.0f;
"""
ON_CPU = """#include <cstdint>

extern "C" int square(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
ELEMENT  }
  return 0;
}
"""
ON_GPU = """#include <cstdint>

__global__ void element(const float* x, float* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) {
ELEMENT  }
}

extern "C" int square(const float* x, float* out, int64_t n, cudaStream_t stream) {
  element<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
  return cudaGetLastError();
}
"""
VARIANTS = {
    "broken": ELEMENT.replace("+ 1.0f;", "+ 1.0f"),
    "wrong": ELEMENT.replace("+ 1.0f;", "+ 1.1f;"),
    "slow": SLOW + ELEMENT,
    "fast": ELEMENT,
}
BY_CORRECTNESS = ("broken", "wrong", "fast")
"""Variants that no fine difference of times tells apart: what earns something is what is correct."""
CHECK = Call("Check")
DONE = "I am done."
TURNS = 6
RECIPE = {
    "actor_lr": "2e-3",
    "critic_lr": "3e-3",
    "warm_up": "1",
    "lam_actor": "1.0",
    "epochs": "12",
    "clip_low": "0.8",
    "clip_high": "4",
    "nll": "1",
    "reject_k3": "none",
    "k3_limit": "none",
    "entropy_jump": "none",
    "length_jump": "none",
    "variance_patience": "none",
}
"""So few sessions have to move it far: bounds are wide, and what earned something is imitated as well."""


def reference(device: str) -> str:
    """Return the task's file."""
    return REFERENCE.replace("SIZE", "64, 512" if device == "cpu" else "4096, 4096")


def kernel_call(variant: str, device: str) -> Call:
    """Return the call that writes a variant of the kernel."""
    form, suffix = (ON_CPU, "cpp") if device == "cpu" else (ON_GPU, "cu")
    source = form.replace("ELEMENT", VARIANTS[variant])
    return Call("Write", {"file_path": f"kernels/square.{suffix}", "content": source})


def phrase(call: Call) -> str:
    """Return a call as the template writes it."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {arguments}}}\n</tool_call>'


def prepare(folder: Path, device: str, tier: RewardTier, variants: Sequence[str] = tuple(VARIANTS)) -> Path:
    """Write the task, record sessions, and imitate them; returns the folder of the policy to begin from."""
    torch.set_num_threads(1)  # more of them wait for each other longer than they work
    start = folder / "start"
    if start.is_dir():
        return start
    task = folder / "task.py"
    task.write_text(reference(device))
    recorded = session_folders(folder / "recorded") or record(folder, task, device, tier, variants)
    module = Call("Write", {"file_path": "model_new.py", "content": CANDIDATE})
    calls = [module, CHECK, *(kernel_call(variant, device) for variant in variants)]
    policy = write_tiny_policy(
        folder / "random",
        phrases=[*told_at_first(recorded[0]), *map(phrase, calls), DONE],
    )
    episodes = list(episodes_of(recorded, Choice(target=Target.read(policy)), Report()))
    imitate(policy, episodes, start)
    return start


def record(folder: Path, task: Path, device: str, tier: RewardTier, variants: Sequence[str]) -> list[Path]:
    """Let scripted models write the variants, each in a session of its own, side by side."""
    module = Call("Write", {"file_path": "model_new.py", "content": CANDIDATE})
    home, spec = folder / "recorded", asked_task(str(task), device=device)
    with ExitStack() as servers:
        for variant in variants:
            script = [Reply(calls=[module, kernel_call(variant, device)]), Reply(calls=[CHECK])]
            server = servers.enter_context(OpenAIServer([*script, *[Reply(text=DONE)] * 3]))
            settings = Settings(
                model="openai/script",
                api_base=server.base_url,
                home=home,
                cache=folder / "cache",
                contrast=False,
                turn_limit=TURNS,
                reward_tier=tier,
            )
            create_session(spec, settings, home, verdicts=home / "verdicts")
        run_sessions(session_folders(home), len(variants), tell)
    return session_folders(home)


def told_at_first(session: Path) -> list[str]:
    """Return the system message, and each tool as the template writes it."""
    begun = next(stored.event for stored in read_events(session) if stored.event.type == "conversation_started")
    return [begun.message["content"], *(json.dumps(tool, ensure_ascii=False) for tool in begun.tools)]


def imitate(policy: Path, episodes: list[Episode], out: Path, steps: int = 200) -> None:
    """Fine-tune a policy on all episodes, whatever they earned, until hardly more is open than which of them comes next."""
    enough = math.log(len(episodes)) * len(episodes) / sum(episode.actions for episode in episodes) + 0.01
    episodes = [replace(episode, reward=0.0) for episode in episodes]
    recipe = replace(preset("long-horizon"), actor_lr=3e-3, warm_up=5)
    with started("cpu") as processes:
        learner = learner_of(Origin("rft", recipe, str(policy)), processes, ["policy"])
        for step in range(1, steps + 1):
            nll = rft.update(learner, episodes)["nll"]
            if step % 10 == 0:
                tell(f"imitated {step} times: {nll:.3f} nats a token")
            if nll < enough:
                break
        learner.policy.save(out)


def go_round(folder: Path, device: str, tier: RewardTier, steps: int, sessions: int, at_once: int) -> int:
    """Run the cycle by its command line, and return its exit code."""
    options = [
        "--sessions",
        sessions,
        "--at-once",
        at_once,
        "--turns",
        TURNS,
        "--answer-tokens",
        12,
        "--context",
        32768,
        "--reward-tier",
        tier,
    ]
    recipe = [part for name, value in RECIPE.items() for part in ("--set", f"{name}={value}")]
    command = ["cycle", folder / "task.py", "--model", folder / "start", "--out", folder / "run", "--steps", steps]
    return trainer([str(each) for each in [*command, "--device", device, *options, *recipe]])


def rewards(folder: Path) -> list[float]:
    """Return the mean reward of the sessions of each step that was taken."""
    lines = folder / "run" / "metrics.jsonl"
    return [json.loads(line)["reward"] for line in lines.read_text().splitlines()] if lines.is_file() else []


def attempts(folder: Path, last: int | None = None) -> list[Judged]:
    """Return what the sessions of the cycle had judged, or so many of its last."""
    sessions = session_folders(folder / "run" / "rollouts")[:last]
    return [judged for session in sessions for judged in read_state(session).judged]


def disturbed(folder: Path) -> str:
    """Return why a right attempt of the cycle has no reward; empty where each has one."""
    verdicts = (judged.verdict for judged in attempts(folder))
    return next((verdict.reason for verdict in verdicts if verdict.correct and verdict.reward is None), "")


def tell(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which all of it runs."""
    return {**ENVIRONMENT, "WARPSMITH_CACHE": str(folder / "cache")}


@contextmanager
def ended_after(minutes: float) -> Iterator[None]:
    """Interrupt what runs within the context, as Ctrl-C does, when so many minutes are over; 0 for never."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def go_on(folder: Path, options: argparse.Namespace) -> int:
    """Make the start, and take a step after the other, each told as it is done; return the exit code."""
    device, tier = options.device, options.reward_tier
    prepare(folder, device, tier, options.kernels)
    for step in range(len(rewards(folder)) + 1, options.steps + 1):
        began = time.monotonic()
        code = go_round(folder, device, tier, step, options.sessions, options.at_once)
        if code != ExitCode.OK:
            return code
        note(folder, step, time.monotonic() - began)
    return ExitCode.OK


def note(folder: Path, step: int, seconds: float) -> None:
    """Print a step, and keep its line."""
    numbers = json.loads((folder / "run" / "metrics.jsonl").read_text().splitlines()[step - 1])
    judged = attempts(folder, numbers["sessions"])
    shares = {
        "right": sum(each.verdict.correct for each in judged),
        "measured": sum(each.taken_from is None for each in judged),
        "by_reward": Counter(str(each.verdict.reward) for each in judged),
    }
    with (folder / STEPS).open("a") as file:
        file.write(json.dumps({**numbers, **shares, "step_seconds": round(seconds, 1)}) + "\n")
    print(
        f"step {step}: mean reward {numbers['reward']:.2f}, {shares['right']} of {len(judged)} attempts right, "
        f"{shares['measured']} verdicts measured, {seconds:.0f} s",
        flush=True,
    )


def main() -> int:
    """Do what the module's docstring says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--sessions", type=int, default=8, help="of each step")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="after which it ends (default: when all is done)")
    parser.add_argument("--reward-tier", default="quick", choices=REWARD_TIERS)
    parser.add_argument("--kernels", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="it chooses from")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(environment(folder))
    try:
        with ended_after(options.minutes):
            code = go_on(folder, options)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    print("mean reward of each step:", *(f"{reward:.2f}" for reward in rewards(folder)), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
