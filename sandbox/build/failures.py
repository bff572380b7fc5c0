"""What went wrong in a build, said to whoever wrote the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandbox.build import diagnostics as reduce
from sandbox.build.compiling import LIBRARY, OUT_OF_MEMORY, Compiled, Outcome
from sandbox.build.ninja import LARGEST_FILE
from sandbox.build.signature import FORM, Launcher, Parsed
from sandbox.build.sources import FOLDER, Source
from sandbox.verdict import Diagnostic


def clashes(parsed: Mapping[str, Parsed]) -> list[Diagnostic]:
    """Find launchers that share a name."""
    first: dict[str, Launcher] = {}
    found = []
    for launcher in (launcher for file in parsed.values() for launcher in file.launchers):
        other = first.setdefault(launcher.name, launcher)
        if other is not launcher:
            message = (
                f"{launcher.name} is already defined at {other.file}:{other.line}; one launcher has one definition."
            )
            found.append(Diagnostic(launcher.file, launcher.line, message))
    return found


def errors_of(outcome: Outcome, seconds: float) -> list[Diagnostic]:
    """Explain each file that did not compile, else why the library did not link."""
    failed = {file: each for file, each in outcome.compiled.items() if each.data is None}
    if outcome.killed and not any(each.log.strip() for each in failed.values()):
        return [Diagnostic(FOLDER, 0, "The compilers were killed, most likely for using too much memory, or disk.")]
    if outcome.timed_out:
        message = (
            f"Compiling took longer than {seconds:.0f} s; use fewer template instances, or smaller unrolled loops."
        )
        return [Diagnostic(file, 0, message) for file in failed or (FOLDER,)]
    errors = [diagnostic for file, each in failed.items() for diagnostic in _compile_errors(file, each)]
    if errors:
        return errors
    if outcome.library is not None:
        return reduce.from_loader(outcome.loads, LIBRARY) or _unread(outcome)
    return reduce.from_linker(outcome.link_log) or [Diagnostic(FOLDER, 0, "The linker failed without a message.")]


def _unread(outcome: Outcome) -> list[Diagnostic]:
    """Refuse what compiles and yet cannot be read: nobody could say what is in it."""
    most = f"{LARGEST_FILE // 1024**2} MB"
    told = {each.file for each in outcome.objects}
    texts = [file for file, each in outcome.compiled.items() if each.own is None]
    symbols = [file for file, each in outcome.compiled.items() if each.own and file not in told]
    return [
        *(Diagnostic(file, 0, f"What the preprocessor makes of it is longer than {most}.") for file in texts),
        *(Diagnostic(file, 0, f"The list of its object's symbols is longer than {most}.") for file in symbols),
    ]


def _compile_errors(file: str, compiled: Compiled) -> list[Diagnostic]:
    return known_errors(file, compiled) or [reduce.from_silence(compiled.readable_log, file)]


def known_errors(file: str, compiled: Compiled) -> list[Diagnostic]:
    """Explain why a file did not compile, as far as what was printed is of a known form."""
    if "File size limit exceeded" in compiled.log or compiled.overflowed:
        message = (
            f"The compiler wrote more than {LARGEST_FILE // 1024**2} MB; something in this file grows without end."
        )
        return [Diagnostic(file, 0, message)]
    if OUT_OF_MEMORY.search(compiled.log):
        return [Diagnostic(file, 0, "The compiler ran out of memory; use fewer or smaller template instances.")]
    return reduce.from_compiler(compiled.readable_log, file)


def unbound(symbols: frozenset[str], every: Mapping[str, Parsed], sources: Sequence[Source]) -> list[Diagnostic]:
    """Find functions with C linkage that the library exports and the signature parser did not see, and their absence."""
    seen = {launcher.name for parsed in every.values() for launcher in parsed.launchers}
    exempt = {name for parsed in every.values() for name in parsed.exempt}
    hidden = sorted(name for name in symbols - seen - exempt if not name.startswith("_"))
    problems = [_hidden(name, sources) for name in hidden]
    if not problems and not seen & symbols:
        problems.append(Diagnostic(FOLDER, 0, f"There is no launcher that Python could call: write {FORM}."))
    return problems


def _hidden(name: str, sources: Sequence[Source]) -> Diagnostic:
    message = f"{name} has C linkage, but its signature cannot be read here; write it out, without macros: {FORM}."
    for source in sources:
        for number, line in enumerate(source.data.decode(errors="replace").splitlines(), 1):
            if name in line:
                return Diagnostic(source.file, number, message)
    return Diagnostic(FOLDER, 0, message)
