"""What the agent is told at the start: who it is, where it works, how it is judged, and the task at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.framing import RULE as DATA_RULE
from agent.framing import fenced
from agent.quoting import function_quoted, quoted, shows_whole
from agent.skills import Skills
from agent.verdict_text import original_text
from sandbox.capture import read_manifest
from sandbox.forms import forms_of
from sandbox.task import TaskSpec

_MOST_NAMED = 40
"""Inputs, attributes and parameters of a captured module that are listed at most, of each."""
_LONGEST_VALUE = 80


def system_message(spec: TaskSpec, skills: Skills, turn_limit: int) -> dict[str, Any]:
    """Return the system message: role, workspace, kernels, rules, judging, and the skills."""
    parts = [_ROLE, _workspace(spec), _kernels(spec), _rules(spec), _judging(turn_limit)]
    if skills.main:
        parts.append(skills.main.told)
    if catalogue := _catalogue(skills):
        parts.append(catalogue)
    return {"role": "system", "content": "\n\n".join(parts)}


def opening_message(spec: TaskSpec, source: str, profile: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the first user message: the module, how it is built and called, and its profile if there is one.

    Args:
        spec: The task.
        source: Text of the candidate's file, which holds the original at first.
        profile: ``OriginalProfile.to_json()``, if the original was profiled already.
    """
    called = f"inputs from {spec.factory}" if spec.factory else f"forward({spec.inputs})"
    if spec.capture and not spec.inputs and not spec.factory:
        called = "inputs like those captured in the developer's own run"
    if spec.kind == "kernelbench":
        made = f"{spec.candidate_class}(*get_init_inputs()), forward(*get_inputs())"
    else:
        captured = "the captured arguments" if spec.capture else ""
        made = f"{spec.class_name}({spec.init or captured}), {called}"
    mode, dtype = "train" if spec.training else "eval", spec.dtype or "as the module has it"
    facts = [
        f"Make `{spec.candidate_class}` in `{spec.candidate_file}` faster. The file now holds the original:",
        f"\n{fenced(quoted(source, spec.candidate_class), 'python')}\n",
        f"- built and called as: {made}",
        f"- mode: {mode}; device: {spec.device}; dtype: {dtype}; precision class: {spec.precision}",
        *_factory(spec, source),
        *_captured(spec),
        *_promises(spec),
    ]
    if profile is not None:
        facts.append(f"\nProfile of the original:\n{original_text(profile)}")
    return {"role": "user", "content": "\n".join(facts)}


def _factory(spec: TaskSpec, source: str) -> Iterator[str]:
    """Quote the function that makes the inputs, where the file that is shown does not have it: it tells what values they take."""
    module, _, function = spec.factory.rpartition(":")
    if not module and shows_whole(source):
        return
    path = spec.root.joinpath(*module.split(".")).with_suffix(".py") if module else spec.path
    if path.is_file() and (text := function_quoted(path.read_text(errors="replace"), function)):
        yield f"- {function} of `{path.name}`, which the workspace does not hold:\n\n{fenced(text, 'python')}\n"


def _captured(spec: TaskSpec) -> Iterator[str]:
    """Say what a captured call and its module were like: nothing in the source tells."""
    if not spec.capture:
        return
    manifest = read_manifest(Path(spec.capture))
    given = [_tensor(each["name"], each) for each in manifest["inputs"]]
    plain = [f"{name}={_short(value)}" for name, value in manifest["plain"].items()]
    held = [_tensor(name, each) for name, each in manifest["state"]["tensors"].items()]
    set_to = [
        f"{f'{path}.' if path else ''}{name}={_short(value)}"
        for path, values in manifest["attributes"].items()
        for name, value in values.items()
    ]
    for what, all_of in (("inputs", given + plain), ("parameters and buffers", held), ("attributes", set_to)):
        if all_of:
            more = f" and {len(all_of) - _MOST_NAMED} more" if len(all_of) > _MOST_NAMED else ""
            yield f"- captured {what}: {', '.join(all_of[:_MOST_NAMED])}{more}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _tensor(name: str, facts: Mapping[str, Any]) -> str:
    return f"{name} {facts['dtype']} {facts['shape']} {facts.get('layout', '')}".rstrip()


def _promises(spec: TaskSpec) -> Iterator[str]:
    """Say what a full verdict holds the candidate to beside the inputs that are shown."""
    if spec.autocast:
        yield f"- called under torch.autocast to {spec.autocast}: floating inputs may come in float32 or in that dtype"
    if spec.judged_by == "latency":
        yield (
            "- judged by latency, from an idle device to the end of a call: launches and time on the host count as much as "
            "the kernels' own"
        )
    for each in spec.dynamic:
        yield f"- {' = '.join(each.dims)} may be any size from {each.low} to {each.high}: kernels must be right at all of them"
    if forms := forms_of(spec):
        yield (
            "- the developer's run builds and calls it in other ways too. Kernels that are right there as well run there once "
            "they land, and where they are not the original does; Check tells which are covered:"
        )
        yield from (f"  - {form.calls} calls: {form.name}" for form in forms)
    if spec.gradients:
        yield (
            "- it is trained: gradients of inputs and parameters are verified, and train as well as eval mode; give them "
            "with a torch.autograd.Function whose backward runs kernels of yours"
        )


def kernel_rules(spec: TaskSpec) -> str:
    """Return how kernels are written, what a candidate may do, and what it is held to, for whoever writes one."""
    return "\n\n".join([_kernels(spec), _rules(spec), *_promises(spec)])


_ROLE = (
    "You are an expert in GPU and CPU kernels. You make one PyTorch module faster by writing fused kernels for it, with "
    "the same results. You work in a workspace through tools; a judge outside your reach builds, verifies and times what "
    "you write. A developer watches and may steer you: what they say comes as user messages and goes before everything "
    "here but the rules."
)


def _workspace(spec: TaskSpec) -> str:
    file = spec.candidate_file
    other = "\n- `model.py`: the original, read-only" if spec.kind == "kernelbench" else ""
    return (
        "# Workspace\n"
        "All paths are relative to the workspace, which is also where your shell starts and what its $WORKSPACE names. Bash has "
        "no GPU and no network.\n"
        f"- `{file}`: the module you change; class `{spec.candidate_class}` keeps its name, its constructor and the names "
        f"of its parameters and buffers{other}\n"
        f"- `kernels/NAME{spec.kernel_suffix}`: your kernels"
    )


def _kernels(spec: TaskSpec) -> str:
    cuda = spec.kernel_suffix == ".cu"
    stream = ", cudaStream_t stream" if cuda else ""
    types = (
        "float, double, __half, __nv_bfloat16, intN_t, uintN_t, bool"
        if cuda
        else "float, double, intN_t, uintN_t, bool, or your own `struct bfloat16 { uint16_t bits; };` (or float16)"
    )
    returns = "0 or a CUDA error code" if cuda else "0, or another number for an error"
    binding = "the stream is passed for you; launch on it" if cuda else "there is no stream"
    libraries = (
        "\n- As a first line, `// link: cublas` (or cublasLt, cudnn) links that library, and `// fast-math` allows fast-math"
        if cuda
        else ""
    )
    return (
        "# Kernels\n"
        "A kernel file includes no torch header and holds launchers of this form:\n"
        f'    extern "C" int NAME(const T* in, T* out, int64_t n, float eps{stream})\n'
        f"- T is one of {types}\n"
        f"- `const` pointers are inputs, the others outputs; scalars are int, int64_t, float or double; it returns {returns}\n"
        f"- call it from `{spec.candidate_file}`: `{spec.kernels_import} NAME`, then `NAME(x, out, n, eps)`: the C parameters "
        f"in order; {binding}\n"
        "- you write no binding; the caller allocates outputs with torch.empty or empty_like; tensors must be contiguous and "
        "of the pointer's dtype; None passes a null pointer; the call returns None and raises on an error code"
        f"{libraries}\n"
        f"- only Check binds kernels: `{spec.candidate_file}` cannot be imported in Bash. Try a kernel there with "
        f"{'nvcc (which only compiles: there is no GPU)' if cuda else 'g++'} and a main of its own"
    )


def _rules(spec: TaskSpec) -> str:
    policy = (
        "own kernels do the work (own-kernels); cuBLAS for GEMM and cuDNN for convolution are allowed, linked into your kernels"
        if spec.policy == "own-kernels"
        else "torch's own operators may be used too (library-ok)"
    )
    return (
        "# Rules\n"
        f"- Policy: {policy}. In Python only allocation, views and reading shapes are allowed besides your kernels."
        "\n- Compute in the task's precision class or above; results must agree with a float64 oracle.\n"
        "- Outputs have the original's shapes and dtypes and are contiguous; one that is not so in the original may have any "
        "strides.\n"
        "- Every call computes its result from its inputs: no caching of outputs, no second stream, no threads that outlive "
        "the call, no reading of the judge. The judge looks for this and rejects it.\n"
        f"- {DATA_RULE}"
    )


def _judging(turn_limit: int) -> str:
    return (
        "# Judging\n"
        "Check judges the workspace: build, guard, verify, profile; what comes later runs only if what came before passed. "
        "Reward: -1 not correct; 1 correct; 2 when the whole 95 % interval of its time is under 0.95 of eager's; 3 when it is "
        "also under 0.95 of torch.compile's. Each verdict says what the next reward takes. One that other programs disturbed has "
        "no reward, and says nothing about your kernel: Check again once; if that is disturbed too, go on without. At the "
        "end of the run the best attempt, and the newest that is right and has no time, are measured in full once more.\n"
        f"You have {turn_limit} answers. Work without asking back. When further gains are not worth it, remove files you no "
        "longer need, run a full Check, and end with a short summary without a tool call."
    )


def _catalogue(skills: Skills) -> str:
    others = [f"- {skill.name}: {skill.description}" for skill in skills.all if not skill.main]
    return (
        "\n".join(["# Other skills", "Read one with the Skill tool when its description fits.", *others])
        if others
        else ""
    )
