"""Rules on Triton kernels in a candidate's Python file.

The body of a function under ``triton.jit`` is compiled for the device and never runs on the host, so that it may compute. That
holds only while its name means just that, while nothing but a launch reaches it, and while it calls nothing of the host: Triton
runs some of what a body names while it compiles.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from sandbox.guard.candidate import CandidateFile, called
from sandbox.guard.findings import Findings
from sandbox.task import TaskSpec

RULE = "triton-code"
"""The rule of what is wrong with Triton code; what is right gets one label, ``triton``."""

_DEVICE = re.compile(r"triton\.language\.(?:math\.|extra\.(?:cuda\.)?libdevice\.)?[A-Za-z]\w*")
_COUNTING = frozenset({"triton.cdiv", "triton.next_power_of_2"})
_COUNTING_BUILTINS = frozenset({"min", "max", "int"})
_BUILTINS = frozenset({"range", "min", "max", "abs", "int", "float", "bool", "len", "tuple"})
_METHODS = frozenset(
    {
        "to", "cast", "sum", "max", "min", "abs", "trans", "permute", "reshape", "view", "split", "expand_dims", "broadcast_to",
        "load", "store", "atomic_add", "gather", "scatter",
    }
)  # fmt: skip
"""Of tensors and descriptors inside a kernel."""

_ATTRIBUTES = _METHODS | {"dtype", "element_ty", "shape", "T", "value", "type"}
_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas"})
_SETTINGS = {
    "triton.jit": frozenset({"debug", "noinline", "do_not_specialize", "do_not_specialize_on_alignment"}),
    "triton.autotune": frozenset({"configs", "key", "reset_to_zero", "restore_value", "warmup", "rep", "use_cuda_graph"}),
    "triton.heuristics": frozenset({"values"}),
    "triton.Config": frozenset({"kwargs", "maxnreg"}) | _OPTIONS,
}  # fmt: skip
"""Keywords of what decorates a kernel; the others take functions, which would run on the host."""

_STATEMENTS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Return, ast.Expr, ast.Pass, ast.Assert,
)  # fmt: skip
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List)
_EXPRESSIONS = (
    *_ARITHMETIC, ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Slice, ast.JoinedStr,
    ast.FormattedValue,
)  # fmt: skip


def check_triton(file: CandidateFile, findings: Findings) -> None:
    """Look at the kernels that the original does not have, and at what their names and Triton's stand for."""
    kernels = [node for node in file.jitted.values() if node in file.changed]
    if not kernels:
        return
    names = ", ".join(node.name for node in kernels)
    why = f"Triton kernels, judged all the same; kernels in kernels/ build without Triton: {names}"
    findings.add("triton", kernels[0], why, severity="label")
    for node, name in _rebound(file):
        findings.add(
            RULE, node, f"{name} is given a second meaning: one of Triton, or of a kernel, stands for that only"
        )
    for kernel in kernels:
        _Kernel(file, kernel, findings).check()


def jitted_names(source: bytes, spec: TaskSpec) -> list[str]:
    """Return the names of the Triton kernels in a candidate's Python file; it can be read, as the guard has seen."""
    if b"triton" not in source:
        return []
    return list(CandidateFile(spec, ast.parse(source.decode()), ast.Module([], [])).jitted)


def is_jitted(file: CandidateFile, node: ast.AST) -> bool:
    """Whether a node is the definition of one of the file's Triton kernels."""
    return isinstance(node, ast.FunctionDef) and file.jitted.get(node.name) is node


def is_grid(file: CandidateFile, name: str, node: ast.AST) -> bool:
    """Whether a function is a grid of a kernel: from the kernel's constants and plain names, by arithmetic."""
    parameter, keys = _only_parameter(node), _constants_of(file.jitted[name]) | _OPTIONS
    match node:
        case ast.Lambda(body=returned) | ast.FunctionDef(body=[ast.Return(value=ast.expr() as returned)]) if parameter:
            return _is_arithmetic(file, returned, parameter, keys)
    return False


def _is_arithmetic(file: CandidateFile, node: ast.expr, parameter: str, keys: frozenset[str] | None) -> bool:
    """Whether an expression only computes with what a parameter holds; with ``keys``, with these, and with other names."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)) if name == parameter:
            return keys is None or key in keys
        case ast.Call(func=func, args=args, keywords=[]) if file.dotted(func) in _COUNTING or getattr(
            func, "id", ""
        ) in _COUNTING_BUILTINS - set(file.bound):
            return all(_is_arithmetic(file, each, parameter, keys) for each in args)
        case ast.Constant():
            return True
        case _ if isinstance(node, _ARITHMETIC):
            parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
            return all(_is_arithmetic(file, each, parameter, keys) for each in parts)
    inside = list(ast.walk(node))
    hidden = any(isinstance(each, ast.NamedExpr | ast.Lambda) for each in inside)
    return keys is not None and not hidden and parameter not in {getattr(each, "id", "") for each in inside}


def _only_parameter(node: ast.AST) -> str:
    """Return the name of a function's parameter if it has just one, without a default, and no decorator."""
    given = getattr(node, "args", None)
    if not isinstance(given, ast.arguments) or getattr(node, "decorator_list", []):
        return ""
    others = [*given.posonlyargs, *given.kwonlyargs, *given.defaults, *filter(None, (given.vararg, given.kwarg))]
    return given.args[0].arg if len(given.args) == 1 and not others else ""


def _constants_of(kernel: ast.FunctionDef) -> frozenset[str]:
    """Return the parameters that are constants of the compilation, which no tensor can be."""
    given = [*kernel.args.args, *kernel.args.kwonlyargs]
    return frozenset(each.arg for each in given if each.annotation and "constexpr" in ast.unparse(each.annotation))


def _rebound(file: CandidateFile) -> Iterator[tuple[ast.AST, str]]:
    """Yield the names of Triton's modules and of kernels wherever they get another meaning."""
    protected = {name for name, dotted in file.names.items() if dotted.split(".")[0] == "triton"} | set(file.jitted)
    meanings: dict[str, str] = {}
    for node in ast.walk(file.tree):
        for name, meaning in file.binds(node):
            if name in protected and meanings.setdefault(name, meaning) != meaning:
                yield node, name


def _constants(file: CandidateFile) -> frozenset[str]:
    """Return the names that a module-level statement gives a number, and nothing else anything."""
    found = set()
    for node in file.tree.body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and file.dotted(value.func) == "triton.language.constexpr" and value.args:
            value = value.args[0]
        if isinstance(node, ast.Assign | ast.AnnAssign) and value and _is_arithmetic(file, value, "", None):
            found |= {name for each in ast.walk(node) for name, _ in file.binds(each)}
    return frozenset(name for name in found if file.bound[name] == 1)


class _Kernel:
    """One kernel: its decorators and defaults are the host's, its body the device's."""

    def __init__(self, file: CandidateFile, node: ast.FunctionDef, findings: Findings) -> None:
        self.file = file
        self.node = node
        self.findings = findings
        self.locals = {name for each in ast.walk(node) for name, _ in file.binds(each)} - {node.name}
        self.constants = _constants(file)
        self.builtins = _BUILTINS - set(file.bound)

    def check(self) -> None:
        """Look at all of it."""
        if self.node.name.startswith("triton_"):
            self._refuse(self.node, "torch's compiler calls its own kernels triton_...; take another name")
        for decorator in self.node.decorator_list:
            self._check_decorator(decorator)
        arguments = self.node.args
        for default in filter(None, [*arguments.defaults, *arguments.kw_defaults]):
            if not self._is_literal(default, frozenset()):
                self._refuse(default, "a default of a kernel is a number or a text")
        packed = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *packed]
        for annotation in filter(None, [*(each.annotation for each in parameters), self.node.returns]):
            if not (isinstance(annotation, ast.Name | ast.Attribute) and self._is_known(annotation)):
                self._refuse(annotation, "a parameter of a kernel has a type of triton.language, or none")
        if getattr(self.node, "type_params", []):
            self._refuse(self.node, "a kernel has no type parameters")
        self._check_body(self.node.body)

    def _refuse(self, node: ast.AST, why: str) -> None:
        self.findings.add(RULE, node, why)

    # --- the host's part -------------------------------------------------------------------------------------------

    def _check_decorator(self, node: ast.expr) -> None:
        name = self.file.dotted(called(node))
        if name not in _SETTINGS or name == "triton.Config":
            self._refuse(node, "only triton.jit, autotune and heuristics may decorate a kernel")
        elif isinstance(node, ast.Call) and not self._is_set(node, name, frozenset()):
            self._refuse(node, f"{name} takes numbers, texts and triton.Config here; functions would run on the host")

    def _is_set(self, node: ast.Call, name: str, bound: frozenset[str]) -> bool:
        """Whether a decorator or a ``triton.Config`` is given only what it may be."""
        given = [*node.args[:2], *(each.value for each in node.keywords)]
        if len(node.args) > 2 or not {each.arg for each in node.keywords} <= _SETTINGS[name]:
            return False
        if name == "triton.heuristics":
            return all(self._is_heuristic(each) for each in given)
        return all(self._is_literal(each, bound) for each in given)

    def _is_heuristic(self, node: ast.expr) -> bool:
        """Whether it is a table of constants of the kernel, each computed from arguments by arithmetic alone."""
        if not isinstance(node, ast.Dict):
            return False
        known = _constants_of(self.node)
        keys = [each.value if isinstance(each, ast.Constant) else None for each in node.keys]
        return all(key in known for key in keys) and all(
            isinstance(each, ast.Lambda) and _is_arithmetic(self.file, each.body, _only_parameter(each), None)
            for each in node.values
        )

    def _is_literal(self, node: ast.expr | None, bound: frozenset[str]) -> bool:
        """Whether an expression is a constant, or a collection or a comprehension of constants and ``triton.Config``."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name in bound or name in self.constants
            case ast.Call(func=func):
                return self.file.dotted(func) == "triton.Config" and self._is_set(node, "triton.Config", bound)
            case ast.ListComp(elt=elt, generators=generators):
                parts = [each for one in generators for each in (one.iter, *one.ifs)]
                inner = bound | {
                    each.id for one in generators for each in ast.walk(one.target) if isinstance(each, ast.Name)
                }
                return all(self._is_literal(each, inner) for each in (elt, *parts))
            case ast.Dict():
                return all(self._is_literal(each, bound) for each in (*node.keys, *node.values))
            case _ if isinstance(node, _ARITHMETIC):
                parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
                return all(self._is_literal(each, bound) for each in parts)
        return False

    # --- the device's part -----------------------------------------------------------------------------------------

    def _check_body(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
                self._refuse(node, "not a statement of a kernel")
            elif isinstance(node, ast.expr) and not (isinstance(node, _EXPRESSIONS) and self._is_known(node)):
                self._refuse(
                    node, f"{ast.unparse(node)}: a kernel uses triton.language, kernels, its own names and numbers"
                )
            elif not (isinstance(node, ast.expr) and self._is_device(node)):
                self._check_body(ast.iter_child_nodes(node))

    def _is_known(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                known = name in {*self.locals, *self.file.jitted, *self.constants, *self.builtins}
                return known or self._is_device(node)
            case ast.Attribute(attr=name):
                return self._is_device(node) or (name in _ATTRIBUTES and isinstance(node.ctx, ast.Load))
            case ast.Call(func=ast.Name(id=name)):
                return name in {*self.file.jitted, *self.builtins} - self.locals or self._is_device(node.func)
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in _METHODS or self._is_device(node.func)
            case ast.Call():
                return False
        return True

    def _is_device(self, node: ast.expr) -> bool:
        """Whether an expression is a name of ``triton.language`` or a count of Triton's."""
        dotted = self.file.dotted(node)
        return bool(_DEVICE.fullmatch(dotted)) or dotted in _COUNTING
