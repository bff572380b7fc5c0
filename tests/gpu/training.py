"""How fast a policy is trained, and in how much memory, beside a plain loop of transformers in the same run.

    python -m tests.gpu.training                                    a 1.5B-shaped model on the GPU, 150 seconds at most
    python -m tests.gpu.training --shape tiny --device cpu --row 512 --long 2048 --seconds 60

Weights are random and nothing is read from a disk. A step is one update of PPO's clipped loss and Adam over a row of packed
segments a quarter of whose tokens are actions. The plain loop gives the same segments to the same network, with labels, those
of equal length in batches of 8,192 tokens, and adds up the gradients; it pays for no padding. Both recompute layers, both
compute in bfloat16 on a GPU, and they take turns.

Utilisation counts what such a step has to compute at least, once forward and twice that backward, without what is computed
again, the head at actions only; over the speed of a large matrix product measured in the same run, and over the speed on the
GPU's data sheet where that is known.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen2Config

from trainer.data.episode import Segment
from trainer.maths.losses import policy_loss
from trainer.policy.adapters import LoraSettings, add_actor
from trainer.policy.attention import NAME
from trainer.policy.critic import Bounds, critic_beside
from trainer.policy.identity import Hashes
from trainer.policy.model import PolicyModel, make_policy
from trainer.policy.packing import PackedBatch, pack

SHAPES = {
    "1.5b": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 2048,
    },
}
DATA_SHEET = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense bfloat16 operations a second."""

ACTION_SHARE = 0.25
PLAIN_TOKENS = 8192
_LONG_SECONDS = 30.0
GIB = 2**30


@dataclass(frozen=True)
class Rates:
    """Operations a second: of a matrix product in this run, and on the data sheet, or 0."""

    measured: float
    promised: float


class Budget:
    """Seconds that are left, so that what does not fit is left out and not cut off."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


def main() -> int:
    """Measure, print, and append lines to the results."""
    options = _parser().parse_args()
    device = torch.device(options.device)
    budget = Budget(options.seconds)
    torch.manual_seed(0)
    rates = Rates(product_rate(device), next((r for n, r in DATA_SHEET.items() if n in device_name(device)), 0.0))
    print(f"{device_name(device)}, torch {torch.__version__}; shape {options.shape}")
    print(f"a large matrix product: {rates.measured / 1e12:.3g} TFLOP/s")
    lines: list[dict[str, Any]] = []
    for weights in ("adapter", "all"):
        policy = random_policy(options.shape, weights, device)
        for kind, lengths in rows(options.row).items():
            lines.append({"weights": weights, "row": kind, **compare(policy, lengths, rates, budget)})
            print_rates(lines[-1])
        lines.append({"weights": weights, "row": "long", **longest(policy, options.long, budget)})
        print_memory(lines[-1])
        del policy
        release()
    if options.results:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a") as file:
            file.writelines(
                json.dumps({"shape": options.shape, "device": device_name(device)} | line) + "\n" for line in lines
            )
    return 0


def random_policy(shape: str, weights: str, device: torch.device) -> PolicyModel:
    """Make a policy with random weights: a frozen base and two adapters, or all weights trained."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    config = Qwen2Config(**SHAPES[shape], max_position_embeddings=131_072, tie_word_embeddings=True)
    with device:
        network = AutoModelForCausalLM.from_config(
            config, attn_implementation=NAME, dtype=dtype if weights == "adapter" else torch.float32
        )
    if weights == "adapter":
        network = add_actor(network, LoraSettings()).to(device)
    return make_policy(network, None, Path(), Hashes("", "", ""), dtype)


def rows(tokens: int) -> dict[str, list[int]]:
    """Lengths of segments that fill a row: like sessions of an agent, and like single answers."""
    return {
        "few segments": [tokens // 2, tokens // 4, tokens // 8, tokens // 8],
        "many segments": [max(16, tokens // 64)] * 64,
    }


def segments(lengths: list[int], vocabulary: int) -> list[Segment]:
    """Random segments, a quarter of whose tokens are actions, in stretches as answers are."""
    rng = np.random.default_rng(0)
    made = []
    for length in lengths:
        stretch = max(4, length // 16)
        action = (np.arange(length) // stretch) % round(1 / ACTION_SHARE) == round(1 / ACTION_SHARE) - 1
        ids = rng.integers(0, vocabulary, length, dtype=np.int32)
        made.append(Segment(ids, action, np.full(length, np.nan, np.float32), action.astype(np.int32)))
    return made


def compare(policy: PolicyModel, lengths: list[int], rates: Rates, budget: Budget) -> dict[str, Any]:
    """Time both steps, in turns, as often as a share of the budget allows, three times at most."""
    given = segments(lengths, policy.base.config.vocab_size)
    [row] = pack(given, sum(lengths))
    row = row.to(policy.device)
    plain = plain_batches(given, policy.device)
    parameters = [value for _, value in policy.trained()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, fused=True)
    turns: dict[str, Callable[[], None]] = {
        "ours": lambda: our_step(policy, row, optimizer),
        "plain": lambda: plain_step(policy, plain, optimizer),
    }
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    share = budget.left / 10
    began = time.monotonic()
    for turn in range(4):
        for name, step in turns.items():
            taken = timed(step, policy.device)
            if turn:  # the first is for warming up
                seconds[name].append(taken)
        if turn and time.monotonic() - began > share:
            break
    needed = operations(policy, row)
    told: dict[str, Any] = {"tokens": row.tokens, "actions": len(row.actions), "segments": len(row.lengths)}
    for name, taken in seconds.items():
        median = statistics.median(taken)
        told[name] = {
            "seconds": median,
            "times": len(taken),
            "tokens_a_second": row.tokens / median,
            "of_measured": needed / median / rates.measured,
            "of_data_sheet": needed / median / rates.promised if rates.promised else None,
        }
    return told


def our_step(policy: PolicyModel, row: PackedBatch, optimizer: torch.optim.Optimizer) -> None:
    """One update of PPO as the trainer does it, with old log-probabilities at hand."""
    logp, _ = policy(row)
    policy_loss(logp, logp.detach(), torch.ones_like(logp)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def plain_step(policy: PolicyModel, batches: list[tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer) -> None:
    """One update on the same segments as one would write it with transformers alone."""
    with policy.computing():
        for ids, labels in batches:
            (policy.base(input_ids=ids, labels=labels, use_cache=False).loss / len(batches)).backward()
    optimizer.step()
    optimizer.zero_grad()


def plain_batches(given: list[Segment], device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """Ids and labels of segments, those of equal length together; labels of what is no action do not count."""
    batches = []
    for length in sorted({len(segment.ids) for segment in given}):
        alike = [segment for segment in given if len(segment.ids) == length]
        size = max(1, PLAIN_TOKENS // length)
        for part in (alike[at : at + size] for at in range(0, len(alike), size)):
            ids = torch.from_numpy(np.stack([segment.ids for segment in part]).astype(np.int64)).to(device)
            action = torch.from_numpy(np.stack([segment.action for segment in part])).to(device)
            batches.append((ids, torch.where(action, ids, -100)))
    return batches


def operations(policy: PolicyModel, row: PackedBatch) -> float:
    """What an update on a row has to compute at least: forward, and as much again for each of the two gradients.

    An adapter's update needs no gradient of the frozen weights: one instead of two.
    """
    config = policy.base.config
    matrices = sum(value.numel() for layer in policy.layers for value in layer.parameters() if value.ndim == 2)
    attention = sum(2 * config.num_hidden_layers * config.hidden_size * length**2 for length in row.lengths)
    head = 2 * config.hidden_size * config.vocab_size * len(row.actions)
    weights = 2 * matrices * row.tokens
    if policy.adapters:
        return float(2 * (weights + head) + 3 * attention)
    return float(3 * (weights + head + attention))


def longest(policy: PolicyModel, tokens: int, budget: Budget) -> dict[str, Any]:
    """Update on one trajectory of so many tokens, and say how much memory that took at most."""
    [row] = pack(segments([tokens], policy.base.config.vocab_size), tokens)
    row = row.to(policy.device)
    parameters = [value for _, value in policy.trained()]
    told: dict[str, Any] = {"tokens": row.tokens, "actions": len(row.actions)}
    logits = 4 * tokens * policy.base.config.vocab_size / GIB
    told["logits_gib"] = logits
    if budget.left < _LONG_SECONDS:
        return told | {"left_out": f"{budget.left:.0f} s are left"}
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, fused=True)
    with peak(policy.device, told, "ours_gib"):
        told["ours_seconds"] = timed(lambda: our_step(policy, row, optimizer), policy.device)
    if policy.adapters:
        critic = critic_beside(policy, Bounds())
        with peak(policy.device, told, "critic_gib"):
            told["critic_seconds"] = timed(lambda: critic(row).mean().backward(), policy.device)
    elif budget.left > _LONG_SECONDS:
        whole = plain_batches(segments([tokens], policy.base.config.vocab_size), policy.device)
        try:
            with peak(policy.device, told, "plain_gib"):
                told["plain_seconds"] = timed(lambda: plain_step(policy, whole, optimizer), policy.device)
        except torch.OutOfMemoryError as error:
            told["plain_error"] = str(error).split(". ")[0]
    return told


@contextmanager
def peak(device: torch.device, told: dict[str, Any], name: str) -> Iterator[None]:
    """Note the largest amount of memory that tensors took meanwhile, in GiB, on a GPU."""
    release()
    if device.type != "cuda":
        yield
        return
    torch.cuda.reset_peak_memory_stats(device)
    try:
        yield
    finally:
        told[name] = torch.cuda.max_memory_allocated(device) / GIB


def product_rate(device: torch.device) -> float:
    """Operations a second of a large matrix product in the type that is trained in."""
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    first, second = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = [timed(lambda: torch.mm(first, second), device) for _ in range(20)]
    return 2 * size**3 / statistics.median(times[5:])


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until the work and all that it gave to the GPU is done."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began


def release() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def print_rates(line: dict[str, Any]) -> None:
    """Print one comparison."""
    print(f"{line['weights']}, {line['row']}: {line['segments']} of {line['tokens']} tokens, {line['actions']} actions")
    for name in ("ours", "plain"):
        one = line[name]
        sheet = f", {one['of_data_sheet']:.1%} of the data sheet's" if one["of_data_sheet"] else ""
        print(
            f"  {name:6} {one['tokens_a_second']:9.0f} tokens/s ({one['seconds']:.3f} s, median of {one['times']}), "
            f"{one['of_measured']:.1%} of a matrix product's speed{sheet}"
        )
    print(f"  ours / plain: {line['ours']['tokens_a_second'] / line['plain']['tokens_a_second']:.2f}")


def print_memory(line: dict[str, Any]) -> None:
    """Print what the longest trajectory took."""
    print(
        f"{line['weights']}, one trajectory of {line['tokens']} tokens (all logits would be {line['logits_gib']:.1f} GiB)"
    )
    for name, value in line.items():
        if name.endswith(("_seconds", "_error")) or name.startswith(("ours_", "critic_", "plain_", "left")):
            print(f"  {name}: {value:.1f}" if isinstance(value, float) else f"  {name}: {value}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.training", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=sorted(SHAPES), default="1.5b")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--row", type=int, default=32_768, help="tokens of a packed row")
    parser.add_argument("--long", type=int, default=131_072, help="tokens of the one long trajectory")
    parser.add_argument("--seconds", type=float, default=150.0, help="parts that would not fit any more are left out")
    parser.add_argument("--results", type=Path, help="file that gets one JSON line a measurement")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
