"""A candidate's Python file beside the original: what it defines, what it imports, and what of it is new."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sandbox.task import TaskSpec

FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class CandidateFile:
    """The parsed file of a candidate, and the original it is compared with."""

    spec: TaskSpec
    tree: ast.Module
    original: ast.Module

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Every class of the file, by name."""
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}

    @cached_property
    def names(self) -> dict[str, str]:
        """Dotted names that the file's own names stand for, by imports and by plain assignment (``F = torch.nn.functional``)."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    names[alias.asname or alias.name] = self.imported(node, alias.name)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                dotted = resolve(node.value, names)
                if dotted and dotted.startswith("torch"):
                    names.setdefault(node.targets[0].id, dotted)
        return names

    @cached_property
    def jitted(self) -> dict[str, ast.FunctionDef]:
        """The file's Triton kernels by name: functions of the module that ``triton.jit`` takes before any other decorator."""
        functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
        return {node.name: node for node in functions if self.dotted(called(node.decorator_list[-1])) == "triton.jit"}

    @cached_property
    def bound(self) -> Counter[str]:
        """How often each name of the file is bound, in whatever scope."""
        return Counter(name for node in ast.walk(self.tree) for name, _ in self.binds(node))

    def binds(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield the names that a node binds, each with what tells this meaning from another."""
        match node:
            case ast.Import():
                for alias in node.names:
                    first = alias.name.split(".")[0]
                    yield alias.asname or first, alias.name if alias.asname else first
            case ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name, self.imported(node, alias.name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name, str(id(node))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, str(id(node))
            case (
                ast.ExceptHandler(name=str() as name)
                | ast.MatchAs(name=str() as name)
                | ast.MatchStar(name=str() as name)
            ):
                yield name, str(id(node))
            case ast.MatchMapping(rest=str() as name):
                yield name, str(id(node))

    def imported(self, node: ast.ImportFrom, name: str) -> str:
        """Return the dotted name that ``from ... import name`` gives; the bound kernels are ``kernels.NAME``."""
        module = "." * node.level + (node.module or "")
        if self.is_kernels(module):
            return f"kernels.{name}"
        if self.is_kernels(f"{module}{name}" if module.endswith(".") else f"{module}.{name}"):
            return "kernels"
        return f"{module}.{name}"

    def is_kernels(self, module: str) -> bool:
        """Whether a module, as an import statement writes it, is the one of the bound kernels."""
        return module == self.spec.kernels_import.split()[1]

    def dotted(self, node: ast.expr) -> str:
        """Return the dotted name that an expression stands for, or an empty text."""
        return resolve(node, self.names)

    @cached_property
    def original_imports(self) -> frozenset[str]:
        """What the original imports, each as ``module`` or ``module.name``, dots of relative imports included."""
        found = set()
        for node in ast.walk(self.original):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
        return frozenset(found)

    @cached_property
    def original_decorators(self) -> frozenset[str]:
        """The decorators that the original uses, as dumps of their expressions."""
        found = (each for node in ast.walk(self.original) for each in getattr(node, "decorator_list", []))
        return frozenset(map(ast.dump, found))

    @cached_property
    def changed(self) -> tuple[ast.stmt, ...]:
        """The statements that the original does not have in the same place: of the module, or of a class of that name."""
        return tuple(_changed(self.tree.body, self.original.body))

    @cached_property
    def changed_classes(self) -> tuple[ast.ClassDef, ...]:
        """Classes that are new, or whose bases or decorators are."""
        before = {node.name: _header(node) for node in ast.walk(self.original) if isinstance(node, ast.ClassDef)}
        return tuple(node for name, node in self.classes.items() if before.get(name) != _header(node))

    def forward_is_plain(self, name: str) -> bool:
        """Whether the original's author tells that a parameter of forward is no tensor: by annotation, default or input."""
        node = next((each for each in ast.walk(self.original) if _is_class(each, self.spec.class_name)), None)
        forward = next((each for each in getattr(node, "body", []) if getattr(each, "name", "") == "forward"), None)
        if not isinstance(forward, FunctionDef):
            return False
        parameters = [*forward.args.posonlyargs, *forward.args.args][1:]
        plain = {each.arg for each in [*parameters, *forward.args.kwonlyargs] if _is_plain_annotation(each.annotation)}
        defaults = zip(reversed(parameters), reversed(forward.args.defaults), strict=False)
        plain |= {each.arg for each, default in defaults if _is_number(default)}
        kw_defaults = zip(forward.args.kwonlyargs, forward.args.kw_defaults, strict=True)
        plain |= {each.arg for each, default in kw_defaults if default is not None and _is_number(default)}
        call = _parse_call(self.spec.inputs)
        if call is not None:
            given = zip(parameters, call.args, strict=False)
            plain |= {each.arg for each, argument in given if _is_number(argument)}
            plain |= {each.arg for each in call.keywords if each.arg and _is_number(each.value)}
        return name in plain


def called(decorator: ast.expr) -> ast.expr:
    """Return the decorator itself, without what it is given."""
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def resolve(node: ast.expr, names: dict[str, str]) -> str:
    """Return the dotted name that an expression stands for given what names stand for, or an empty text."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = resolve(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _changed(new: list[ast.stmt], old: list[ast.stmt]) -> Iterator[ast.stmt]:
    known = {ast.dump(node) for node in old}
    classes = {node.name: node for node in old if isinstance(node, ast.ClassDef)}
    for node in new:
        if ast.dump(node) in known:
            continue
        if isinstance(node, ast.ClassDef) and node.name in classes:
            yield from _changed(node.body, classes[node.name].body)
        else:
            yield node


def _header(node: ast.ClassDef) -> str:
    return " ".join(map(ast.dump, [*node.bases, *node.decorator_list, *(keyword.value for keyword in node.keywords)]))


def _is_class(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name


def _is_plain_annotation(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    words = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return bool(words) and words <= {"int", "float", "bool", "str", "Optional", "None"}


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is not None


def _parse_call(arguments: str) -> ast.Call | None:
    try:
        parsed = ast.parse(f"f({arguments})", mode="eval").body
    except SyntaxError:
        return None
    return parsed if isinstance(parsed, ast.Call) else None
