"""Rules on the candidate's new Python code that look at names only: what it imports, reaches for and changes."""

from __future__ import annotations

import ast

from sandbox.guard.candidate import CandidateFile, called
from sandbox.guard.findings import Findings
from sandbox.guard.names import (
    ALLOWED_IMPORTS,
    FORBIDDEN_ATTRIBUTES,
    FORBIDDEN_BUILTINS,
    HOOKS,
    MAGIC_METHODS,
    SUBCLASS_MAKERS,
    TRITON_IMPORTS,
    denied,
    forbidden_module,
)
from sandbox.guard.triton_source import RULE, is_jitted

_TENSOR_CLASSES = frozenset({"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})


def check_hygiene(file: CandidateFile, findings: Findings) -> None:
    """Look at every statement that the original does not have."""
    visitor = _Hygiene(file, findings)
    for node in file.changed:
        visitor.visit(node)
    for changed in file.changed_classes:
        visitor.check_class(changed)


class _Hygiene(ast.NodeVisitor):
    def __init__(self, file: CandidateFile, findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.defined = {node.name for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef)}
        self.launched: set[ast.expr] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not self._may_import(alias.name):
                self._refuse_import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            dotted = self.file.imported(node, alias.name)
            if alias.name == "*":
                self.findings.add("import", node, "name what is imported; a star hides it")
            elif dotted == "kernels" or dotted.startswith("kernels.") or dotted in TRITON_IMPORTS:
                continue
            elif f"{module}.{alias.name}" not in self.file.original_imports and not self._may_import(module):
                self._refuse_import(node, module)
            else:
                self._check_dotted(node, dotted)

    def _may_import(self, module: str) -> bool:
        known = module in ALLOWED_IMPORTS or module in self.file.original_imports
        return known or self.file.is_kernels(module)

    def _refuse_import(self, node: ast.AST, module: str) -> None:
        self.findings.add(
            "import",
            node,
            f"{module} is neither imported by the original nor needed to call a kernel ({self.file.spec.kernels_import} ...)",
        )

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.file.jitted and node not in self.launched:
            self.findings.add(
                RULE, node, f"{node.id} is only launched, as {node.id}[grid](...); its body is the device's"
            )
        if self._check_dotted(node, self.file.dotted(node)):
            return
        rule = FORBIDDEN_BUILTINS.get(node.id)
        shadowed = node.id in self.file.names or node.id in self.defined
        if rule and not shadowed and isinstance(node.ctx, ast.Load):
            self.findings.add(rule, node, f"{node.id} has no use in calling a kernel")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = node.attr
        if name == "__name__" and isinstance(node.value, ast.Attribute) and node.value.attr == "__class__":
            self.visit(node.value.value)
            return
        if name in FORBIDDEN_ATTRIBUTES:
            self.findings.add("introspection", node, f"{name} reaches into how Python or torch works")
        if name in SUBCLASS_MAKERS:
            self.findings.add("tensor-subclass", node, "a candidate returns plain tensors")
        if name in HOOKS:
            self.findings.add("hook", node, "hooks run code where nobody sees it; call it in forward")
        if not self._check_dotted(node, self.file.dotted(node)):
            self.visit(node.value)

    def _check_dotted(self, node: ast.AST, dotted: str) -> bool:
        """Look a dotted name up; returns whether it is known to be something from outside."""
        if forbidden_module(dotted):
            self.findings.add("forbidden-module", node, f"{dotted} has no use in calling a kernel")
        found = denied(dotted)
        if found:
            self.findings.add(found.rule, node, f"{dotted}: {found.why}", severity=found.severity)
        return bool(dotted)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(node.func, ast.Subscript):
            self.launched.add(node.func.value)
        if name == "getattr" and len(node.args) > 1:
            self._check_getattr(node)
        if name == "setattr" and node.args and not _is_self(node.args[0]):
            self.findings.add("patch", node, "only attributes of self may be set")
        self.generic_visit(node)

    def _check_getattr(self, node: ast.Call) -> None:
        attribute = node.args[1]
        if not (isinstance(attribute, ast.Constant) and isinstance(attribute.value, str)):
            self.findings.add(
                "computed-attribute", node, "write the attribute out; a computed name hides what is called"
            )
            return
        written = ast.copy_location(ast.Attribute(node.args[0], attribute.value, ast.Load()), node)
        self.visit_Attribute(written)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._check_target(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._check_target(node.target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._check_target(node.target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._check_target(target)

    def _check_target(self, target: ast.expr) -> None:
        """Refuse writing into anything from outside, and into classes and functions of the file."""
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._check_target(each)
            return
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return
        root: ast.expr = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        everyones = {*self.file.names, *self.file.classes, *self.defined}
        if isinstance(root, ast.Call) or (isinstance(root, ast.Name) and root.id in everyones):
            self.findings.add(
                "patch", target, f"{ast.unparse(target)} belongs to everyone; a candidate changes only its own"
            )

    def visit_Try(self, node: ast.Try) -> None:
        check_handlers(node, self.findings)
        self.generic_visit(node)

    def visit_TryStar(self, node: ast.TryStar) -> None:
        check_handlers(node, self.findings)
        self.generic_visit(node)

    def check_class(self, node: ast.ClassDef) -> None:
        """Look at what a class derives from, and at what is done to it."""
        for decorator in node.decorator_list:
            if self.file.dotted(called(decorator)) != "dataclasses.dataclass":
                self.findings.add("decorator", decorator, "hides what the class is; write it into the class")
        for base in node.bases:
            if self.file.dotted(base) in _TENSOR_CLASSES:
                self.findings.add("tensor-subclass", node, "a candidate returns plain tensors")
        for keyword in node.keywords:
            self.findings.add("magic-method", node, f"a class with {keyword.arg or '**'}= hides what it does")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if is_jitted(self.file, node):
            return
        if node.name in MAGIC_METHODS:
            self.findings.add("magic-method", node, f"{node.name} makes code run where nobody sees it")
        if node.name in {"__torch_function__", "__torch_dispatch__"}:
            self.findings.add("tensor-subclass", node, "a candidate returns plain tensors")
        self.generic_visit(node)


def check_handlers(node: ast.Try | ast.TryStar, findings: Findings) -> None:
    """Refuse a handler that goes on after an error: a kernel that fails must be seen to fail."""
    for handler in node.handlers:
        if not (handler.body and isinstance(handler.body[-1], ast.Raise)):
            findings.add(
                "swallowed-error",
                handler,
                "a kernel that fails must be seen to fail; the original code takes over by itself where the change lands",
            )


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
