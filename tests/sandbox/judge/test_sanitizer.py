"""The sanitizers of the CPU on real kernels, through the judge: what they find, with its line, and what they leave alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.judge import Judge
from sandbox.looking.sanitizer import sanitize
from sandbox.looking.solo import read_left
from tests.scale_task import Write, kernel

READS_PAST_THE_END = "volatile float past = x[n * d]; (void)past;"
OVERFLOWS = "int steps = 2147483647; steps += static_cast<int>(n); out[0] += 0.0f * steps;"


def line_of(source: str, part: str) -> int:
    return source[: source.index(part)].count("\n") + 1


def test_nothing_is_found_in_a_right_kernel(judge: Judge, candidate: Write) -> None:
    report = judge.study(candidate(), sanitize)
    assert report.ok, report
    assert not report.findings
    assert [tool.problem for tool in report.tools] == [""]


@pytest.mark.parametrize(
    ("spoiled", "tool", "kind"),
    [
        (kernel(before=READS_PAST_THE_END), "address", "heap-buffer-overflow, read of 4 bytes"),
        (kernel(after=OVERFLOWS), "undefined", "signed integer overflow"),
    ],
    ids=["a read past the end", "an overflow"],
)
def test_a_fault_is_found_with_its_line(judge: Judge, candidate: Write, spoiled: str, tool: str, kind: str) -> None:
    report = judge.study(candidate(spoiled), sanitize)
    assert report.ok is False
    (finding,) = report.findings
    assert (finding.tool, finding.kernel) == (tool, "scale_add")
    assert kind in finding.kind
    line = line_of(spoiled, READS_PAST_THE_END if tool == "address" else OVERFLOWS)
    assert finding.where == f"kernels/scale_add.cpp:{line}"


def test_what_cannot_run_is_no_finding(judge: Judge, candidate: Write) -> None:
    report = judge.study(candidate(kernel(before="return 7;")), sanitize)
    assert report.ok is None
    assert "scale_add" in report.tools[0].problem


def test_a_kernel_that_hangs_is_told_as_that(judge: Judge, candidate: Write) -> None:
    spoiled = kernel(before="for (volatile bool on = true; on;) {}")
    report = judge.study(candidate(spoiled), lambda study: sanitize(study, seconds=4))
    assert report.ok is None
    assert report.tools[0].problem == "it did not finish within 4 s"


def test_a_link_that_a_cell_left_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "secret").write_text("secret")
    (folder / "link").symlink_to(folder / "secret")
    os.mkfifo(folder / "pipe")
    assert read_left(folder / "secret", 100) == b"secret"
    assert read_left(folder / "link", 100) == b""
    assert read_left(folder / "pipe", 100) == b""
    assert read_left(folder / "nothing", 100) == b""
