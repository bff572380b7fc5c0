"""The static guard: reads what a candidate wrote, and says what must not be there, before anything of it runs.

It sees what is written plainly. What hides (preprocessor tricks, work after the return, results kept in device memory) is
for the guards that watch the candidate run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from sandbox.build.sources import FOLDER, HEADER_SUFFIXES, SOURCE_SUFFIXES
from sandbox.guard.candidate import CandidateFile
from sandbox.guard.findings import Findings, Source, conclude
from sandbox.guard.flow import check_flow
from sandbox.guard.hygiene import check_hygiene
from sandbox.guard.kernel_source import check_kernel_source
from sandbox.guard.names import POLICY_RULES
from sandbox.task import TaskSpec
from sandbox.verdict import Finding, GuardReport

__all__ = ["check_source"]

_LARGEST_FILE = 1024**2


def check_source(candidate: Path, spec: TaskSpec) -> GuardReport:
    """Look at a candidate's Python file and kernel files.

    Args:
        candidate: The workspace: it holds ``spec.candidate_file`` and ``kernels/``.
        spec: The task; its policy decides whether torch may compute.

    Returns:
        Findings with file, line, code and reason; those that reject come first.
    """
    found = [*_check_python(candidate, spec), *_check_kernels(candidate / FOLDER)]
    if spec.policy == "library-ok":
        found = [finding for finding in found if finding.rule not in POLICY_RULES]
    return conclude(found)


def _check_python(candidate: Path, spec: TaskSpec) -> list[Finding]:
    path = candidate / spec.candidate_file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [Finding("missing-file", "reject", f"{spec.candidate_file} cannot be read: {error}")]
    findings = Findings(Source(spec.candidate_file, text))
    try:
        _check_text(text, spec, findings)
    except SyntaxError as error:
        findings.add("syntax", error.lineno or 0, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        findings.add("syntax", 0, f"this file cannot be read as Python: {error or 'it is nested too deeply'}")
    return findings.report()


def _check_text(text: str, spec: TaskSpec, findings: Findings) -> None:
    if len(text) > _LARGEST_FILE:
        raise ValueError("it is larger than 1 MB")
    file = CandidateFile(spec, ast.parse(text), ast.parse(spec.path.read_text(encoding="utf-8")))
    defined = [node for node in file.tree.body if isinstance(node, ast.ClassDef) and node.name == spec.candidate_class]
    if len(defined) != 1:
        findings.add(
            "missing-class", 0, f"{spec.candidate_class} must be defined once, by a class statement of the module"
        )
        return
    check_hygiene(file, findings)
    check_flow(file, findings)
    for node, source in _embedded(file.tree):
        check_kernel_source(source, findings, cuda=True, torch_allowed=True, first_line=getattr(node, "lineno", 1))


def _embedded(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the strings of a Python file that are C++ to be built."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and any(sign in text for sign in ("#include", "__global__", "torch::Tensor")):
            yield node, text


def _check_kernels(folder: Path) -> list[Finding]:
    found: list[Finding] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in HEADER_SUFFIXES | SOURCE_SUFFIXES and path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            findings = Findings(Source(f"{FOLDER}/{path.relative_to(folder).as_posix()}", text))
            check_kernel_source(text, findings, cuda=path.suffix != ".cpp")
            found += findings.report()
    return found
