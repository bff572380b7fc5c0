"""The CUDA kernels of the suites without a GPU: compiled for ``sm_90a`` through the judge's own build, then looked at.

    python -m tests.candidates.compiled [--only WORD ...] [--libraries FOLDER]

The static guard sees what it sees in a verdict: the files, the preprocessed text and the objects' symbols. Needs nvcc;
kernels that use cuBLAS or cuDNN need their headers too: a folder into which ``pip install --target`` put
``nvidia-cublas`` and ``nvidia-cudnn-cu13``, unless a CUDA build of torch brings them. Exit status 1 if an honest
candidate does not compile or is rejected.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from sandbox.build import Built, build_kernels
from sandbox.build.inspection import Inspection
from sandbox.guard import check_source
from sandbox.isolation import best_isolation
from tests.candidates.frame import Candidate, write_task
from tests.candidates.honest.suite import HONEST
from tests.candidates.tasks import TASKS

_DEVICE = "cuda:0"


def main() -> int:
    """Compile each honest candidate's kernels, let the static guard look at it, and print a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--libraries", type=Path, default=Path(sysconfig.get_path("purelib")))
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="compiled-") as folder:
        for number, (name, candidate) in enumerate(HONEST.items()):
            chosen = not options.only or any(word in name for word in options.only)
            if candidate.cuda is not None and chosen:
                began = time.monotonic()
                told = look(candidate, Path(folder) / str(number), options.libraries)
                wrong += bool(told)
                print(
                    f"{time.monotonic() - began:5.1f} s  {name:62} {told or 'compiles, and nothing is found'}",
                    flush=True,
                )
    print(f"{wrong} of them not as they should be")
    return int(wrong > 0)


def look(candidate: Candidate, folder: Path, libraries: Path) -> str:
    """Compile a candidate and let the static guard look at it; return what is wrong with it, or an empty text."""
    workspace = candidate.write(folder / "candidate", _DEVICE)
    inspection = Inspection()
    if candidate.cuda:
        built = _built(workspace, folder / "cache", libraries)
        if not built.report.ok:
            return "; ".join(f"{each.file}:{each.line}: {each.message}" for each in built.report.diagnostics)
        inspection = built.inspection
    spec = write_task(TASKS[candidate.task], candidate.task, folder / "project", _DEVICE)
    findings = check_source(workspace, spec, inspection).findings
    return "; ".join(f"{each.rule}: {each.evidence}" for each in findings if each.severity == "reject")


def _built(workspace: Path, cache: Path, libraries: Path) -> Built:
    kernels = workspace / "kernels"
    return build_kernels(kernels, arch="sm_90", cache=cache, isolation=best_isolation(), site_packages=[libraries])


if __name__ == "__main__":
    sys.exit(main())
