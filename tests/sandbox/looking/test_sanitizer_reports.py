"""Sanitizers' reports in the forms that they have: what is wrong, where, who was first, how often."""

from __future__ import annotations

from sandbox.looking.sanitizer_reports import SanitizerFinding, finished, read_compute_sanitizer, read_host_sanitizers

OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at scale_kernel(const float *, float *, int)+0x100 in scale.cu:31
=========     by thread (255,0,0) in block (4095,0,0)
=========     Access to 0xd67bffffc is out of bounds
=========     and is 1 bytes after the nearest allocation at 0xd67800000 of size 4,194,300 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x8ccb] in python3.12
=========
========= Invalid __global__ read of size 4 bytes
=========     at scale_kernel(const float *, float *, int)+0x100 in scale.cu:31
=========     by thread (254,0,0) in block (4095,0,0)
=========     Access to 0xd67bffff8 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0xd67800000 of size 4,194,300 bytes
=========
========= ERROR SUMMARY: 2 errors
"""
OLDER_OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 2 bytes
=========     at 0xd80 in /tmp/work/kernels/scale.cu:162:void scale_kernel<(bool)1, __half>(T2 *, T2 *, int)
=========     by thread (63,0,0) in block (506,0,0)
=========     Address 0x7fcd07a0312c is out of bounds
========= ERROR SUMMARY: 1 error
"""
TWO_LINES = """\
========= Invalid __global__ read of size 4 bytes
=========     at scale_kernel(const float*, const float*, int)+0x70
=========        in /tmp/work/kernels/scale.cu:53
=========     by thread (232,0,0) in block (3,0,0)
========= ERROR SUMMARY: 1 error
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at void sum_rows<(int)256>(float *, int)+0xf0 in rows.cu:12
=========     and Read access at void sum_rows<(int)256>(float *, int)+0xd0 in rows.cu:15 [32 hazards]
=========     and Write access at void sum_rows<(int)256>(float *, int)+0xf0 in rows.cu:12 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNINITIALISED = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at scale_kernel(float *, int)+0x70 in scale.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
========= ERROR SUMMARY: 1 error
"""
UNWRITTEN = """\
========= Host API memory access error at host access to 0x7f3c7ec00000 of size 4096 bytes
=========     Uninitialized access at 0x7f3c7ec00ffc on access by cudaMemcpy source
========= ERROR SUMMARY: 1 error
"""
BARRIER = """\
========= Barrier error detected. Divergent thread(s) in block.
=========     at scale_kernel(int *)+0xa0 in scale.cu:61
=========     by thread (19,0,0) in block (0,0,0)
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x1754] in python3.12
=========
========= ERROR SUMMARY: 1 error
"""
ADDRESS = """\
==22814==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x621000847ca0 at pc 0x7fbf214923d3
READ of size 4 at 0x621000847ca0 thread T2
    #0 0x7fbf42cb1f96 in __interceptor_memcpy ../../../../src/libsanitizer/sanitizer_common/interceptors.inc:899
    #1 0x7fbf214923d2 in scale._omp_fn.0 kernels/scale.cpp:5
    #2 0x7fbf4021b4bd in gomp_thread_start (/venv/torch/lib/libgomp.so.1+0x1b4bd)

0x621000847ca0 is located 0 bytes to the right of 4000-byte region [0x621000846d00,0x621000847ca0)
SUMMARY: AddressSanitizer: heap-buffer-overflow kernels/scale.cpp:5 in scale._omp_fn.0
"""
UNDEFINED = """\
/cache/work/x1/kernels/scale.cpp:12:17: runtime error: signed integer overflow: 2147483647 + 16 cannot be an 'int'
    #0 0x7f2d in scale /cache/work/x1/kernels/scale.cpp:12
    #1 0x7f2e in ffi_call_unix64 (/lib/x86_64-linux-gnu/libffi.so.8+0x6f79)
"""


def read(tool: str, text: str) -> list[SanitizerFinding]:
    ours = {"scale.cu", "rows.cu"}
    return read_compute_sanitizer(tool, text, lambda file, line: f"kernels/{file}:{line}" if file in ours else "")


def test_accesses_out_of_bounds_are_put_together_by_their_line() -> None:
    (found,) = read("memcheck", OUT_OF_BOUNDS)
    assert found.kind == "Invalid __global__ read of size 4 bytes, 1 bytes after the nearest allocation"
    assert (found.kernel, found.where, found.count) == ("scale_kernel", "kernels/scale.cu:31", 2)
    assert found.thread == "thread (255,0,0) in block (4095,0,0)"


def test_other_versions_write_the_place_differently() -> None:
    (older,) = read("memcheck", OLDER_OUT_OF_BOUNDS)
    assert (older.kernel, older.where) == ("scale_kernel<(bool)1, __half>", "kernels/scale.cu:162")
    (other,) = read("memcheck", TWO_LINES)
    assert (other.kernel, other.where) == ("scale_kernel", "kernels/scale.cu:53")


def test_a_race_names_both_lines_and_counts_its_hazards() -> None:
    (found,) = read("racecheck", RACE)
    assert found.kind == "race in shared memory between a write and a read"
    assert (found.kernel, found.where) == ("sum_rows<(int)256>", "kernels/rows.cu:12 and kernels/rows.cu:15")
    assert found.count == 36


def test_what_nobody_wrote_is_found_in_kernels_and_in_outputs() -> None:
    (found,) = read("initcheck", UNINITIALISED)
    assert (found.kind, found.where) == ("Uninitialized __global__ memory read of size 4 bytes", "kernels/scale.cu:41")
    (unwritten,) = read("initcheck", UNWRITTEN)
    assert (unwritten.kind, unwritten.kernel) == ("part of an output was never written", "")


def test_a_bad_barrier_keeps_its_words() -> None:
    (found,) = read("synccheck", BARRIER)
    assert found.kind == "Barrier error detected. Divergent thread(s) in block"
    assert found.where == "kernels/scale.cu:61"


def test_a_clean_report_is_not_one_that_broke_off() -> None:
    clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    broken = "========= COMPUTE-SANITIZER\n========= Error: Target application terminated before first instrumented API call\n"
    assert read("memcheck", clean) == []
    assert finished(clean)
    assert read("memcheck", broken) == []
    assert not finished(broken)


def test_the_sanitizers_of_the_host_name_the_candidates_own_line() -> None:
    (address,) = read_host_sanitizers(ADDRESS)
    assert address.kind == "heap-buffer-overflow, read of 4 bytes, 0 bytes to the right of 4000-byte region"
    assert (address.kernel, address.where, address.thread) == ("scale", "kernels/scale.cpp:5", "thread T2")
    (undefined,) = read_host_sanitizers(UNDEFINED)
    assert undefined.kind.startswith("signed integer overflow: 2147483647 + 16")
    assert (undefined.kernel, undefined.where) == ("scale", "kernels/scale.cpp:12")


def test_whatever_a_candidate_prints_breaks_nothing() -> None:
    junk = (
        "========= \n=========\n========= Invalid __\n========= at +0x in :\nERROR: AddressSanitizer: x\n" + "=" * 5000
    )
    assert isinstance(read("memcheck", junk), list)
    assert isinstance(read_host_sanitizers(junk), list)
