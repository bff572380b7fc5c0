"""Proof that each guard is alive: built-in cheats are found, each by its rule, and honest code is left alone.

What reads is run on samples here; what watches is run in a worker, as candidates are, and judged here.

A rule that finds nothing any more would let everything pass unseen, so a dead guard is a fault of the environment, and
nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from sandbox.build.inspection import Inspection, own_texts, read_object
from sandbox.crew import Crew
from sandbox.errors import EnvironmentFault
from sandbox.guard.findings import Findings, Source
from sandbox.guard.kernel_source import check_kernel_source
from sandbox.guard.python_source import check_python
from sandbox.guard.symbols import check_symbols
from sandbox.task import TaskSpec
from sandbox.timing.clocks import BurstPlan, below_floor, contradicts
from sandbox.timing.evenness import Evenness
from sandbox.verdict import Finding
from sandbox.workers import CandidateFailed, Worker, WorkerDied

_SAMPLES = Path(__file__).parent / "samples"
_EXPECTED = re.compile(r"(?:#|//) expects: (.+)")
_PLACE = re.compile(r"[^:]*:(\d+): ")
_ASKED = {"run-time-code": "dlopen", "symbol": "unheard_of"}
_HELD = {"runs-at-load", "interposes", "process"}
_WATCHED = {
    "honest": "",
    "untouched": "",
    "computes": "delegation",
    "mutates": "mutation",
    "oversteps": "beyond",
    "reuses": "reused-output",
    "resets": "global-state",
    "subclasses": "tensor-subclass",
}
_WATCHED_ON_GPU = {"late": "late-write", "foreign": "delegation", "idle": "no-launch"}
"""What is found of each built-in cheat of ``warpsmith_harness.prove``."""

_NAN_BYTES = {0xFF, 0xFE}
_NUMBER_BYTES = set(range(0x21, 0x7C))
"""What the harness's ``poison`` fills with, in its two turns."""
_PATIENCE = 60.0
_PROVEN: dict[tuple[str, bool, str], int] = {}
_BATCHES = 16
_PLAN = BurstPlan(few=1, many=11, fill_us=0.0)

Place = tuple[int, str]


@cache
def prove_static() -> int:
    """Run every rule that reads on samples, once a process; returns how many guards there are.

    Raises:
        EnvironmentFault: One of them misses its cheat, or rejects honest code.
    """
    proven = [*_python(), *_kernels(), *_compiled(), *_clocks()]
    return len(set(proven))


def prove_dynamic(crew: Crew, isolation: str) -> int:
    """Run the built-in cheats past what watches candidates, once for each interpreter, device and isolation.

    Args:
        crew: Its workers are the ones that candidates get.
        isolation: How they are isolated.

    Returns:
        How many guards there are.

    Raises:
        EnvironmentFault: One of them is dead.
    """
    place = (crew.interpreter, crew.on_gpu, isolation)
    if place not in _PROVEN:
        worker = crew.start_worker([], None, {})
        try:
            proven = [*_watching(worker, crew.on_gpu), *_sealed(worker)]
        finally:
            worker.stop()
        _PROVEN[place] = len(proven)
    return _PROVEN[place]


def _watching(worker: Worker, on_gpu: bool) -> Iterator[str]:
    try:
        found = worker.ask({"op": "prove", "break_seal": False}, _PATIENCE)["found"]
    except (WorkerDied, CandidateFailed) as error:
        raise dead("of running candidates", f"its worker failed: {error}") from error
    for cheat, rule in {**_WATCHED, **(_WATCHED_ON_GPU if on_gpu else {})}.items():
        rules = found.get(cheat, {}).get("rules", [])
        if rules != ([rule] if rule else []):
            told = ", ".join(rules) or "nothing"
            raise dead(rule or "of running candidates", f"of a built-in candidate that {cheat} it found {told}")
        yield from filter(None, (rule,))
    nan, numbers = ({*bytes.fromhex(read)} for read in found["untouched"]["read"])
    if not (len(nan) == 1 and nan <= _NAN_BYTES and numbers <= _NUMBER_BYTES):
        raise dead("poisoned-memory", "memory that nobody wrote to is handed to candidates as it was")
    yield "poisoned-memory"


def _sealed(worker: Worker) -> Iterator[str]:
    """Prove that a worker whose clock was replaced does not go on; it is gone afterwards."""
    try:
        worker.ask({"op": "prove", "break_seal": True}, _PATIENCE)
    except WorkerDied:
        yield "seal"
        return
    except CandidateFailed as failure:
        raise dead("seal", f"its worker failed: {failure}") from failure
    raise dead("seal", "a worker whose clock was replaced goes on as if nothing were")


def sample_task(folder: Path, python: Path, device: str) -> TaskSpec:
    """Write a small task into a new folder, for a judge that is opened only to prove its guards."""
    folder.mkdir(parents=True)
    path = folder / "model.py"
    path.write_bytes((_SAMPLES / "model.py.txt").read_bytes())
    return TaskSpec("kernelbench", path, "Model", "model", folder, python, device=device)


def dead(name: str, why: str) -> EnvironmentFault:
    """Return the error for a guard that does not work."""
    return EnvironmentFault(
        f"The guard {name} is dead: {why}.",
        where="guards, at start-up",
        next_step="Nothing can be judged without it: install Warpsmith anew, and run `warpsmith doctor`.",
    )


def _python() -> Iterator[str]:
    path = _SAMPLES / "model.py.txt"
    spec = TaskSpec("kernelbench", path, "Model", "model", path.parent, path)
    original = path.read_text(encoding="utf-8")
    for name in ("cheats.py.txt", "honest.py.txt"):
        text = (_SAMPLES / name).read_text(encoding="utf-8")
        yield from _compared(name, text, check_python(text, original, spec))
    for rule, text in {"syntax": "class ModelNew(:", "missing-class": "import torch"}.items():
        yield _seen(rule, check_python(text, original, spec))


def _kernels() -> Iterator[str]:
    for name in ("cheats.cu", "honest.cu"):
        text = (_SAMPLES / name).read_text(encoding="utf-8")
        findings = Findings(Source(name, text))
        check_kernel_source(text, findings, cuda=True)
        found = findings.report()
        if name == "cheats.cu":
            yield _seen("fast-math", found)
        yield from _compared(name, text, [each for each in found if each.rule != "fast-math"])


def _compiled() -> Iterator[str]:
    """Prove that the compiler's output is understood: where lines belong, and what an object holds."""
    [own] = own_texts((_SAMPLES / "cheats.ii").read_bytes(), "kernels/f.cpp")
    lines = [number for number, line in enumerate(own.text.split("\n"), 1) if line.strip()]
    if lines != [2, 3, 4, 9]:
        raise dead("preprocessed-source", f"lines {lines} of its sample counted as the candidate's own")
    yield "preprocessed-source"
    listing = (_SAMPLES / "cheats.symbols").read_text(encoding="utf-8")
    found = check_symbols(
        Inspection(objects=(read_object("kernels/f.cpp", listing, "f.o: file format\n   4:\tsyscall"),))
    )
    for rule, symbol in _ASKED.items():
        yield _seen(rule, [each for each in found if f"`{symbol}`" in each.evidence])
    for rule in sorted(_HELD):
        yield _seen(rule, [each for each in found if "asks for" not in each.evidence])
    if any("`expf`" in each.evidence for each in found):
        raise dead("symbol", "it refuses an object that asks for expf")


def _clocks() -> Iterator[str]:
    if not contradicts(10.0, _PLAN, 1000.0) or contradicts(10.0, _PLAN, 10.0):
        raise dead(
            "clock-mismatch",
            "a time that the judge's own clock contradicts by a factor of 100 passes, or a true one does not",
        )
    yield "clock-mismatch"
    if not below_floor(0.01, 10**6, 100.0, 10**6) or below_floor(100.0, 10**6, 100.0, 10**6):
        raise dead("below-floor", "a time no memory allows passes, or a plain copy's does not")
    yield "below-floor"
    for calls, uneven in (([6.0, 0.1, 0.1, 0.1], True), ([1.0, 1.1, 1.0, 0.9], False)):
        batches = Evenness()
        for _ in range(_BATCHES):
            batches.take(calls, candidate=True)
        if bool(batches.evidence()) is not uneven:
            raise dead("window", f"batches of {calls} us are {'not ' if uneven else ''}told from even ones")
    yield "window"


def _compared(name: str, text: str, found: Iterable[Finding]) -> Iterator[str]:
    """Yield the rules of a sample, if just those lines were found that say so."""
    expected = _expected(text)
    seen = {(int(place[1]), each.rule) for each in found if (place := _PLACE.match(each.evidence))}
    for line, rule in sorted(expected - seen):
        raise dead(rule, f"it does not find the cheat at {name}:{line}")
    for line, rule in sorted(seen - expected):
        raise dead(rule, f"it finds a cheat at {name}:{line}, where there is none")
    yield from (rule for _, rule in expected)


def _expected(text: str) -> set[Place]:
    lines = enumerate(text.splitlines(), 1)
    return {(number, rule) for number, line in lines if (told := _EXPECTED.search(line)) for rule in told[1].split()}


def _seen(rule: str, found: Iterable[Finding]) -> str:
    if not any(each.rule == rule for each in found):
        raise dead(rule, "it does not find its built-in cheat")
    return rule
