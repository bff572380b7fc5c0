"""Nsight Compute's table becomes a digest of one screen that ends in what limits the kernel; what it refuses is explained."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from sandbox.looking.nsight import SECTIONS, KernelProfile, _command, counters_closed, explain
from sandbox.looking.nsight_csv import read_raw
from sandbox.looking.nsight_digest import digest, limiter
from sandbox.looking.nsight_view import KernelView, view_kernels
from sandbox.looking.solo import SoloRun

FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")
FIXED += ("Device", "CC")
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
NORM = {
    "gpu__time_duration.sum": ("ns", "80,128"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "82.31"),
    "dram__bytes_read.sum": ("byte", "134,217,728"),
    "dram__bytes_write.sum": ("byte", "33,554,432"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "41.2"),
    "lts__t_sector_hit_rate.pct": ("%", "33.3"),
    "l1tex__t_sector_hit_rate.pct": ("%", "0.5"),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": ("%", "35.0"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "24.9"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "0"),
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "12.5"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "61.7"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "75"),
    "launch__occupancy_limit_registers": ("block", "6"),
    "launch__occupancy_limit_shared_mem": ("block", "14"),
    "launch__occupancy_limit_warps": ("block", "8"),
    "launch__registers_per_thread": ("register/thread", "40"),
    "launch__shared_mem_per_block_static": ("byte/block", "128"),
    "launch__shared_mem_per_block_dynamic": ("byte/block", "4,096"),
    "launch__grid_size": ("", "4,096"),
    "launch__sm_count": ("SM", "132"),
    "launch__waves_per_multiprocessor": ("", "5.17"),
    "launch__func_cache_config": ("", "CachePreferNone"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": ("byte/sector", "32"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": ("byte/sector", "n/a"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": ("", "10"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("", "1,000"),
    "derived__local_spilling_requests": ("", "0"),
    STALLED.format("long_scoreboard"): ("inst", "12.3"),
    STALLED.format("barrier"): ("inst", "2.1"),
    STALLED.format("wait"): ("inst", "0.9"),
}


def row(number: int, kernel: str) -> list[str]:
    return [str(number), "4242", "python3.12", "127.0.0.1", kernel, "1", "7", "(256, 1, 1)", "(4096, 1, 1)", "0", "9.0"]


def quoted(cells: list[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def wide(*kernels: str) -> str:
    rows = [quoted([*FIXED, *NORM]), quoted([*[""] * len(FIXED), *(unit for unit, _ in NORM.values())])]
    rows += [quoted([*row(n, kernel), *(value for _, value in NORM.values())]) for n, kernel in enumerate(kernels)]
    return "==PROF== Connected to process 4242\n" + "\n".join(rows) + "\n"


def test_a_table_is_read_with_its_units_and_gaps() -> None:
    (launch,) = read_raw(wide("void norm_kernel<(int)4>(const float *, float *, long)"))
    assert (launch.name, launch.grid, launch.block) == ("norm_kernel<(int)4>", "(4096, 1, 1)", "(256, 1, 1)")
    assert launch.us == pytest.approx(80.128)
    assert launch.get("dram__bytes_read.sum") == 134_217_728
    assert launch.get("launch__func_cache_config") is None
    assert launch.get("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio") is None
    assert launch.get("nothing", "launch__sm_count") == 132


def test_the_older_form_with_a_row_for_each_metric_reads_the_same() -> None:
    head = quoted([*FIXED, "Section Name", "Metric Name", "Metric Unit", "Metric Value"])
    rows = [quoted([*row(0, "norm_kernel(float *)"), "any", name, *each]) for name, each in NORM.items()]
    (launch,) = read_raw("\n".join([head, *rows]))
    assert launch.us == pytest.approx(80.128)
    assert launch.get("dram__bytes_read.sum") == 134_217_728


@pytest.mark.parametrize("text", ["", "==ERROR== nothing here", '"ID","Other"\n"0","1"\n'])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="table"):
        read_raw(text)


def test_a_digest_is_a_screen_that_ends_in_the_limiter() -> None:
    kernels = [f"kernel_{number}(float *)" for number in range(5)]
    profile = KernelProfile(tuple(view_kernels(read_raw(wide(*kernels, kernels[0])))), Path("/reports/1.ncu-rep"))
    lines = profile.digest
    assert len(lines) <= 25
    assert lines[0].startswith("Nsight Compute, one call: 6 kernel launches, 480.8 us together")
    assert "1. kernel_0  160.3 us (33 %), 2 launches" in lines[1]
    text = "\n".join(lines)
    assert "DRAM 82 % of peak, 134.2 MB read, 33.6 MB written" in text
    assert (
        "occupancy 62 % of 75 % possible (limited by registers); 40 registers a thread, 4224 B shared a block" in text
    )
    assert "waiting for memory 12.3, waiting at barriers 2.1, fixed latencies 0.9" in text
    assert "loads 32, stores ?; bank conflicts 1 %; spill requests 0" in text
    assert lines[-2].startswith("LIKELIEST LIMITER: memory bandwidth (of kernel_0): DRAM runs at 82 % of its peak")
    assert lines[-1] == "report (for ncu-ui): /reports/1.ncu-rep"


def view(**known: object) -> KernelView:
    usual: dict[str, object] = {"dram": 30.0, "sm": 30.0, "l1": 30.0, "l2": 30.0, "blocks": 1000.0, "processors": 132.0}
    usual |= {"occupancy": 50.0, "possible": 55.0, "stalls": {"long_scoreboard": 8.0}}
    return KernelView("k", 1, 50.0, "", "", **{**usual, **known})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ([view(dram=85.0)], "memory bandwidth: DRAM runs at 85 %"),
        ([view(blocks=40.0)], "too few blocks: 40 on 132 multiprocessors"),
        ([view(load_bytes=4.0, l2=60.0)], "uncoalesced accesses: only 4 of the 32 bytes"),
        ([view(conflicts=60.0, stalls={"short_scoreboard": 5.0})], "bank conflicts: they cost 60 %"),
        ([view(spills=9000.0, stalls={"lg_throttle": 4.0})], "register spills: 9000 requests"),
        ([view(sm=88.0, pipes={"FMA": 86.0})], "compute: the pipe for FMA is 86 % busy"),
        ([view(l2=80.0)], "L2 bandwidth: it runs at 80 %"),
        ([view(stalls={"barrier": 6.0})], "barriers: warps wait 6.0 cycles"),
        ([view(waves=1.3)], "the tail: 1.3 waves"),
        ([view(limits=("registers",))], "latency: warps mostly wait (waiting for memory)"),
        ([view(occupancy=10.0, possible=100.0)], "only 10 of 100 % occupancy is reached"),
        ([view()] + [KernelView(f"k{n}", 1, 3.0, "", "") for n in range(40)], "launches: 41 kernels of 4.1 us"),
        ([KernelView("k", 1, 5.0, "", "")], "latency: no unit is busy"),
    ],
)
def test_the_limiter_follows_from_the_figures(views: list[KernelView], words: str) -> None:
    said = limiter(views)
    assert words in said
    assert said.count(".\n") == 0
    assert "{" not in said
    assert digest(views)[-1] == f"LIKELIEST LIMITER: {said}"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            ["ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0", "--cap-add SYS_ADMIN"],
        ),
        (
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM)",
            ["DCGM", "dcgmi profile --pause"],
        ),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", ["does not fit the GPU's driver"]),
        ("==WARNING== No kernels were profiled.", ["launched no kernel"]),
        ("==PROF== x\n==ERROR== Something new happened", ["ended with status 1: Something new happened"]),
    ],
)
def test_what_ncu_refuses_is_explained_with_what_to_do(log: str, words: list[str]) -> None:
    profile = explain(log, SoloRun(1, "", "", 2.0, timed_out=False), 60)
    assert all(word in profile.problem for word in words), profile.problem
    assert profile.digest == [profile.problem]
    assert profile.at_fault == ("no kernel" in profile.problem)


def test_a_candidate_that_fails_and_one_that_hangs_are_told_apart() -> None:
    failed = explain(
        "==WARNING== No kernels were profiled.", SoloRun(1, "", "model_new.py:3: ValueError: no", 1.0, False), 60
    )
    assert failed.at_fault
    assert "model_new.py:3: ValueError: no" in failed.problem
    hung = explain("", SoloRun(-14, "", "", 60.0, timed_out=True), 60)
    assert "did not finish within 60 s" in hung.problem
    assert not hung.at_fault


def test_closed_counters_are_noticed_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "params").write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in counters_closed(tmp_path / "params")
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 0\n")
    assert counters_closed(tmp_path / "params") == ""
    assert counters_closed(tmp_path / "nothing") == ""


def test_one_call_is_profiled_for_what_the_digest_reads(tmp_path: Path) -> None:
    """Every metric there is takes some forty replays of each kernel."""
    command = list(_command(Path("ncu"), tmp_path))
    options = dict(pairwise(command))
    assert options["--profile-from-start"] == "off"  # the call between start and stop alone
    assert int(options["--launch-count"]) <= 32
    assert "--set" not in command
    assert {command[at + 1] for at, word in enumerate(command) if word == "--section"} == set(SECTIONS)
