"""What a client can call: names, descriptions and schemas, as text that every conversation of a client pays for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True)
class ToolCard:
    """A tool as a client sees it; ``runs_project`` says that it runs code of the developer's project, as the developer."""

    name: str
    description: str
    properties: Schema
    required: tuple[str, ...] = ()
    output: Schema | None = None
    read_only: bool = False
    runs_project: bool = False

    @property
    def parameters(self) -> Schema:
        """The schema of its arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


def _text(description: str, *choices: str) -> Schema:
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def _nullable(kind: str) -> Schema:
    return {"type": [kind, "null"]}


def _output(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TASK = {"task": _text("The handle that open_task gave.")}
_CANDIDATE: Schema = {
    **_TASK,
    "files": {
        "type": "object",
        "description": "Files to write into the task's workspace first: text by path; null removes one. Others stay.",
    },
    "folder": _text("A folder of the project to take as the candidate instead; it replaces what the workspace holds."),
}
_VERDICT = _output(
    {
        "text": _text("The verdict in words: what failed where, times, and what the next reward takes."),
        "task": {"type": "string"},
        "attempt": {"type": "integer"},
        "tier": {"type": "string", "enum": ["quick", "full"]},
        "correct": {"type": "boolean"},
        "reward": {**_nullable("integer"), "description": "-1, 1, 2 or 3; null where nothing could be judged."},
        "reason": {"type": "string"},
        "device_us": _nullable("number"),
        "latency_us": _nullable("number"),
        "speedup": {
            "type": "object",
            "description": "By baseline (eager, compile, best): ratio, low and high of its 95 % interval.",
        },
        "verdict": _text("Resource that holds the whole verdict as JSON."),
    }
)
_OPENED = _output(
    {
        "text": {"type": "string"},
        "task": _text("The handle for every other tool."),
        "workspace": _text("The folder to edit."),
        "candidate_file": {"type": "string"},
        "candidate_class": {"type": "string"},
        "kernel_suffix": {"type": "string"},
        "device": {"type": "string"},
    }
)

OPEN = ToolCard(
    "open_task",
    "Begin to optimise a PyTorch module: loads it in the developer's interpreter and makes a workspace to edit. Returns a "
    "handle, the workspace's folder and the rules for kernels. Nothing in the project is changed.",
    {
        "target": _text("path.py:Class, package.module:Class, or a KernelBench file."),
        "capture": _text("Folder of a capture (hotspots names them); target may be left out then."),
        "init": _text('Constructor arguments as Python: "256, eps=1e-6".'),
        "inputs": _text('Forward arguments as Python: "torch.randn(8, 256)"; or a .pt file that torch.save wrote.'),
        "factory": _text("Function that returns the forward arguments: name, or module:name."),
        "dtype": _text("Cast module and floating inputs: bfloat16, float16, float32."),
        "train": {"type": "boolean", "description": "Judge in train mode."},
        "gradients": {"type": "boolean", "description": "The module is trained: verify gradients too."},
        "dynamic": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Sizes that vary: x.0=1:4096, or x.0,mask.0=1:4096 for those that vary together.",
        },
        "precision": _text("Precision class.", "auto", "fp32", "tf32", "bf16", "fp16", "fp8"),
        "policy": _text("What may compute: own kernels, or torch's operators too.", "own-kernels", "library-ok"),
        "judged_by": _text("What speedups are about.", "device", "latency"),
    },
    output=_OPENED,
    runs_project=True,
)
CLOSE = ToolCard(
    "close_task",
    "Let go of a task's judge and session. Files stay; any tool opens it again.",
    dict(_TASK),
    ("task",),
)
CHECK = ToolCard(
    "check",
    "Judge the task's workspace: build the kernels, guard, verify against a float64 oracle, time against eager and "
    "torch.compile. quick takes seconds and is for iterating; full is what a landing rests on. The candidate runs isolated.",
    {
        **_CANDIDATE,
        "tier": _text("quick if left out.", "quick", "full"),
        "note": _text("What was changed, and the gain you expect."),
        "remeasure": {"type": "boolean", "description": "Judge again even if these very files were judged."},
    },
    ("task",),
    output=_VERDICT,
)
PROFILE = ToolCard(
    "profile",
    "original: where the original's time goes, its baselines, and how long a plain copy of its bytes takes. candidate: the "
    "kernels that ran in the workspace's candidate, from a full verdict.",
    {**_CANDIDATE, "of": _text("original if left out.", "original", "candidate")},
    ("task",),
)
SWEEP = ToolCard(
    "sweep",
    "Time the kernels under several values of macros, every combination in one call, and say whether the difference is "
    "real. Each needs #ifndef TILE / #define TILE 64 / #endif in a kernel file. No verdict.",
    {**_CANDIDATE, "defines": {"type": "object", "description": 'Values by macro: {"TILE": [32, 64]}.'}},
    ("task", "defines"),
)
ABLATE = ToolCard(
    "ablate",
    "Time the kernels with one phase left out at a time: what stands between #ifndef ABLATE_NAME and #endif. No verdict.",
    {
        **_CANDIDATE,
        "phases": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names without ABLATE_; all if left out.",
        },
    },
    ("task",),
)
SANITIZE = ToolCard(
    "sanitize",
    "Run the candidate under sanitizers: out-of-bounds accesses, races, undefined behaviour, each with its line.",
    dict(_CANDIDATE),
    ("task",),
)
NCU = ToolCard(
    "ncu",
    "On an NVIDIA GPU: what Nsight Compute says limits each kernel of a correct candidate, as a digest.",
    dict(_CANDIDATE),
    ("task",),
)
HOTSPOTS = ToolCard(
    "hotspots",
    "Run the developer's own script for a while, as it would run in a terminal, and rank its module classes by their share "
    "of the time; each comes with a capture that open_task takes.",
    {
        "command": _text("As in a shell: python train.py --lr 1e-3"),
        "seconds": {
            "type": "number",
            "minimum": 0,
            "description": "How long to watch once it is warm; 60 if left out.",
        },
        "measure": {
            "type": "integer",
            "minimum": 0,
            "description": "Time the first N classes, compiled too; 0 if left out.",
        },
    },
    ("command",),
    runs_project=True,
)
SKILL = ToolCard(
    "skill",
    "Read how fast kernels are written here: a skill's instructions, or one of the files it names.",
    {
        "name": _text("cuda-kernels if left out."),
        "file": _text("A file of the skill, such as references/kernel-form.md."),
    },
    read_only=True,
)
CARDS = (OPEN, CHECK, PROFILE, SWEEP, ABLATE, SANITIZE, NCU, HOTSPOTS, SKILL, CLOSE)
ON_CANDIDATE = (CHECK, PROFILE, SWEEP, ABLATE, SANITIZE, NCU)
