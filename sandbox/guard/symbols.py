"""Rules on objects: what compiled kernel files ask others for, what they define, and what runs by itself.

However the text hides a name (a macro, an assembler label, a declaration by hand), the linker must be told it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sandbox.build.inspection import Inspection, ObjectSymbols
from sandbox.guard.kernel_names import CALLED, OTHER_LIBRARY_CALL, UNMISTAKABLE
from sandbox.guard.symbol_names import CLOCKS, is_a_librarys, is_known, kind_of, plain
from sandbox.verdict import Finding

_UNKNOWN = "a kernel file needs arithmetic, memory, text, containers, OpenMP and CUDA, and not this"
_OF_STUBS = frozenset({"exit"})
"""What nvcc itself calls in the host's stand-ins for device functions; the text tells whether the candidate does."""

_LONGEST_NAME = 120


def check_symbols(inspection: Inspection) -> list[Finding]:
    """Look at the objects of all kernel files; a finding names the source and the symbol."""
    own = {name for each in inspection.objects for name in each.defined}
    found: list[Finding] = []
    for each in inspection.objects:
        found += _asked(each, own)
        found += _held(each)
    return found


def _asked(each: ObjectSymbols, own: set[str]) -> Iterator[Finding]:
    expected = own | _OF_STUBS if each.file.endswith(".cu") else own
    for name in each.asked:
        if name in expected:
            continue
        refused = refusal(name)
        if refused:
            yield _finding(refused[0], each.file, f"its object asks for {_shown(name)}: {refused[1]}")
        elif plain(name) in CLOCKS or "6chrono" in name:
            yield _finding(
                "clock", each.file, f"its object asks for {_shown(name)}: a kernel may not depend on the time"
            )


def refusal(name: str) -> tuple[str, str] | None:
    """Return rule and reason why an object may not ask for a name, or null where it may."""
    if OTHER_LIBRARY_CALL.fullmatch(f"{name}("):
        return "library-use", "cuBLAS is for matrix products and cuDNN for convolutions; write the rest"
    for table in (UNMISTAKABLE, CALLED):
        for form in (name, plain(name)):
            if form in table and not (is_known(name) and form not in UNMISTAKABLE):
                return table[form]
    if is_known(name):
        return None
    return kind_of(name) or ("symbol", _UNKNOWN)


def _held(each: ObjectSymbols) -> Iterator[Finding]:
    taken = [name for name in each.defined if is_a_librarys(name)]
    if taken:
        why = f"defines {', '.join(map(_shown, taken[:5]))}, which belongs to a library; give it another name"
        yield _finding("interposes", each.file, f"its object {why}")
    if each.resolved:
        why = f"decides at load what {', '.join(map(_shown, each.resolved[:5]))} is; write the call out"
        yield _finding("runs-at-load", each.file, f"its object {why}")
    if each.at_load:
        why = f"holds {each.at_load} functions that run when it is loaded or unloaded; code runs when it is called"
        yield _finding("runs-at-load", each.file, f"its object {why}")
    if each.system_calls:
        why = f"enters the system's kernel by itself ({', '.join(each.system_calls[:5])}); a kernel file has no use for it"
        yield _finding("process", each.file, f"its object {why}")


def _finding(rule: str, file: str, why: str) -> Finding:
    return Finding(rule, "reject", f"{file}: {why}")


def _shown(name: str) -> str:
    return f"`{name[:_LONGEST_NAME]}`"


def unsaid(found: Iterable[Finding], said: Iterable[Finding]) -> list[Finding]:
    """Return the findings on symbols that no finding on the text of the same file has told with its line already."""
    told = [(each.rule, each.evidence) for each in said]
    return [each for each in found if not any(rule == each.rule and _tells(text, each.evidence) for rule, text in told)]


def _tells(text: str, evidence: str) -> bool:
    """Whether a finding on a text (``kernels/f.cu:3: ...``) is about the symbol of one on its object."""
    file, _, rest = evidence.partition(":")
    symbol = re.search(r"asks for `([^`]+)`", rest)
    same = symbol is not None and text.startswith(f"{file}:")
    return same and symbol is not None and bool(re.search(rf"\b{re.escape(plain(symbol[1]))}\b", text))
