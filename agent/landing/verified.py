"""What a verdict holds for: the inputs, state and constructor arguments that were judged, as the landed code checks them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sandbox.capture import plain_inputs, read_manifest
from sandbox.errors import InternalError
from sandbox.forms import forms_of
from sandbox.task import TaskSpec
from sandbox.verdict import VerifyReport
from sandbox.wire import literal

_LINE = re.compile(
    r"(?P<name>.+): (?P<dtype>\w+) \[(?P<shape>[\d, ]*)\] (?:contiguous|strides \[(?P<strides>[\d, ]*)\])"
)


@dataclass(frozen=True)
class VerifiedTensor:
    """An input, parameter or buffer: ``x``, ``x[0]['mask']`` or ``norm.weight``; ``strides`` is None if contiguous."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class VerifiedInputs:
    """What one judged call was like. Plain values are kept as Python literals, so that tuples stay tuples.

    Attributes:
        signature: The inputs in the order of forward's parameters, then parameters and buffers.
        constants: Arguments of forward that are no tensors, by name (``{"mask": "None"}``), as far as they are known.
        init: ``args`` and ``kwargs`` of the constructor, null for what is no literal; None if nothing is known of them.
        device: ``cpu`` or ``cuda``.
        training: Whether the module was in train mode.
        gradients: Whether gradients were verified too, and both modes.
        both_modes: Whether it was right in train mode as well as in eval mode.
        autocast: The dtype of the autocast that it was verified under (``torch.bfloat16``), or empty.
        ranges: Dimensions of inputs with one size together (``dims``: ``x.0``), and the sizes verified (``low``, ``high``).
        modes: By path, parts that were not in the mode of the whole, and whether in train mode.
        attributes: By path and name, literals of the plain attributes that a captured module had.
        reads: Of a captured module, the attributes that its forward was seen to read (``OriginalProfile.reads``).
        tf32: Where TF32 was allowed and made use of: ``matmul``, ``cudnn`` or nowhere.
        forms: The same for each other way in which the developer's run built and called the class, as far as it was verified.
    """

    signature: tuple[VerifiedTensor, ...]
    constants: dict[str, str]
    init: dict[str, Any] | None
    device: str
    training: bool
    gradients: bool = False
    both_modes: bool = False
    autocast: str = ""
    ranges: tuple[dict[str, Any], ...] = ()
    modes: dict[str, bool] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    reads: dict[str, Any] | None = None
    tf32: str = ""
    forms: tuple[VerifiedInputs, ...] = ()

    @classmethod
    def of(
        cls,
        spec: TaskSpec,
        signature: Iterable[str],
        source: bytes,
        verify: VerifyReport | None = None,
        reads: dict[str, Any] | None = None,
    ) -> VerifiedInputs:
        """Read what was verified from a task and the judge's profile of its reference.

        Args:
            spec: The task.
            signature: ``OriginalProfile.signature``.
            source: The reference's file.
            verify: What else was verified: sizes beside those of the signature, the other mode, and other forms.
            reads: ``OriginalProfile.reads``.
        """
        tree = ast.parse(source)
        captured = json.loads((Path(spec.capture) / "manifest.json").read_bytes()) if spec.capture else {}
        ranges = verify.ranges if verify else ()
        return cls(
            signature=tuple(_tensors(list(signature))),
            constants=_constants(spec, tree),
            init=_init(spec, tree),
            device=spec.device.partition(":")[0],
            training=spec.training,
            gradients=spec.gradients,
            both_modes=spec.gradients or (verify is not None and verify.in_both_modes),
            autocast=f"torch.{spec.autocast}" if spec.autocast else "",
            ranges=tuple({"dims": list(each.dims), "low": each.low, "high": each.high} for each in ranges),
            modes=captured.get("modes", {}),
            attributes={path: _literals(plain) for path, plain in captured.get("attributes", {}).items()},
            reads=reads,
            forms=tuple(_forms(spec, source, verify)) if verify and verify.forms else (),
        )

    @classmethod
    def by(
        cls, profile: Mapping[str, Any], spec: TaskSpec, source: bytes, verify: VerifyReport | None = None
    ) -> VerifiedInputs:
        """Read the same from ``OriginalProfile.to_json()``, which may be of a session that was stored before it had all of it."""
        return cls.of(spec, profile.get("signature", ()), source, verify, profile.get("reads"))

    def held_to(self, mentioned: Collection[str] | None) -> VerifiedInputs:
        """Return it with the attributes that a result may hang on, in each form.

        Those are what the original's forward was seen to read, of objects that the module holds too (``config.eps``), the
        classes of parts, and of the plain attributes also what the rewritten class names. An attribute of a part goes free only
        where the original calls that part, or the rewritten class does not name the one it is in: another way in may read more.

        Args:
            mentioned: Names by which the rewritten class may read attributes outside of its constructor; None for any, and then
                each plain attribute counts.
        """
        return replace(
            self,
            attributes=_that_matter(self.attributes, self.reads, mentioned),
            reads=None,
            forms=tuple(form.held_to(mentioned) for form in self.forms),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a landing's record says of it, as JSON data."""
        data = asdict(self)
        for each in (data, *data["forms"]):
            del each["reads"]
        return data


def _forms(spec: TaskSpec, source: bytes, verify: VerifyReport) -> Iterator[VerifiedInputs]:
    """Return what was verified in the other forms of a class, where what lands is to run its kernels."""
    there = forms_of(spec)
    for each in verify.forms:
        if each.covered and each.number <= len(there):
            yield VerifiedInputs.of(there[each.number - 1].spec, each.signature, source, each.verify, each.reads)


def _that_matter(
    attributes: Mapping[str, Mapping[str, str]], reads: Mapping[str, Any] | None, mentioned: Collection[str] | None
) -> dict[str, dict[str, str]]:
    """Return which attributes a call has to have as they were verified, by path and name; see ``held_to``."""
    if reads is None or mentioned is None:
        return {path: dict(plain) for path, plain in attributes.items()}
    found: dict[str, dict[str, str]] = {}
    for path in {**attributes, **reads["seen"]}:
        plain, read = attributes.get(path, {}), reads["seen"].get(path, {})
        called = "forward" in read or path.partition(".")[0] not in mentioned
        every = bool(reads["any"]) or not called
        kept = {name: text for name, text in plain.items() if every or name in read or name in mentioned}
        kept |= {name: text for name, text in read.items() if text and name not in plain}
        if kept:
            found[path] = kept
    return found


def _literals(plain: Mapping[str, Any]) -> dict[str, str]:
    """Return plain values as Python writes them, but for what equals not even itself."""
    return {name: literal(value) for name, value in plain.items() if value == value}


def _tensors(lines: list[str]) -> Iterator[VerifiedTensor]:
    """Read lines such as ``x: float32 [8, 64] contiguous``, without those of the outputs, which come last."""
    while lines and re.match(r"output( \d+)?: ", lines[-1]):
        single = lines.pop().startswith("output: ")
        if single:
            break
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            raise InternalError(f"The signature of the reference cannot be read: {line!r}.")
        strides = None if found["strides"] is None else _numbers(found["strides"])
        yield VerifiedTensor(found["name"], found["dtype"], _numbers(found["shape"]), strides)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _init(spec: TaskSpec, tree: ast.Module) -> dict[str, Any] | None:
    """Return the constructor's arguments, where the task states them or there are none."""
    if spec.capture and not spec.init:
        return None
    if not spec.init and any(
        isinstance(node, ast.FunctionDef) and node.name == "get_init_inputs" for node in tree.body
    ):
        return None
    call = _call(spec.init)
    if any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords):
        return None
    kwargs = {keyword.arg: _literal(keyword.value) for keyword in call.keywords}
    return {"args": [_literal(argument) for argument in call.args], "kwargs": kwargs}


def _constants(spec: TaskSpec, tree: ast.Module) -> dict[str, str]:
    """Return the plain values among the inputs that the task states, or that were captured."""
    if spec.capture and not spec.inputs and not spec.factory:
        return {name: repr(value) for name, value in plain_inputs(read_manifest(Path(spec.capture))).items()}
    call = _call(spec.inputs)
    names = _parameters(tree, spec.class_name)
    found: dict[str, str] = {}
    for position, argument in enumerate(call.args):
        found |= _leaves(names[position] if position < len(names) else f"args[{position}]", argument)
    for keyword in call.keywords:
        found |= _leaves(keyword.arg, keyword.value) if keyword.arg else {}
    return found


def _leaves(name: str, node: ast.expr) -> dict[str, str]:
    if isinstance(node, ast.Tuple | ast.List):
        pairs = [(f"{name}[{position}]", item) for position, item in enumerate(node.elts)]
    elif isinstance(node, ast.Dict):
        pairs = [
            (f"{name}[{key.value!r}]", value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
    else:
        literal = _literal(node)
        return {} if literal is None else {name: literal}
    return {key: value for each, item in pairs for key, value in _leaves(each, item).items()}


def _parameters(tree: ast.Module, class_name: str) -> list[str]:
    """Return the names of forward's parameters that can be given by position."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == "forward":
                    return [each.arg for each in (*member.args.posonlyargs, *member.args.args)][1:]
    return []


def _call(arguments: str) -> ast.Call:
    tree = ast.parse(f"f({arguments}\n)", mode="eval").body
    assert isinstance(tree, ast.Call)
    return tree


def _literal(node: ast.expr) -> str | None:
    """Return a literal's text, or None for anything else."""
    try:
        return repr(ast.literal_eval(node))
    except ValueError:
        return None
