"""Runs a candidate under sanitizers: compute-sanitizer's four tools on a GPU, those of g++ on the CPU.

What they find is the candidate's fault and stands beside the verdict. That they find nothing proves nothing: a candidate can
notice that it is looked at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.build import ExtraFlags, Manifest, has_sources
from sandbox.build.toolchain import find_host_compiler
from sandbox.errors import EnvironmentFault
from sandbox.looking.sanitizer_reports import SanitizerFinding, finished, read_compute_sanitizer, read_host_sanitizers
from sandbox.looking.solo import Look, SoloRun, read_left, run_solo, solo_folder
from sandbox.looking.study import Study

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
HOST = "address, undefined"
_SECONDS = 150.0
_LARGEST_LOG = 8 * 1024**2
_LOG = "sanitizer.log"
_PADDING = 64 * 1024
# Errors of calls are told by the candidate's own exception, and torch's searches for functions are none. Without bytes in
# between, what lies behind a tensor is the next one, and nobody's error.
_OWN_OPTIONS = {"memcheck": ("--report-api-errors", "no", "--padding", str(_PADDING))}
_HOST_FLAGS = ExtraFlags(
    compile=("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"),
    link=("-fsanitize=address,undefined",),
)
_HOST_VARIABLES = {
    # Python never frees everything, and its own calls are not what is looked at.
    "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:handle_segv=1:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
_GPU_NOTES = (
    "racecheck sees races in shared memory only",
    "synccheck takes named barriers that only some warps use for an error",
)
_HOST_NOTES = ("races and uninitialised reads are not looked for on the CPU: g++ has no sanitizer that knows OpenMP",)


@dataclass(frozen=True)
class ToolRun:
    """One tool: how long it took, and why it could not say anything (empty if it could)."""

    name: str
    seconds: float
    problem: str = ""


@dataclass(frozen=True)
class SanitizerReport:
    """What all of them found.

    Attributes:
        ok: Whether nothing was found; null where no tool could look.
        findings: The candidate's faults.
        tools: What ran.
        notes: What they cannot see.
    """

    ok: bool | None
    findings: tuple[SanitizerFinding, ...] = ()
    tools: tuple[ToolRun, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return asdict(self)


def sanitize(study: Study, seconds: float = _SECONDS) -> SanitizerReport:
    """Run the candidate under each tool that fits its device, each within ``seconds``.

    A tool that is missing or fails is named with the reason and what to do.
    """
    looked = list(_on_gpu(study, seconds) if study.crew.on_gpu else _on_cpu(study, seconds))
    findings = tuple(finding for found, _ in looked for finding in found)
    tools = tuple(tool for _, tool in looked)
    notes = _GPU_NOTES if study.crew.on_gpu else _HOST_NOTES
    ran = any(not tool.problem for tool in tools)
    return SanitizerReport(not findings if ran or findings else None, findings, tools, notes)


Looked = tuple[list[SanitizerFinding], ToolRun]


def _on_gpu(study: Study, seconds: float) -> Iterator[Looked]:
    tool = find_compute_sanitizer()
    if tool is None or study.crowded:
        yield [], ToolRun("compute-sanitizer", 0.0, study.crowded or _MISSING)
        return
    manifest, problem = _built(study, None)
    if problem:
        yield [], ToolRun("compute-sanitizer", 0.0, problem)
        return
    with study.alone():
        for name in TOOLS:
            study.tell("sanitize", f"running the candidate under {name}")
            yield _compute_sanitizer(study, manifest, tool, name, seconds)


_MISSING = (
    "compute-sanitizer was not found. Install it with the CUDA toolkit (cuda-sanitizer), or put its folder on PATH."
)


def find_compute_sanitizer() -> Path | None:
    """Find compute-sanitizer: ``CUDA_HOME``, ``PATH``, then the installed toolkits, the newest first."""
    homes = [Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = shutil.which("compute-sanitizer", path=":".join(map(str, homes))) or shutil.which("compute-sanitizer")
    installed = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"), reverse=True)
    return Path(found) if found else next(iter(installed), None)


def _compute_sanitizer(study: Study, manifest: Manifest | None, tool: Path, name: str, seconds: float) -> Looked:
    with solo_folder(study) as folder:
        log = folder / _LOG
        command = (str(tool), "--tool", name, "--log-file", str(log), "--launch-timeout", "60")
        look = Look(
            tool=(*command, *_OWN_OPTIONS.get(name, ())),
            seconds=seconds,
            readable=(tool.resolve().parent.parent,),
            variables={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        )
        run = run_solo(study, manifest, look, folder)
        text = read_left(log, _LARGEST_LOG).decode(errors="replace")
    found = read_compute_sanitizer(name, text, lambda file, line: _place(study, file, line))
    mine = [finding for finding in found if _is_own(finding, manifest)]
    return mine, ToolRun(name, run.seconds, "" if mine else _why_silent(run, text, seconds))


def _why_silent(run: SoloRun, text: str, seconds: float) -> str:
    """Return why a tool that told of nothing did not see everything, or an empty text."""
    if run.timed_out:
        return f"it did not finish within {seconds:.0f} s"
    if run.problem:
        return f"the candidate failed under it: {run.problem}"
    if finished(text):
        return ""
    lines = [line.removeprefix("=========").strip() for line in (text or run.log).splitlines()]
    said = [line for line in lines if line and "COMPUTE-SANITIZER" not in line][-2:]
    return f"it did not come to its end (status {run.status}): {' '.join(said) or 'it said nothing'}"


def _place(study: Study, file: str, line: str) -> str:
    """Return the candidate's file of this name with the line, or an empty text where it has none."""
    named = [path for path in study.candidate.files if path.startswith("kernels/") and Path(path).name == file]
    return f"{named[0]}:{line}" if named else ""


def _is_own(finding: SanitizerFinding, manifest: Manifest | None) -> bool:
    """Whether a finding is about the candidate's kernels or outputs, and not about a library's kernel."""
    if finding.kind.startswith("Internal Sanitizer Error"):
        return False
    if finding.where or not finding.kernel:
        return True
    if manifest is None:
        return not finding.kernel.startswith(("at::", "c10::", "cub::", "cutlass", "cudnn", "cublas"))
    return any(finding.kernel in (kernel.name, kernel.base) for kernel in manifest.kernels)


def _on_cpu(study: Study, seconds: float) -> Iterator[Looked]:
    study.tell("sanitize", "building the kernels with -fsanitize=address,undefined")
    if not has_sources(study.kernels):
        yield [], ToolRun(HOST, 0.0, "the candidate has no kernels/NAME.cpp to build with sanitizers")
        return
    try:
        runtime = _runtime()
    except EnvironmentFault as fault:
        yield [], ToolRun(HOST, 0.0, str(fault))
        return
    manifest, problem = _built(study, _HOST_FLAGS)
    if problem:
        yield [], ToolRun(HOST, 0.0, problem)
        return
    study.tell("sanitize", "running the candidate under them")
    with study.alone(), solo_folder(study) as folder:
        variables = {**_HOST_VARIABLES, "LD_PRELOAD": " ".join(map(str, runtime))}
        run = run_solo(study, manifest, Look((), seconds, runtime, variables, sparse=True), folder)
    found = [finding for finding in read_host_sanitizers(run.log) if finding.where]
    yield found, ToolRun(HOST, run.seconds, "" if found else _why_failed(run, seconds))


def _why_failed(run: SoloRun, seconds: float) -> str:
    if run.timed_out:
        return f"it did not finish within {seconds:.0f} s"
    if run.problem:
        return f"the candidate failed under it: {run.problem}"
    return "" if run.status == 0 else f"the run ended with status {run.status}: {' '.join(run.log.split())[-300:]}"


def _built(study: Study, flags: ExtraFlags | None) -> tuple[Manifest | None, str]:
    """Return the kernels built with these flags, or why they do not build; a candidate without kernels has neither."""
    if not has_sources(study.kernels):
        return None, ""
    built = study.build(flags)
    first = next(iter(built.report.diagnostics), None)
    problem = f"the kernels do not build: {first.file}:{first.line}: {first.message}" if first else "they do not build"
    return built.manifest, "" if built.manifest else problem


def _runtime() -> tuple[Path, ...]:
    """Return what has to be loaded before Python: the sanitizer's library, and the C++ library whose throw it wraps.

    Raises:
        EnvironmentFault: The compiler is not g++, or comes without its sanitizers.
    """
    compiler = find_host_compiler()
    if compiler.kind != "g++":
        raise EnvironmentFault(
            "The sanitizers of the CPU need g++.", where=str(compiler.path), next_step="Install g++."
        )
    found = [_file(compiler.path, name) for name in ("libasan.so", "libstdc++.so.6")]
    if not found[0].is_absolute():
        raise EnvironmentFault(
            "g++ comes without AddressSanitizer's library.",
            where=str(compiler.path),
            next_step=f"Install libasan (Debian, Ubuntu: it comes with libgcc-{compiler.major}-dev).",
        )
    return tuple(path.resolve() for path in found if path.is_absolute())


def _file(compiler: Path, name: str) -> Path:
    """Return where a compiler finds a library; the bare name where it does not."""
    said = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, timeout=60, check=False
    )
    return Path(said.stdout.strip() or name)
