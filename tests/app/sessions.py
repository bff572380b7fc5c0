"""Recorded sessions made by hand, for developing and testing the screen: every kind of attempt, with its blobs.

The material is a small module and its kernel as they stand after each attempt. ``story`` tells one whole session with a
compile error, a wrong answer, a slower attempt and a faster one; ``long_story`` repeats turns until it is as long as asked.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent import events
from agent.events import Event
from agent.settings import Settings
from sandbox.task import TaskSpec
from sandbox.verdict import (
    Baseline,
    BuildReport,
    Diagnostic,
    Finding,
    GuardReport,
    KernelResources,
    ProfileReport,
    Seconds,
    Speedup,
    TaskIdentity,
    Verdict,
    VerifyCase,
    VerifyReport,
)

START = 1_780_000_000.0
KERNEL_PATH = "kernels/residual_norm.cu"
NAME = "20260528-202640-3f9a1c2e-encoder-blocks-residualnorm"
MODEL = "anthropic/claude-sonnet-4-5"
ENVIRONMENT = {
    "device": "NVIDIA H200",
    "sm": "sm_90",
    "driver": "580.65",
    "torch": "2.13.0",
    "cuda": "13.0",
    "isolation": "namespaces",
}

ORIGINAL = '''"""Blocks of the encoder."""

import torch
from torch import nn


class Gate(nn.Module):
    """A learned gate over the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * self.scale)


class ResidualNorm(nn.Module):
    """RMS normalisation of a sum, then a gate: y = gate(norm(x + residual))."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.gate = Gate(width)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        summed = x + residual
        scale = torch.rsqrt(summed.pow(2).mean(-1, keepdim=True) + self.eps)
        normed = summed * scale * self.weight
        return normed * self.gate(normed)


def build(width: int = 1024) -> nn.Module:
    return nn.Sequential(ResidualNorm(width), nn.Linear(width, width))
'''

SLOW = """        summed = x + residual
        scale = torch.rsqrt(summed.pow(2).mean(-1, keepdim=True) + self.eps)
        normed = summed * scale * self.weight
        return normed * self.gate(normed)
"""

FUSED = """        out = torch.empty_like(x)
        rows, width = x.numel() // x.shape[-1], x.shape[-1]
        residual_norm(x, residual, self.weight, self.gate.scale, out, rows, width, self.eps)
        return out
"""

IMPORT = "from torch import nn\n\nfrom .blocks_kernels import residual_norm\n"

KERNEL = """#include <cuda_runtime.h>
#include <cstdint>

// One block a row: the sum stays in registers between the two passes.
template <int THREADS>
__global__ void residual_norm_kernel(const float* x, const float* r, const float* w, const float* g, float* out,
                                     int64_t width, float eps) {
    const int64_t row = blockIdx.x * width;
    float local = 0.f;
    for (int64_t i = threadIdx.x; i < width; i += THREADS) {
        const float v = x[row + i] + r[row + i];
        local += v * v;
    }
    __shared__ float total;
    if (threadIdx.x == 0) total = 0.f;
    __syncthreads();
    atomicAdd(&total, local);
    __syncthreads();
    const float scale = rsqrtf(total / width + eps);
    for (int64_t i = threadIdx.x; i < width; i += THREADS) {
        const float v = (x[row + i] + r[row + i]) * scale * w[i];
        out[row + i] = v / (1.f + __expf(-v * g[i]));
    }
}

extern "C" int residual_norm(const float* x, const float* residual, const float* weight, const float* gate, float* out,
                             int64_t rows, int64_t width, float eps, cudaStream_t stream) {
    residual_norm_kernel<256><<<rows, 256, 0, stream>>>(x, residual, weight, gate, out, width, eps);
    return cudaGetLastError();
}
"""

CPU_KERNEL = """#include <cmath>
#include <cstdint>

extern "C" int residual_norm(const float* x, const float* residual, const float* weight, const float* gate, float* out,
                             int64_t rows, int64_t width, float eps) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* a = x + row * width;
        const float* b = residual + row * width;
        double total = 0.0;
        for (int64_t i = 0; i < width; ++i) total += double(a[i] + b[i]) * double(a[i] + b[i]);
        const double scale = 1.0 / std::sqrt(total / width + eps);
        for (int64_t i = 0; i < width; ++i) {
            const double v = (a[i] + b[i]) * scale * weight[i];
            out[row * width + i] = float(v / (1.0 + std::exp(-v * gate[i])));
        }
    }
    return 0;
}
"""

CLOSING = """The kernel is **3.1× faster than eager** and 1.2× faster than `torch.compile`:

- one pass over the row for the sum of squares, one for the result
- the sum stays in registers, so each input is read once

```cuda
const float scale = rsqrtf(total / width + eps);
```

I removed the first version's `atomicAdd` in the second pass. Nothing else of the file changed."""


class Recorder:
    """Collects events with rising times, and the blobs they name."""

    def __init__(self, blobs: Path, device: str) -> None:
        self.blobs = blobs
        self.device = device
        self.time = START
        self.events: list[tuple[float, Event]] = []

    def say(self, event: Event, seconds: float = 0.4) -> None:
        self.time += seconds
        self.events.append((self.time, event))

    def keep(self, content: str) -> str:
        data = content.encode()
        name = hashlib.sha256(data).hexdigest()
        self.blobs.mkdir(parents=True, exist_ok=True)
        (self.blobs / name).write_bytes(data)
        return name

    def files(self, python: str, kernel: str | None) -> dict[str, str]:
        kept = {"blocks.py": self.keep(python)}
        if kernel is None:
            return kept
        path, content = (KERNEL_PATH, kernel) if self.device != "cpu" else ("kernels/residual_norm.cpp", CPU_KERNEL)
        return {**kept, path: self.keep(content)}


def project(folder: Path, device: str = "cuda:0") -> TaskSpec:
    """Write the developer's project and return the task."""
    package = folder / "encoder"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "blocks.py").write_text(ORIGINAL)
    return TaskSpec(
        kind="module",
        path=package / "blocks.py",
        class_name="ResidualNorm",
        module_name="encoder.blocks",
        root=folder,
        python=Path(sys.executable),
        init="1024",
        inputs="torch.randn(2048, 1024), torch.randn(2048, 1024)",
        device=device,
    )


def write(folder: Path, spec: TaskSpec, told: Iterable[tuple[float, Event]]) -> Path:
    """Write a session's folder as the engine leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "format": events.FORMAT,
        "id": "3f9a1c2e",
        "created": START,
        "title": spec.id,
        "task": spec.to_json(),
        "settings": Settings(model=MODEL, home=folder.parent.parent).to_json(),
        "versions": {},
        "device": spec.device.partition(":")[0],
    }
    (folder / "session.json").write_text(json.dumps(head))
    lines = (json.dumps(events.to_json(event, n=n, time=time)) for n, (time, event) in enumerate(told, 1))
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def record(folder: Path, *, upto: str = "end", device: str = "cuda:0") -> Path:
    """Write the story up to a chapter below ``folder`` (its project beside it) and return the session's folder."""
    spec = project(folder / "project", device)
    session = folder / "sessions" / NAME
    recorder = Recorder(session / "blobs", device)
    for chapter, tell in CHAPTERS.items():
        tell(recorder, spec)
        if chapter == upto:
            break
    return write(session, spec, recorder.events)


def record_long(folder: Path, length: int) -> Path:
    """Write a session of ``length`` events: the story, then turns without end."""
    spec = project(folder / "project")
    session = folder / "sessions" / NAME
    recorder = Recorder(session / "blobs", spec.device)
    for tell in list(CHAPTERS.values())[:-1]:
        tell(recorder, spec)
    for number in range(length):
        if len(recorder.events) >= length:
            break
        _long_turn(recorder, number)
    return write(session, spec, recorder.events[:length])


def _long_turn(recorder: Recorder, number: int) -> None:
    turn = 100 + number
    _turn(
        recorder, turn, f"Step {number}: look at the **launch bounds** again.\n\n{'It reads each row once. ' * 8}", []
    )
    _bash(recorder, turn, f"sed -n {number},{number + 40}p kernels/residual_norm.cu", KERNEL)


def _opening(r: Recorder, spec: TaskSpec) -> None:
    files = r.files(ORIGINAL, None)
    r.say(
        events.SessionStarted(
            task=spec.to_json(), model=MODEL, device="cuda:0", versions={"warpsmith": "0.1.0"}, files=files
        )
    )
    r.say(events.StageEvent(part="task", text="loading encoder.blocks:ResidualNorm in the project's interpreter"))
    r.say(events.StageEvent(part="task", text="checking that the reference is deterministic"))
    r.say(events.OriginalProfiled(profile=original_profile()), 2.1)
    r.say(events.ConversationStarted(message={"role": "system", "content": "You make modules fast."}, tools=[]))
    r.say(
        events.UserMessage(
            message={
                "role": "user",
                "content": "Make encoder.blocks:ResidualNorm faster.\n\nIts source is in blocks.py.",
            }
        )
    )
    r.say(events.RunStarted(turn_limit=150))


def _plan(r: Recorder, spec: TaskSpec) -> None:
    _turn(r, 1, "I profile the original first, to know what bounds it.", [("p1", "Profile", {})])
    r.say(events.ToolStarted(call_id="p1", name="Profile", arguments={}))
    r.say(events.StageEvent(part="profile", text="timing eager and torch.compile"))
    _done(r, "p1", "Profile", "eager 41.2 µs, compile 15.6 µs, copy 9.8 µs\nmul 38 %, pow 21 %, mean 14 %", 1.9)
    items = [
        {"content": "Profile the original", "status": "completed"},
        {"content": "Fuse sum, norm and gate into one kernel", "status": "in_progress"},
        {"content": "Check and iterate to 5 % under compile", "status": "pending"},
    ]
    _turn(
        r,
        2,
        "It is **memory-bound**: 5 launches move 5.1× the bytes they must. One kernel that reads each row once should reach "
        "the copy's 9.8 µs within 30 %.",
        [("t1", "TodoWrite", {"todos": items})],
    )
    r.say(events.ToolStarted(call_id="t1", name="TodoWrite", arguments={"todos": items}))
    r.say(events.Todo(items=items))
    _done(r, "t1", "TodoWrite", "The plan is noted.", 0.0)


def _build_error(r: Recorder, spec: TaskSpec) -> None:
    broken = KERNEL.replace("rsqrtf(total / width + eps)", "rsqrtf(totl / width + eps)")
    _turn(
        r,
        3,
        "",
        [
            ("w1", "Write", {"file_path": "kernels/residual_norm.cu", "content": broken}),
            ("e1", "Edit", {"file_path": "blocks.py", "old_string": SLOW, "new_string": FUSED}),
            ("c1", "Check", {"tier": "quick"}),
        ],
    )
    _done(
        r,
        "w1",
        "Write",
        "Wrote kernels/residual_norm.cu (33 lines).",
        0.0,
        start={"file_path": "kernels/residual_norm.cu", "content": broken},
    )
    _done(
        r,
        "e1",
        "Edit",
        "Edited blocks.py.",
        0.0,
        start={"file_path": "blocks.py", "old_string": SLOW, "new_string": FUSED},
    )
    _check(r, 1, "c1", fused(ORIGINAL), broken, failed_build())


def _wrong_answer(r: Recorder, spec: TaskSpec) -> None:
    wrong = KERNEL.replace("(1.f + __expf(-v * g[i]))", "(1.f + __expf(v * g[i]))")
    _turn(r, 4, "A misspelt name. I mend it.", [("c2", "Check", {"tier": "quick"})])
    _check(r, 2, "c2", fused(ORIGINAL), wrong, failed_verify())


def _slower(r: Recorder, spec: TaskSpec) -> None:
    slow = KERNEL.replace("residual_norm_kernel<256><<<rows, 256", "residual_norm_kernel<32><<<rows, 32")
    _turn(
        r,
        5,
        "The sign of the exponent is wrong: sigmoid(v·g) is 1 / (1 + exp(−v·g)).",
        [("c3", "Check", {"tier": "quick"})],
    )
    _check(r, 3, "c3", fused(ORIGINAL), slow, timed(52.3, (0.77, 0.79, 0.81), (0.29, 0.30, 0.31)))


def _steered(r: Recorder, spec: TaskSpec) -> None:
    r.say(events.Steered(text="use more threads a row, and keep the helper above the class as it is"))
    r.say(events.UserMessage(message={"role": "user", "content": "use more threads"}, origin="steer"))


def _faster(r: Recorder, spec: TaskSpec) -> None:
    _turn(r, 6, "One warp a row leaves the memory idle. I take 256 threads.", [("c4", "Check", {"tier": "full"})])
    _check(
        r,
        4,
        "c4",
        tidied(fused(ORIGINAL)),
        KERNEL,
        timed(13.2, (3.02, 3.12, 3.21), (1.14, 1.18, 1.23), reward=3, tier="full"),
    )


def _closing(r: Recorder, spec: TaskSpec) -> None:
    _turn(r, 7, CLOSING, [])
    r.say(events.RunEnded(reason=events.EndReason.FINISHED, best_attempt=4))


CHAPTERS = {
    "opening": _opening,
    "plan": _plan,
    "build error": _build_error,
    "wrong answer": _wrong_answer,
    "slower": _slower,
    "steered": _steered,
    "faster": _faster,
    "end": _closing,
}


# --- pieces --------------------------------------------------------------------------------------------------------


def fused(source: str) -> str:
    """Return the module's file with its forward fused into a kernel."""
    return source.replace(SLOW, FUSED).replace("from torch import nn\n", IMPORT, 1)


def tidied(source: str) -> str:
    """Return the file with one more, unrelated change, so that a diff has several hunks."""
    return source.replace("def build(width: int = 1024)", "def build(width: int = 2048)")


def _turn(r: Recorder, turn: int, text: str, calls: list[tuple[str, str, dict[str, Any]]]) -> None:
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {})}
    usage = {"prompt_tokens": 3_100 + 450 * turn, "completion_tokens": 380}
    r.say(
        events.ModelTurn(
            turn=turn,
            message=message,
            prompt_sha256="0" * 64,
            finish_reason="tool_calls" if calls else "stop",
            model=MODEL,
            seconds=4.2,
            usage=usage,
            cost_usd=0.0151,
        ),
        4.2,
    )


def _done(
    r: Recorder,
    call_id: str,
    name: str,
    text: str,
    seconds: float,
    start: dict[str, Any] | None = None,
    ok: bool = True,
) -> None:
    if start is not None:
        r.say(events.ToolStarted(call_id=call_id, name=name, arguments=start))
    message = {"role": "tool", "tool_call_id": call_id, "content": text}
    r.say(events.ToolFinished(call_id=call_id, name=name, ok=ok, message=message, seconds=seconds), seconds)


def _bash(r: Recorder, turn: int, command: str, output: str) -> None:
    call_id = f"b{turn}"
    _turn(r, turn, "", [(call_id, "Bash", {"command": command})])
    _done(r, call_id, "Bash", output, 0.1, start={"command": command})


def _check(r: Recorder, number: int, call_id: str, python: str, kernel: str, verdict: Verdict) -> None:
    r.say(events.ToolStarted(call_id=call_id, name="Check", arguments={"tier": verdict.tier}))
    for part in ("build", "guard", "verify", "profile"):
        if getattr(verdict, part) is not None:
            r.say(events.StageEvent(part=part, text=STAGES[part]), 0.5)
    r.say(events.Attempt(attempt=number, files=r.files(python, kernel), verdict=verdict.to_json(), call_id=call_id))
    _done(r, call_id, "Check", verdict.reason, verdict.seconds.total)


STAGES = {
    "build": "compiling kernels/residual_norm.cu for sm_90",
    "guard": "reading blocks.py",
    "verify": "5 fresh inputs against the float64 oracle",
    "profile": "timing the candidate against eager and compile",
}


def original_profile() -> dict[str, Any]:
    """Return what the judge measured of the reference."""
    return {
        "operators": [{"name": "aten::mul", "calls": 4, "us": 16.0, "share": 0.38}],
        "baselines": {"eager": {"mode": "eager", "device_us": 41.2}, "compile": {"mode": "default", "device_us": 15.6}},
        "copy_us": 9.8,
        "bytes_moved": 25_165_824,
        "precision": "fp32",
        "depends_on": ["x", "residual", "weight", "gate.scale"],
        "ignores": [],
        "signature": [f"{name}: float32 [2048, 1024] contiguous" for name in ("x", "residual", "output")],
        "environment": ENVIRONMENT,
        "notes": [],
    }


def _verdict(**parts: Any) -> Verdict:
    empty = Verdict(
        tier="quick",
        task=TaskIdentity("encoder.blocks:ResidualNorm", "1" * 64, "fp32", "own-kernels"),
        candidate_sha256="2" * 64,
        environment=ENVIRONMENT,
        build=None,
        guard=None,
        verify=None,
        profile=None,
        reward=-1,
        reason="",
    )
    return replace(empty, **parts)


def _built() -> BuildReport:
    return BuildReport(True, 0.84, (KernelResources("residual_norm_kernel<256>", 26, 4, 0),))


def failed_build() -> Verdict:
    """Return the verdict of a kernel that does not compile."""
    message = Diagnostic("kernels/residual_norm.cu", 19, 'identifier "totl" is undefined')
    return _verdict(
        build=BuildReport(False, 0.71, diagnostics=(message,)),
        reason='The candidate does not compile: kernels/residual_norm.cu:19: identifier "totl" is undefined.',
        seconds=Seconds(build=0.71, total=0.74),
    )


def failed_verify() -> Verdict:
    """Return the verdict of a kernel that computes something else."""
    cases = (
        VerifyCase(
            "fresh input 1",
            False,
            3.41,
            1.72,
            "differs in 2,097,152 of 2,097,152 values; first at [0, 0]: 0.183 for 0.317",
        ),
        VerifyCase("fresh input 2", False, 3.38, 1.70, "differs in 2,097,152 of 2,097,152 values"),
    )
    return _verdict(
        build=_built(),
        guard=GuardReport(True, (Finding("own-kernels", "label", "calls no torch operator beyond torch.empty_like"),)),
        verify=VerifyReport(False, cases),
        reason="The candidate's answer is wrong: its largest error is 3.41, allowed is 2.9e-06.",
        seconds=Seconds(0.84, 0.02, 0.44, 0.0, 1.31),
    )


def timed(
    device_us: float, eager: tuple[float, ...], compiled: tuple[float, ...], reward: int = 1, tier: str = "quick"
) -> Verdict:
    """Return the verdict of a correct kernel: its time, and (low, ratio, high) against eager and compile."""
    names = ("x", "x, large values", "poisoned output", "other weights", "strided input")
    samples = {
        side: [[device_us + 0.1 * i for i in range(60)] for _ in range(5 if tier == "full" else 2)]
        for side in ("candidate", "eager", "default")
    }
    speedups = {
        "eager": Speedup(eager[1], eager[0], eager[2]),
        "compile": Speedup(compiled[1], compiled[0], compiled[2]),
    }
    baselines = {"eager": Baseline("eager", 41.2, 63.0), "compile": Baseline("default", 15.6, 31.0)}
    if tier == "full":
        baselines["best"] = Baseline("max-autotune", 14.9, 24.0)
        speedups["best"] = Speedup(1.13, 1.08, 1.18)
    profile = ProfileReport(device_us, device_us + 14.1, baselines, speedups, 9.8, samples)
    faster = "faster than eager and than torch.compile" if reward == 3 else "not faster than eager"
    return _verdict(
        tier=tier,
        build=_built(),
        guard=GuardReport(True),
        verify=VerifyReport(True, tuple(VerifyCase(name, True, 9.5e-7, 1.1e-6) for name in names)),
        profile=profile,
        reward=reward,
        reason=f"Correct, and {faster}: {eager[1]:.2f}× against eager [{eager[0]:.2f}, {eager[2]:.2f}].",
        seconds=Seconds(0.02, 0.31, 0.44, 1.9, 2.71),
    )


def stored(folder: Path) -> Iterator[tuple[int, float, Event]]:
    """Yield a session's stored events with their numbers and times."""
    for line in (folder / "events.jsonl").read_text().splitlines():
        data = json.loads(line)
        event = events.from_json(data)
        assert event is not None
        yield data["n"], data["time"], event


def record_decisions(folder: Path, spec: TaskSpec) -> Path:
    """Write a recording for ``replay:``: the answers of a model that fuses the block on the CPU, and nothing they led to."""
    recorder = Recorder(folder / "blobs", "cpu")
    broken = CPU_KERNEL.replace("std::exp(-v", "std::epx(-v")
    path, fused_import = "kernels/residual_norm.cpp", "from torch import nn\n"
    write_kernel = ("w", "Write", {"file_path": path, "content": broken})
    edits = [{"old_string": fused_import, "new_string": IMPORT}, {"old_string": SLOW, "new_string": FUSED}]
    _turn(
        recorder,
        1,
        "I write the kernel.",
        [write_kernel, ("e", "MultiEdit", {"file_path": "blocks.py", "edits": edits})],
    )
    _turn(recorder, 2, "", [("c", "Check", {})])
    mend = {"file_path": path, "old_string": "std::epx", "new_string": "std::exp"}
    _turn(recorder, 3, "A misspelt name.", [("m", "Edit", mend), ("d", "Check", {})])
    _turn(recorder, 4, "The **kernel** is right.", [])
    return write(folder, spec, recorder.events)


def record_words(folder: Path, spec: TaskSpec) -> Path:
    """Write a recording for ``replay:`` that writes a file and asks the judge nothing."""
    recorder = Recorder(folder / "blobs", "cpu")
    note = ("n", "Write", {"file_path": "kernels/note.txt", "content": "nothing yet\n"})
    _turn(recorder, 1, "The first answer.", [note])
    _turn(recorder, 2, "The second answer.", [])
    return write(folder, spec, recorder.events)
