"""What the stopwatch sees to, so that a call takes the same time in whatever pattern of calls."""

import subprocess
import sys
from pathlib import Path

from warpsmith_harness.timing import CpuStopwatch

HARNESS = Path(__file__).resolve().parents[3] / "sandbox" / "harness"
FAULTS = """
import ctypes
import resource
import torch
from warpsmith_harness.timing import CpuStopwatch

def faults_of(calls):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        outputs = [torch.empty(8 << 20, dtype=torch.uint8).fill_(1) for _ in range(3)]
        del outputs
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

ctypes.CDLL(None).mallopt(-3, 128 * 1024)  # each block from the system: as some processes behave, by chance, all the time
CpuStopwatch()
faults_of(10)
print(faults_of(10))
"""


def test_memory_that_a_call_frees_is_not_faulted_in_again_by_the_next() -> None:
    program = [sys.executable, "-W", "ignore", "-c", FAULTS]
    ran = subprocess.run(program, env={"PYTHONPATH": str(HARNESS)}, capture_output=True, text=True, check=True)
    pages_of_one_call = (24 << 20) // 4096
    assert int(ran.stdout) < pages_of_one_call


def test_a_clock_tells_what_it_reads_of_calls_that_do_nothing() -> None:
    read = CpuStopwatch().empty(5)
    assert len(read) == 5
    assert all(us >= 0 for us in read)
