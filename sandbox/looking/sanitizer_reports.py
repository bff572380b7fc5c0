"""What sanitizers print, reduced to findings: what is wrong, in which kernel and line, by which thread first, how often.

The forms are those of compute-sanitizer 2022 to 2026 and of the sanitizers of g++. All of it passed through the candidate's
process, so it is read as text that may say anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from sandbox.build.resources import short_name

MOST_FINDINGS = 20
_LONGEST = 200
_PREFIX = re.compile(r"^=========\s?", re.MULTILINE)
_HEADS = re.compile(
    r"^(Invalid __|Misaligned |Uninitialized __|Barrier error|(Error|Warning): (Race|Potential)|Host API memory access error"
    r"|Potential .* race|Unused memory|Internal Sanitizer Error|Leaked )"
)
_AT = re.compile(r"\bat (?P<kernel>[^0\s].*?)\+0x[0-9a-f]+(?: in (?P<file>\S+?):(?P<line>\d+))?(?=$|\s)")
_AT_OLD = re.compile(r"\bat 0x[0-9a-f]+ in (?:(?P<file>[^\s:]+):(?P<line>\d+):)?(?P<kernel>\S.*)")
_IN = re.compile(r"^\s+in (?P<file>\S+?):(?P<line>\d+)$")
_THREAD = re.compile(r"by (thread \([\d,]+\) in block \([\d,]+\))")
_HAZARDS = re.compile(r"\[(\d+) hazards?\]")
_ENDED = re.compile(r"^========= (?:RACECHECK|ERROR) SUMMARY: ", re.MULTILINE)
_NOT_WRITTEN = "part of an output was never written"

_ASAN = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_ASAN_ACCESS = re.compile(r"^(?P<way>READ|WRITE) of size (?P<size>\d+).*? thread (?P<thread>T\d+)", re.MULTILINE)
_ASAN_FRAME = re.compile(
    r"^\s+#\d+ 0x[0-9a-f]+ in (?P<kernel>.+?) (?P<file>\S*kernels/\S+?):(?P<line>\d+)", re.MULTILINE
)
_ASAN_DISTANCE = re.compile(r"is located (?P<distance>.+?-byte region)")
_UBSAN = re.compile(
    r"^(?P<file>\S*kernels/\S+?):(?P<line>\d+)(?::\d+)?: runtime error: (?P<kind>.+)$(?P<frames>(?:\n\s+#.*)*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class SanitizerFinding:
    """One thing a sanitizer found, however often it came.

    Attributes:
        tool: Which one found it.
        kind: What it is, in the tool's words.
        kernel: The kernel or function, without parameters; empty for the host.
        where: ``kernels/NAME:LINE``, and a second place behind ``and`` for a race; empty if the tool does not say.
        thread: The first thread and block it was seen in, or empty.
        count: How often it was told.
    """

    tool: str
    kind: str
    kernel: str
    where: str
    thread: str
    count: int


def read_compute_sanitizer(tool: str, text: str, place: Callable[[str, str], str]) -> list[SanitizerFinding]:
    """Return what a tool of compute-sanitizer found.

    Args:
        tool: Its name.
        text: What it wrote to its log file.
        place: Returns ``kernels/NAME:LINE`` for a file's name and a line, or an empty text where the file is nobody's.
    """
    return _together(_finding(tool, block, place) for block in _blocks(text))


def finished(text: str) -> bool:
    """Whether compute-sanitizer came to its summary."""
    return _ENDED.search(text) is not None


def read_host_sanitizers(text: str) -> list[SanitizerFinding]:
    """Return what AddressSanitizer and UndefinedBehaviorSanitizer printed about the candidate's kernels."""
    found = [_undefined(match) for match in _UBSAN.finditer(text)]
    start = _ASAN.search(text)
    if start is not None:
        found.append(_address(start["kind"], text[start.start() :]))
    return _together(found)


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of each report, its headline first."""
    block: list[str] = []
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        said = _PREFIX.sub("", line).rstrip()
        if _HEADS.match(said.strip()):
            if block:
                yield block
            block = [said.strip()]
        elif not said.strip() or "SUMMARY:" in said:
            if block:
                yield block
            block = []
        elif block and "Host Frame" not in said and "host backtrace" not in said:
            block.append(said)
    if block:
        yield block


def _finding(tool: str, block: list[str], place: Callable[[str, str], str]) -> SanitizerFinding:
    places, kernels = [], []
    for line in block:
        at, inside = _AT.search(line) or _AT_OLD.search(line), _IN.match(line)
        if at is not None:
            kernels.append(short_name(at["kernel"].strip()))
        if (spot := at or inside) is not None and spot["file"]:
            places.append(place(PurePath(spot["file"]).name, spot["line"]))
    thread = next((found[1] for line in block if (found := _THREAD.search(line))), "")
    hazards = sum(int(number) for line in block for number in _HAZARDS.findall(line))
    where = " and ".join(dict.fromkeys(filter(None, places)))
    kernel = kernels[0] if kernels else ""
    return SanitizerFinding(tool, _kind(block), kernel, where, thread, hazards or 1)


def _kind(block: list[str]) -> str:
    """Return a report's headline in its own words, without what differs from one to the next."""
    head = block[0]
    if head.startswith("Host API memory access error"):
        return (
            _NOT_WRITTEN if any("Uninitialized" in line for line in block) else "a copy reaches outside an allocation"
        )
    if "Race reported" in head:
        ways = re.findall(r"(Write|Read|Atomic\w*) access", " ".join(block))
        return f"race in shared memory between a {' and a '.join(dict.fromkeys(ways)).lower()}"
    distance = next((found[1] for line in block if (found := re.search(r"and is ([\d,]+ bytes? \w+)", line))), "")
    text = head.removeprefix("Error: ").rstrip(".")
    return f"{text}, {distance} the nearest allocation" if distance else text


def _undefined(match: re.Match[str]) -> SanitizerFinding:
    function = re.search(r"#0 0x[0-9a-f]+ in (.+?) \S+:\d+", match["frames"])
    where = f"{_relative(match['file'])}:{match['line']}"
    return SanitizerFinding(
        "undefined", match["kind"][:_LONGEST], _function(function[1]) if function else "", where, "", 1
    )


def _address(kind: str, text: str) -> SanitizerFinding:
    access, frame, distance = _ASAN_ACCESS.search(text), _ASAN_FRAME.search(text), _ASAN_DISTANCE.search(text)
    said = [kind]
    if access:
        said.append(f"{access['way'].lower()} of {access['size']} bytes")
    if distance:
        said.append(distance["distance"])
    where = f"{_relative(frame['file'])}:{frame['line']}" if frame else ""
    thread = f"thread {access['thread']}" if access else ""
    kernel = _function(frame["kernel"]) if frame else ""
    return SanitizerFinding("address", ", ".join(said)[:_LONGEST], kernel, where, thread, 1)


def _function(name: str) -> str:
    """Return a function's own name where OpenMP or the compiler cut a piece out of it (``k._omp_fn.0``)."""
    return short_name(re.sub(r"\.(_omp_fn|part|constprop|isra|cold).*", "", name))


def _relative(file: str) -> str:
    return file[file.rindex("kernels/") :]


def _together(findings: Iterator[SanitizerFinding] | list[SanitizerFinding]) -> list[SanitizerFinding]:
    """Put findings that differ only by thread and distance together, the most frequent first."""
    grouped: dict[tuple[str, str, str], SanitizerFinding] = {}
    for finding in findings:
        key = (re.sub(r"[\d,]+ bytes? \w+", "", finding.kind), finding.kernel, finding.where)
        known = grouped.get(key)
        grouped[key] = replace(known, count=known.count + finding.count) if known else finding
    return sorted(grouped.values(), key=lambda finding: -finding.count)[:MOST_FINDINGS]
