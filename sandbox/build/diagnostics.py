"""What compilers, assembler and linker print, reduced to file, line and message.

Formats read: g++ and clang++ (``file:line:column: error: ...``), nvcc's front end (``file(line): error: ...``), ptxas and
ld. Template back-traces become the one line of the workspace that started them; carets, notes and absolute paths go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from sandbox.build.sources import FOLDER
from sandbox.verdict import Diagnostic

MOST = 20
"""Diagnostics that are kept; one more says how many there were."""

_MESSAGE = 400
_GCC = re.compile(r"(?P<file>[^\s:(][^:(]*):(?P<line>\d+):(?:\d+:)? (?P<kind>fatal error|error|warning): (?P<text>.*)")
_EDG = re.compile(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<kind>catastrophic error|error|warning)(?: #[\w-]+)?: (?P<text>.*)"
)
_BARE = re.compile(
    r"(?:cc1plus|cc1|g\+\+|clang\+\+|clang|gcc|nvcc)\S*(?: \S+)? ?: "
    r"(?P<kind>fatal|fatal error|error|internal compiler error) *: (?P<text>.*)"
)
_PTXAS = re.compile(r"ptxas (?:\S+, line \d+; )?(?:error|fatal) *: (?P<text>.*)")
_REQUIRED = re.compile(rf"(?P<file>{FOLDER}/[^:]+):(?P<line>\d+):\d+: +required from")
_INCLUDED = re.compile(rf"(?:In file included from|^ +from) (?P<file>{FOLDER}/[^:]+):(?P<line>\d+)[:,]")
_INSTANTIATED = re.compile(rf" at line (?P<line>\d+) of (?P<file>{FOLDER}/\S+)")
_IDLE = re.compile(r"#(?:177|550|20012)-D|-Wunused|declared but never referenced|set but never used")
_ABSOLUTE = re.compile(r"(?<![\w.<])/(?:[\w.+-]+/)+(?=[\w.+-])")
_QUOTES = str.maketrans("‘’", "''")


def from_compiler(log: str, source: str) -> list[Diagnostic]:
    """Reduce what compiling one file printed: errors first, or if there are none, warnings worth reading.

    Args:
        log: Standard output and error, symbol names demangled.
        source: The compiled file, relative to the workspace; used where a message names no file.
    """
    lines = log.translate(_QUOTES).splitlines()
    found = [*_located(lines, source), *_assembler(lines, source), *_unlocated(lines, source)]
    errors = [diagnostic for kind, diagnostic in found if kind != "warning"]
    return _unique(errors or [diagnostic for _, diagnostic in found])


def from_linker(log: str) -> list[Diagnostic]:
    """Reduce what linking printed to undefined and doubly defined symbols, each with the file that has it."""
    found: list[Diagnostic] = []
    file = FOLDER
    lines = log.translate(_QUOTES).replace("`", "'").splitlines()
    for line in lines:
        seen = re.search(rf"obj/({FOLDER}/[^:\s]+)\.o", line.split(";")[0])
        file = seen[1] if seen else file
        undefined = re.search(r"undefined (?:reference to '(.+)'|symbol: (.+))", line)
        double = re.search(r"multiple definition of '(.+?)'", line)
        if undefined:
            found.append(Diagnostic(file, 0, _undefined(undefined[1] or undefined[2])))
        elif double:
            message = f"`{double[1]}` is defined in more than one file; make it static, or keep one."
            found.append(Diagnostic(file, 0, message))
    return _unique(found) or _last_words(lines, FOLDER)


def from_loader(told: str, library: str) -> list[Diagnostic]:
    """Reduce what the dynamic loader says of a library (``ldd -r``, demangled) to symbols that nothing defines."""
    symbols = re.findall(
        rf"^undefined symbol: (.+?)(?:, version \S+)?\s+\(\S*{re.escape(library)}\)", told, re.MULTILINE
    )
    return _unique([Diagnostic(FOLDER, 0, _undefined(symbol)) for symbol in symbols])


def limit(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Keep the first ``MOST`` and say how many more there are."""
    if len(diagnostics) <= MOST:
        return tuple(diagnostics)
    more = Diagnostic("", 0, f"... and {len(diagnostics) - MOST} more; mend these first.")
    return (*diagnostics[:MOST], more)


def _located(lines: Sequence[str], source: str) -> Iterator[tuple[str, Diagnostic]]:
    """Yield errors and warnings that name a file, at the line of the workspace they come from."""
    origin: tuple[str, int] | None = None
    for index, line in enumerate(lines):
        start = _REQUIRED.match(line) or _INCLUDED.search(line)
        if start:
            origin = (start["file"], int(start["line"]))
            continue
        found = _GCC.match(line) or _EDG.match(line)
        if not found:
            continue
        kind = "warning" if found["kind"] == "warning" else "error"
        inside = _workspace_path(found["file"])
        if inside:
            if kind == "error" or not _IDLE.search(line):
                yield kind, _diagnostic(inside, int(found["line"]), found["text"], kind)
        elif kind == "error":
            file, number = _instantiation(lines, index) or origin or (source, 0)
            yield kind, _diagnostic(file, number, f"{found['text']} (in {PurePosixPath(found['file']).name})", kind)
        origin = None


def _assembler(lines: Sequence[str], source: str) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the errors of ptxas; ``advice`` reads the rest of what it says."""
    for line in lines:
        found = _PTXAS.match(line)
        if found and "aborted due to errors" not in line:
            yield "error", Diagnostic(source, 0, f"ptxas: {_clean(found['text'])}")


def _unlocated(lines: Sequence[str], source: str) -> Iterator[tuple[str, Diagnostic]]:
    for line in lines:
        found = _BARE.match(line)
        if found:
            yield "error", _diagnostic(source, 0, found["text"], "error")


def _instantiation(lines: Sequence[str], index: int) -> tuple[str, int] | None:
    """Find the line of the workspace that nvcc's back-trace below a message ends at."""
    for line in lines[index + 1 :]:
        if _GCC.match(line) or _EDG.match(line):
            return None
        found = _INSTANTIATED.search(line)
        if found:
            return found["file"], int(found["line"])
    return None


def _diagnostic(file: str, line: int, text: str, kind: str) -> Diagnostic:
    message = _clean(text) if kind == "error" else f"warning: {_clean(text)}"
    missing = re.search(
        r"(cublas_v2|cublasLt|cudnn)\w*\.h: No such file|cannot open source file \"(cublas|cudnn)", text
    )
    if missing:
        message += " Name its library above the first line of code: `// link: cublas`, cublasLt or cudnn."
    return Diagnostic(file, line, message)


def _workspace_path(file: str) -> str:
    file = file.removeprefix("./")
    return file if file.startswith(f"{FOLDER}/") else ""


def _clean(text: str) -> str:
    """Take absolute paths out of a message, and cut it where it stops being readable."""
    text = _ABSOLUTE.sub("", " ".join(text.split()))
    return text if len(text) <= _MESSAGE else text[: _MESSAGE - 1] + "…"


def _undefined(symbol: str) -> str:
    library = re.match(r"(cublasLt|cublas|cudnn)[A-Z]", symbol)
    if library:
        return f"`{symbol}` needs its library: write `// link: {library[1]}` above the first line of code."
    return f"`{symbol}` is used and defined nowhere: define it in a kernel file, or remove the call."


def _unique(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    return list(dict.fromkeys(diagnostics))


def _last_words(lines: Sequence[str], file: str) -> list[Diagnostic]:
    spoken = [line.strip() for line in lines if line.strip() and "ld returned" not in line]
    return [Diagnostic(file, 0, _clean(spoken[-1]))] if spoken else []


def from_silence(log: str, source: str) -> Diagnostic:
    """Describe a compile that failed without a message of a known form."""
    words = _last_words(log.splitlines(), source)
    return words[0] if words else Diagnostic(source, 0, "The compiler failed without a message.")
