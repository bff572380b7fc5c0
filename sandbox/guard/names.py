"""The names the static guard of Python code knows: what a candidate may import and call, and what gives it away."""

from __future__ import annotations

from typing import Literal, NamedTuple

ALLOWED_IMPORTS = frozenset(
    {
        "__future__", "abc", "collections", "collections.abc", "contextlib", "dataclasses", "enum", "functools", "itertools",
        "logging", "math", "numbers", "textwrap", "typing", "warnings", "torch", "torch.nn", "torch.nn.functional",
        "torch.nn.init", "torch.nn.parameter", "torch.nn.modules", "torch.autograd", "torch.autograd.function", "torch.types",
        "torch.utils.cpp_extension", "triton", "triton.language", "triton.language.extra", "triton.language.extra.cuda",
    }
)  # fmt: skip
"""Modules a candidate may import beside those that the original file imports and its own kernels."""

FORBIDDEN_MODULES = frozenset(
    {
        "os", "sys", "subprocess", "ctypes", "socket", "threading", "_thread", "multiprocessing", "importlib", "gc", "inspect",
        "pathlib", "io", "shutil", "tempfile", "signal", "pickle", "marshal", "builtins", "asyncio", "concurrent", "atexit",
        "ast", "code", "codeop", "dis", "traceback", "types", "weakref", "mmap", "fcntl", "resource", "runpy", "pkgutil",
        "pty", "select", "selectors", "urllib", "http", "requests", "platform", "site", "sysconfig", "faulthandler", "cffi",
        "glob", "time", "timeit", "random", "secrets", "pynvml", "triton", "cupy", "numba", "pycuda",
    }
)  # fmt: skip
"""Modules that changed code may not use even where the original file imports them."""

FORBIDDEN_BUILTINS = {
    "open": "file-access",
    "exec": "code-from-text",
    "eval": "code-from-text",
    "compile": "code-from-text",
    "__import__": "import",
    "globals": "introspection",
    "locals": "introspection",
    "vars": "introspection",
    "dir": "introspection",
    "breakpoint": "introspection",
    "__builtins__": "introspection",
    "__loader__": "introspection",
    "__spec__": "introspection",
    "input": "file-access",
    "memoryview": "introspection",
    "delattr": "patch",
    "exit": "process-exit",
    "quit": "process-exit",
    "SystemExit": "process-exit",
    "KeyboardInterrupt": "process-exit",
}

FORBIDDEN_ATTRIBUTES = frozenset(
    {
        "__globals__", "__code__", "__closure__", "__subclasses__", "__bases__", "__mro__", "__dict__", "__builtins__",
        "__loader__", "__spec__", "__getattribute__", "__import__", "__func__", "__wrapped__", "__defaults__", "__reduce__",
        "__reduce_ex__", "__setstate__", "__class__", "__setattr__", "__delattr__", "__get__", "__new__",
        "f_back", "f_locals", "f_globals", "f_builtins", "gi_frame", "cr_frame",
        "tb_frame", "tb_next", "_getframe", "_modules", "_parameters", "_buffers", "__torch_function__", "__torch_dispatch__",
    }
)  # fmt: skip

MAGIC_METHODS = frozenset(
    {
        "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__del__", "__init_subclass__", "__class_getitem__",
        "__reduce__", "__reduce_ex__", "__instancecheck__", "__prepare__", "__set_name__", "__get__", "__set__", "__new__",
        "__mro_entries__", "__subclasshook__",
    }
)  # fmt: skip

SUBCLASS_MAKERS = frozenset({"_make_subclass", "_make_wrapper_subclass", "as_subclass"})
HOOKS = frozenset(
    {
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook",
        "register_full_backward_pre_hook", "register_hook", "register_module_forward_hook", "register_load_state_dict_post_hook",
        "register_module_forward_pre_hook", "register_post_accumulate_grad_hook", "register_multi_grad_hook",
    }
)  # fmt: skip


class Denied(NamedTuple):
    """A part of torch that a candidate may not touch (or may, and it is said): the rule, and why."""

    rule: str
    why: str
    severity: Literal["reject", "label"] = "reject"


_STREAM = Denied("stream", "works on a stream of its own; it must wait for the current one and be waited for", "label")
_CURRENT = Denied("stream", "which stream is the current one is the caller's to decide")
_STATE = Denied("global-state", "this changes torch for everything else in the process")
_FILES = Denied("file-access", "a candidate reads and writes no files")
_TEXT = Denied("code-from-text", "this runs text as code")
_GRAPH = Denied("cuda-graph", "replays a CUDA graph, which saves launches that the baselines pay", "label")

DENIED = {
    "torch.compile": Denied("compile", "torch.compile is what the candidate is compared with; write the kernel"),
    "torch.jit": Denied("compile", "the fuser's kernels are not the candidate's own"),
    "torch.fx": Denied("compile", "tracing torch's operators is not a kernel"),
    "torch.export": Denied("compile", "tracing torch's operators is not a kernel"),
    "torch.func": Denied("compile", "transforming torch's operators is not a kernel"),
    "torch.vmap": Denied("compile", "transforming torch's operators is not a kernel"),
    "torch._dynamo": Denied("compile", "the compiler's inner parts are not the candidate's to use"),
    "torch._inductor": Denied("compile", "the compiler's inner parts are not the candidate's to use"),
    "torch._C": Denied("torch-internals", "torch's inner parts are not the candidate's to use"),
    "torch._ops": Denied("torch-internals", "torch's inner parts are not the candidate's to use"),
    "torch.ops": Denied("registered-operator", "operators of other libraries are not the candidate's own kernels"),
    "torch.classes": Denied("registered-operator", "classes of other libraries are not the candidate's own"),
    "torch.library": Denied(
        "registered-operator", "the operator is made when the change lands; call the kernel itself"
    ),
    "torch.overrides": Denied("tensor-subclass", "this intercepts torch's functions"),
    "torch.utils": Denied("torch-internals", "nothing of torch.utils is needed to call a kernel"),
    "torch.utils.cpp_extension": Denied(
        "brings-own-binding", "builds its own extension: judged all the same, only more slowly", "label"
    ),
    "torch.cuda.Stream": _STREAM,
    "torch.cuda.stream": _STREAM,
    "torch.cuda.StreamContext": _STREAM,
    "torch.cuda.ExternalStream": _CURRENT,
    "torch.cuda.set_stream": _CURRENT,
    "torch.cuda.default_stream": _STREAM,
    "torch.cuda.Event": _STREAM,
    "torch.cuda.streams": _STREAM,
    "torch.Stream": _STREAM,
    "torch.Event": _STREAM,
    "torch.cuda.CUDAGraph": _GRAPH,
    "torch.cuda.graph": _GRAPH,
    "torch.cuda.graphs": _GRAPH,
    "torch.cuda.make_graphed_callables": _GRAPH,
    "torch.cuda.is_current_stream_capturing": Denied(
        "capture-aware", "asks whether it is captured into a CUDA graph", "label"
    ),
    "torch.cuda.set_device": _STATE,
    "torch.cuda.manual_seed": _STATE,
    "torch.cuda.empty_cache": _STATE,
    "torch.cuda.memory": _STATE,
    "torch.cuda.cudart": Denied("torch-internals", "the CUDA runtime is called from kernel files"),
    "torch.cuda.profiler": Denied("torch-internals", "profiling is the judge's part"),
    "torch.backends": _STATE,
    "torch.set_default_dtype": _STATE,
    "torch.set_default_device": _STATE,
    "torch.set_default_tensor_type": _STATE,
    "torch.set_num_threads": _STATE,
    "torch.set_num_interop_threads": _STATE,
    "torch.set_float32_matmul_precision": _STATE,
    "torch.set_deterministic_debug_mode": _STATE,
    "torch.set_flush_denormal": _STATE,
    "torch.set_warn_always": _STATE,
    "torch.use_deterministic_algorithms": _STATE,
    "torch.manual_seed": _STATE,
    "torch.seed": _STATE,
    "torch.random": _STATE,
    "torch.autocast": Denied("autocast", "autocast lets torch compute in a lower precision"),
    "torch.amp": Denied("autocast", "autocast lets torch compute in a lower precision"),
    "torch.cuda.amp": Denied("autocast", "autocast lets torch compute in a lower precision"),
    "contextlib.suppress": Denied("swallowed-error", "a kernel that fails must be seen to fail"),
    "logging.FileHandler": _FILES,
    "logging.config": _FILES,
    "logging.handlers": _FILES,
    "typing.get_type_hints": _TEXT,
    "typing.ForwardRef": _TEXT,
    "dataclasses.make_dataclass": _TEXT,
    "torch.serialization": _FILES,
    "torch.storage": Denied("torch-internals", "raw storage is not the candidate's to use"),
    "torch.testing": Denied("torch-internals", "comparing is the judge's part"),
    "torch.load": _FILES,
    "torch.save": _FILES,
    "torch.from_file": _FILES,
    "torch.hub": _FILES,
    "torch.package": _FILES,
    "torch.UntypedStorage": Denied("torch-internals", "raw storage is not the candidate's to use"),
    "torch.multiprocessing": Denied("process", "a candidate starts no processes or threads"),
    "torch.distributed": Denied("process", "a candidate starts no processes or threads"),
    "torch.profiler": Denied("torch-internals", "profiling is the judge's part"),
    "triton": Denied(
        "triton-code", "of Triton only what declares a kernel of the module, cdiv, next_power_of_2 and types are used"
    ),
    "torch.futures": Denied("process", "a candidate starts no processes or threads"),
}
"""By dotted prefix; the longest that fits counts."""

_TRITON_HOST = frozenset(
    {
        "triton.cdiv", "triton.next_power_of_2", "triton.language.constexpr", "triton.language.bfloat16",
        *(f"triton.language.float{bits}" for bits in (16, 32, 64)), "triton.language.float8e4nv", "triton.language.float8e5",
        *(f"triton.language.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "triton.language.int1",
    }
)  # fmt: skip
"""What of Triton code on the host may use; kernels may use more (``triton_source``)."""

TRITON_IMPORTS = _TRITON_HOST | {
    "triton.jit", "triton.autotune", "triton.heuristics", "triton.Config", "triton.language",
    "triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice",
}  # fmt: skip
"""What may be imported from Triton by name."""

_TORCHS_OWN = frozenset({"torch.select", "torch.types"})

POLICY_RULES = frozenset({"torch-computation", "unknown-call", "registered-operator", "library-use", "torch-in-cpp"})
"""Rules that the policy ``library-ok`` lifts."""


def forbidden_module(dotted: str) -> str:
    """Return the module that a dotted name reaches and may not, also through another module (``torch.os.system``)."""
    own = ".".join(dotted.split(".")[:2]) in _TORCHS_OWN
    parts = dotted.split(".")
    found = [part for part in parts[parts[0] == "triton" :] if part in FORBIDDEN_MODULES and not own]
    return found[0] if found else ""


def denied(dotted: str) -> Denied | None:
    """Return why a dotted name may not be used, or null."""
    if dotted in _TRITON_HOST:
        return None
    while dotted:
        if dotted in DENIED:
            return DENIED[dotted]
        dotted = dotted.rpartition(".")[0]
    return None
