"""What the assembler says, or leaves to be seen in its figures, that costs speed: warnings, each with what it means.

None of it is an error, and all of it is easily overlooked: a kernel whose registers spill, or whose matrix products run one
after the other, computes the right answer slowly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandbox.build.resources import short_name
from sandbox.build.text import line_of, without_comments
from sandbox.verdict import Diagnostic

LEAST_STACK = 32
"""Bytes of local memory below which nothing is said: arguments of ``printf`` take some."""

_MOST_REGISTERS = 255
_NAMED = 3
_LONGEST_NAME = 80
_NOTE = re.compile(r"ptxas (?:\S+, line \d+; )?(?P<kind>info|warning) *: (?:\((?P<code>C\d{4,})\) )?(?P<text>.*)")
_FUNCTION = re.compile(r"(?: in)?(?: the)? function '(?P<name>.*)'$| for entry (?P<entry>.+?)(?= is out of range)")
_LINE = re.compile(r" in around line \d+")
_PROPERTIES = re.compile(r"ptxas info +: Function properties for (.+)")
_MEMORY = re.compile(r" +(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info +: Used (\d+) registers")
_UNROLL = "index arrays only with what is known when compiling (unroll the loop around them)"
_MEANINGS = (
    ("insufficient register resources", "use smaller tiles, or more warps for a tile"),
    ("function boundary", "inline what is called between the fence and the wait (__forceinline__)"),
    ("Extern calls", "inline what is called between the fence and the wait (__forceinline__)"),
    (
        "non wgmma instructions",
        "between the fence and the wait, leave the accumulators and the operands in registers alone",
    ),
    ("ill formed pipeline stage", "issue fence, products, commit and wait in one straight line"),
    ("divergent path", "keep fence and wait where all threads of the warpgroup pass"),
    (
        "is injected",
        "registers of a product that is still running are used there; wait for it yourself, as late as possible",
    ),
    ("'setmaxnreg' ignored; unable", "state the block's size and the blocks a multiprocessor: __launch_bounds__"),
    ("'setmaxnreg' ignored", "every warp keeps the same number of registers"),
    (
        ".minnctapersm will be ignored",
        "__launch_bounds__ asks for more blocks on a multiprocessor than its threads allow",
    ),
    ("reduced performance", "use the form it names"),
)


@dataclass(frozen=True)
class _Use:
    """A device function's registers (None for one that is called, not launched), local memory and spills, in bytes."""

    name: str
    registers: int | None
    stack: int
    spilled: int


def from_assembler(log: str, file: str, source: str) -> list[Diagnostic]:
    """Return what costs speed in one compiled file, each thing once, with the kernels it concerns.

    Args:
        log: What nvcc printed, symbol names demangled.
        file: The file, relative to the workspace.
        source: Its text, in which the kernels are found again.
    """
    code = without_comments(source)
    found: dict[str, list[str]] = {}
    for text, name in (*_notes(log), *_figures(log)):
        names = found.setdefault(text, [])
        if name and name not in names:
            names.append(name)
    return [
        Diagnostic(file, _line(names, code), f"performance: {_listed(names)}{text}.") for text, names in found.items()
    ]


def _notes(log: str) -> Iterator[tuple[str, str]]:
    """Yield what the assembler says itself: what it means for speed, and the function it says it of."""
    for line in log.splitlines():
        note = _NOTE.match(line)
        if not note or not (note["code"] or note["kind"] == "warning" or note["text"].startswith("Advisory")):
            continue
        named = _FUNCTION.search(note["text"])
        name = (named["name"] or named["entry"]) if named else ""
        text = note["text"] if not named else note["text"].replace(named[0], "")
        text = _LINE.sub("", text).removeprefix("Potential Performance Loss: ").rstrip(" .")
        meaning = next((each for words, each in _MEANINGS if words in text), "")
        yield " ".join(f"{text}{f': {meaning}' if meaning else ''}{_code(note['code'])}".split()), short_name(name)


def _figures(log: str) -> Iterator[tuple[str, str]]:
    """Yield what the figures of a function say: spilled registers, arrays in local memory."""
    for use in _uses(log):
        if use.spilled:
            yield f"spills {use.spilled} bytes of registers to local memory; {_remedy(use.registers)}", use.name
        elif use.stack >= LEAST_STACK:
            yield f"keeps {use.stack} bytes a thread in local memory instead of registers; {_UNROLL}", use.name


def _uses(log: str) -> list[_Use]:
    uses: list[_Use] = []
    name = ""
    for line in log.splitlines():
        if properties := _PROPERTIES.match(line):
            name = short_name(properties[1])
        elif name and (memory := _MEMORY.match(line)):
            uses.append(_Use(name, None, int(memory[1]), int(memory[2]) + int(memory[3])))
            name = ""
        elif uses and (used := _USED.match(line)):
            uses[-1] = _Use(uses[-1].name, int(used[1]), uses[-1].stack, uses[-1].spilled)
    return uses


def _remedy(registers: int | None) -> str:
    if registers is None:
        return "hold less at once, or inline it"
    if registers >= _MOST_REGISTERS:
        return f"{registers} registers are all that a thread can have: hold less at once"
    return f"it is held to {registers} registers a thread: loosen __launch_bounds__, use smaller blocks, or hold less at once"


def _code(code: str | None) -> str:
    return f" ({code})" if code else ""


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names[:_NAMED]]
    return f"{', '.join(shown)}{more}: " if names else ""


def _line(names: Iterable[str], code: str) -> int:
    """Return the line on which the first of these functions is defined, or 0 where it is not found."""
    for name in names:
        base = re.sub(r"<.*", "", name).rpartition("::")[2]
        found = re.search(rf"__(?:global|device)__\b[^;{{}}]*?(\b{re.escape(base)})\s*\(", code)
        if found:
            return line_of(code, found.start(1))
    return 0
