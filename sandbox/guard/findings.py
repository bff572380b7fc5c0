"""What the static guard found, each with the place and the code that a person can look at."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from sandbox.verdict import Finding, GuardReport, Severity

MOST = 40
"""Findings that are reported."""

_SHOWN = 100


@dataclass(frozen=True)
class Source:
    """A text and where it stands, relative to the workspace."""

    file: str
    text: str

    def line(self, number: int) -> str:
        """Return one line, shortened for showing."""
        lines = self.text.splitlines()
        shown = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"


@dataclass
class Findings:
    """Findings of one source, in the order of their lines, each place once for each rule."""

    source: Source
    found: dict[tuple[str, int], tuple[Severity, str]] = field(default_factory=dict)

    def add(self, rule: str, where: ast.AST | int, why: str, *, severity: Severity = "reject") -> None:
        """Note that a rule applies at a node or a line."""
        line = where if isinstance(where, int) else getattr(where, "lineno", 0)
        self.found.setdefault((rule, line), (severity, why))

    def report(self) -> list[Finding]:
        """Return the findings, each with file, line, code and reason."""
        findings = []
        for (rule, line), (severity, why) in sorted(self.found.items(), key=lambda item: item[0][1]):
            code = self.source.line(line)
            place = f"{self.source.file}:{line}: `{code}`: " if code else f"{self.source.file}: "
            findings.append(Finding(rule, severity, place + why))
        return findings


def conclude(findings: Iterable[Finding]) -> GuardReport:
    """Make a report: rejections first, ``ok`` when there is none."""
    ordered = sorted(findings, key=lambda finding: finding.severity != "reject")
    return GuardReport(not any(finding.severity == "reject" for finding in ordered), tuple(ordered[:MOST]))


def contradicted(findings: Iterable[Finding]) -> list[Finding]:
    """Return what follows from findings together: a proof by capture means nothing for a call that looks for captures."""
    rules = {finding.rule: finding for finding in findings}
    if not {"joined-streams", "capture-aware"} <= rules.keys():
        return []
    asked, shown = rules["capture-aware"].evidence, rules["joined-streams"].evidence
    why = f"{shown}; but the candidate asks whether it is captured, and may join streams only then ({asked})"
    return [Finding("unordered-stream", "reject", why)]
