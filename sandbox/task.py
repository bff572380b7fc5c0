"""The task: a reference module with its inputs, precision class and policy, described without importing it.

A task is described here and loaded only in the developer's interpreter (``sandbox/harness``): this module never
imports torch or the developer's code.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

Policy = Literal["own-kernels", "library-ok"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16", "fp8"]
JudgedBy = Literal["device", "latency"]
Kind = Literal["kernelbench", "module"]
GradMode = Literal["no_grad", "grad", "inference"]


@dataclass(frozen=True)
class DynamicSize:
    """Dimensions of inputs (``x.0``) that have one size together, which may be anything from ``low`` to ``high``."""

    dims: tuple[str, ...]
    low: int
    high: int

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DynamicSize:
        """Rebuild it from its JSON data."""
        return cls(tuple(data["dims"]), int(data["low"]), int(data["high"]))


@dataclass(frozen=True)
class TaskSpec:
    """Everything needed to load and judge a task, as plain data.

    Attributes:
        kind: ``kernelbench`` for a file with ``Model``, ``get_inputs()`` and ``get_init_inputs()``; else ``module``.
        path: The reference's source file, absolute.
        class_name: The reference class (``Model`` for a KernelBench file).
        module_name: The file's dotted import name below ``root`` (``pkg.blocks``), or its stem for a lone file.
        root: The folder that goes on ``sys.path`` so that the file's own imports work.
        python: The developer's interpreter, absolute.
        init: Constructor arguments as they stand between the parentheses, a Python expression list (``"64, eps=1e-6"``).
        inputs: Forward arguments in the same form (``"torch.randn(8, 64), mask=None"``); ``torch`` is in scope. Or a file
            that ``torch.save`` wrote them to, absolute, whose name ends in ``.pt`` or ``.pth``.
        factory: ``function`` of the file, or ``package.module:function``, returning the forward arguments as a tuple, a
            list, a dict of keywords or ``(args, kwargs)``. Used instead of ``inputs``.
        dtype: The floating dtype the module and its floating inputs are cast to (``"bfloat16"``), or empty to leave them.
        training: Judge in train mode instead of eval.
        device: ``cpu`` or ``cuda:N``; already resolved.
        precision: Precision class, or ``auto`` to derive it from the module's dtype and the TF32 measurement.
        policy: What the candidate may call.
        judged_by: What speedups and reward are about: ``device`` time, or the ``latency`` that a caller waits.
        tolerance: ``budget`` (two times the reference's own error plus 8 ulp) or ``1e-2`` (the published tolerance).
        dynamic: Dimensions of inputs whose size may vary; a full verdict looks at other sizes too.
        gradients: Whether the module is trained, so that gradients are verified too, and both modes.
        capture: Folder of a capture from the developer's own run, absolute, or empty. It gives arguments, state and inputs
            where nothing else here does.
        autocast: The dtype that autocast is entered with around every call (``"bfloat16"``), or empty.
        lands_at: The developer's file, absolute, where ``path`` is another: the original of a landing, in a copy of the
            project. Empty where they are the same.
        grad_mode: What calls are made under: ``no_grad``, ``grad`` (gradients are recorded) or ``inference``.
        kernels: Name of the folder of kernels, where another class of the file has the usual one. Empty for the usual one.
    """

    kind: Kind
    path: Path
    class_name: str
    module_name: str
    root: Path
    python: Path
    init: str = ""
    inputs: str = ""
    factory: str = ""
    dtype: str = ""
    training: bool = False
    device: str = "cpu"
    precision: Precision = "auto"
    policy: Policy = "own-kernels"
    judged_by: JudgedBy = "device"
    tolerance: Literal["budget", "1e-2"] = "budget"
    env: dict[str, str] = field(default_factory=dict)
    dynamic: tuple[DynamicSize, ...] = ()
    gradients: bool = False
    capture: str = ""
    autocast: str = ""
    grad_mode: GradMode = "no_grad"
    lands_at: str = ""
    kernels: str = ""

    @property
    def landing(self) -> TaskSpec:
        """The task at the file that a landing is written to."""
        if not self.lands_at:
            return self
        below = self.path.relative_to(self.root).parts
        return replace(self, path=Path(self.lands_at), root=Path(self.lands_at).parents[len(below) - 1], lands_at="")

    @property
    def id(self) -> str:
        """A short name for lists and reports, such as ``pkg.blocks:FusedBlock``."""
        return f"{self.module_name}:{self.class_name}"

    @property
    def candidate_file(self) -> str:
        """The Python file of the workspace that the agent edits."""
        return "model_new.py" if self.kind == "kernelbench" else self.path.name

    @property
    def candidate_class(self) -> str:
        """The class of that file that is judged."""
        return "ModelNew" if self.kind == "kernelbench" else self.class_name

    @property
    def kernels_module(self) -> str:
        """Import name of the bound kernels, as the candidate's file imports them, here and after landing.

        The folder that lands beside the developer's file carries the same name, so the judged bytes are those that land.
        """
        return "kernels" if self.kind == "kernelbench" else self.kernels or f"{self.path.stem}_kernels"

    @property
    def kernels_import(self) -> str:
        """The import statement of the candidate's file, up to the names (``from .blocks_kernels import``)."""
        dot = "." if self.kind == "module" and "." in self.module_name else ""
        return f"from {dot}{self.kernels_module} import"

    @property
    def kernel_suffix(self) -> str:
        """The suffix of kernel files: ``.cu`` on an NVIDIA GPU, ``.cpp`` on the CPU."""
        return ".cpp" if self.device == "cpu" else ".cu"

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON data; paths become strings."""
        data = asdict(self)
        return {key: str(value) if isinstance(value, Path) else value for key, value in data.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TaskSpec:
        """Rebuild a spec from its JSON data; unknown keys are ignored."""
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        paths = {key: Path(known[key]) for key in ("path", "root", "python")}
        dynamic = tuple(DynamicSize.from_json(each) for each in known.get("dynamic", ()))
        return cls(**{**known, **paths, "dynamic": dynamic})

    def with_changes(self, **changes: Any) -> TaskSpec:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)
