"""The static guard: reads what a candidate wrote, and says what must not be there, before anything of it runs.

Of kernel files it reads what the preprocessor left of them and what their objects ask for; text alone can hide a name. Work
after the return and results kept in device memory are for the guards that watch the candidate run.
"""

from __future__ import annotations

from pathlib import Path

from sandbox.build.inspection import Inspection
from sandbox.build.sources import FOLDER, HEADER_SUFFIXES, SOURCE_SUFFIXES
from sandbox.guard.findings import Findings, Source, conclude
from sandbox.guard.kernel_source import check_kernel_source, check_written, defined_names
from sandbox.guard.names import POLICY_RULES
from sandbox.guard.python_source import check_python
from sandbox.guard.symbols import check_symbols, unsaid
from sandbox.task import TaskSpec
from sandbox.verdict import Finding, GuardReport

__all__ = ["check_source"]


def check_source(candidate: Path, spec: TaskSpec, inspection: Inspection | None = None) -> GuardReport:
    """Look at a candidate's Python file and kernel files.

    Args:
        candidate: The workspace: it holds ``spec.candidate_file`` and ``kernels/``.
        spec: The task; its policy decides whether torch may compute.
        inspection: What compiling the kernel files showed of them, where they were compiled.

    Returns:
        Findings with file, line, code and reason; those that reject come first.
    """
    seen = inspection or Inspection()
    found = [*_check_python(candidate, spec), *_check_kernels(candidate / FOLDER, seen)]
    found += unsaid(check_symbols(seen), found)
    if spec.policy == "library-ok":
        found = [finding for finding in found if finding.rule not in POLICY_RULES]
    return conclude(found)


def _check_python(candidate: Path, spec: TaskSpec) -> list[Finding]:
    path = candidate / spec.candidate_file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [Finding("missing-file", "reject", f"{spec.candidate_file} cannot be read: {error}")]
    return check_python(text, spec.path.read_text(encoding="utf-8"), spec)


def _check_kernels(folder: Path, seen: Inspection) -> list[Finding]:
    """Look at every kernel file: at what the preprocessor left of it, or at its text where it was not compiled."""
    files = {f"{FOLDER}/{path.relative_to(folder).as_posix()}": path for path in _kernel_files(folder)}
    texts = {file: path.read_text(encoding="utf-8", errors="replace") for file, path in files.items()}
    left = {file: [each.text for each in seen.texts if each.file == file] for file in files}
    cuda = {file: path.suffix != ".cpp" for file, path in files.items()}
    own = {
        name for file in files for text in left[file] or [texts[file]] for name in defined_names(text, cuda=cuda[file])
    }
    found: list[Finding] = []
    for file, text in texts.items():
        findings = Findings(Source(file, text))
        for each in left[file] or [text]:
            check_kernel_source(each, findings, cuda=cuda[file], own=own)
        check_written(text, findings)
        found += findings.report()
    return found


def _kernel_files(folder: Path) -> list[Path]:
    kinds = HEADER_SUFFIXES | SOURCE_SUFFIXES
    return [
        path for path in sorted(folder.rglob("*")) if path.suffix in kinds and path.is_file() and not path.is_symlink()
    ]
