"""Rules on a candidate's Python file, and on the C++ that it holds as text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sandbox.guard.candidate import CandidateFile
from sandbox.guard.findings import Findings, Source
from sandbox.guard.flow import check_flow
from sandbox.guard.hygiene import check_hygiene
from sandbox.guard.kernel_source import check_kernel_source
from sandbox.guard.triton_source import check_triton
from sandbox.task import TaskSpec
from sandbox.verdict import Finding

_LARGEST_FILE = 1024**2


def check_python(text: str, original: str, spec: TaskSpec) -> list[Finding]:
    """Look at a candidate's Python file beside the original file."""
    findings = Findings(Source(spec.candidate_file, text))
    try:
        _check(text, original, spec, findings)
    except SyntaxError as error:
        findings.add("syntax", error.lineno or 0, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        findings.add("syntax", 0, f"this file cannot be read as Python: {error or 'it is nested too deeply'}")
    return findings.report()


def _check(text: str, original: str, spec: TaskSpec, findings: Findings) -> None:
    if len(text) > _LARGEST_FILE:
        raise ValueError("it is larger than 1 MB")
    file = CandidateFile(spec, ast.parse(text), ast.parse(original))
    defined = [node for node in file.tree.body if isinstance(node, ast.ClassDef) and node.name == spec.candidate_class]
    if len(defined) != 1:
        findings.add(
            "missing-class", 0, f"{spec.candidate_class} must be defined once, by a class statement of the module"
        )
        return
    check_hygiene(file, findings)
    check_triton(file, findings)
    check_flow(file, findings)
    for node, source in _embedded(file.tree):
        check_kernel_source(source, findings, cuda=True, torch_allowed=True, first_line=getattr(node, "lineno", 1))


def _embedded(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the strings of a Python file that are C++ to be built."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and any(sign in text for sign in ("#include", "__global__", "torch::Tensor")):
            yield node, text
