"""Kernels that ran: what a worker's tracer says becomes rows, with the occupancy that NVIDIA's calculator gives."""

from __future__ import annotations

import pytest
from warpsmith_harness.trace import launches_in

from sandbox.timing.kernel_runs import Launch, base_name, kernel_runs, occupancy, read_launches, with_spills
from sandbox.verdict import KernelResources

HOPPER = {"threads": 2048, "blocks": 32, "registers": 65536, "shared_bytes": 233472, "reserved_bytes": 1024}
ADA = {"threads": 1536, "blocks": 24, "registers": 65536, "shared_bytes": 102400, "reserved_bytes": 1024}


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "device", "expected"),
    [
        (256, 32, 0, HOPPER, 1.0),
        (256, 40, 0, HOPPER, 0.75),
        (256, 64, 0, HOPPER, 0.5),
        (1024, 33, 0, HOPPER, 0.5),
        (128, 255, 0, HOPPER, 0.125),
        (32, 16, 0, HOPPER, 0.5),
        (256, 32, 100 * 1024, HOPPER, 0.25),
        (128, 168, 227 * 1024, HOPPER, 4 / 64),
        (256, 40, 0, ADA, 1.0),
        (1024, 32, 0, ADA, 32 / 48),
    ],
)
def test_occupancy_is_limited_by_what_runs_out_first(threads, registers, shared, device, expected) -> None:
    assert occupancy(Launch("k", 1.0, 100, threads, registers, shared), device) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("launch", "device"), [(Launch("Memset (Device)", 1.0), HOPPER), (Launch("k", 1.0, 1, 256, 32, 0), {})]
)
def test_without_the_geometry_nothing_is_guessed(launch, device) -> None:
    assert occupancy(launch, device) is None


def test_kernels_are_added_up_and_matched_with_the_build_by_name() -> None:
    launches = [
        Launch("void scale<3>(float4 const*, long)", 30.0, 100, 256, 40, 0),
        Launch("scale(float4 const*, long)", 10.0, 50, 256, 32, 0),
        Launch("Memset (Device)", 10.0),
    ]
    rows = with_spills(kernel_runs(launches, HOPPER), [KernelResources("scale", 40, 0, 64)])
    assert [(row.name, row.calls, row.us, row.share) for row in rows] == [
        ("scale", 2, 40.0, 0.8),
        ("Memset", 1, 10.0, 0.2),
    ]
    assert (rows[0].registers, rows[0].blocks, rows[0].spill_bytes, rows[0].occupancy) == (40, 100, 64, 0.75)
    assert (rows[1].registers, rows[1].spill_bytes, rows[1].occupancy) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void ns::fused<float, 4>(float const*)", "fused"),
        ("(anonymous namespace)::step(int)", "step"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("sm90_xmma_gemm_f32f32_tn", "sm90_xmma_gemm_f32f32_tn"),
    ],
)
def test_names_lose_what_is_not_the_function(name, expected) -> None:
    assert base_name(name) == expected


@pytest.mark.parametrize(
    "told",
    [None, 3, [None, 7], [{"name": 3, "us": 1.0}], [{"name": "k", "us": "1"}], [{"name": "k", "us": float("nan")}]],
)
def test_a_worker_that_tells_nonsense_is_not_listened_to(told) -> None:
    assert read_launches({"launches": told}) == []


def test_numbers_that_make_no_sense_are_left_out() -> None:
    (launch,) = read_launches(
        {"launches": [{"name": "k" * 999, "us": 2, "threads": -1, "registers": "many", "blocks": 4}]}
    )
    assert launch == Launch("k" * 200, 2.0, blocks=4)


def test_a_trace_is_read_in_order_of_time_with_each_launchs_shape() -> None:
    details = {"registers per thread": 40, "shared memory": 1024, "grid": [8, 2, 1], "block": [32, 8, 1], "stream": 7}
    trace = {
        "traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "fused(float*)", "ts": 20.5, "dur": 7.25, "args": details},
            {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "ts": 10.0, "dur": 1.0, "args": {"bytes": 64}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5.0, "dur": 3.0, "args": {}},
            {"ph": "M", "name": "process_name"},
        ]
    }
    memset, fused = launches_in(trace)
    assert (memset.name, memset.us, memset.threads) == ("Memset (Device)", 1.0, None)
    assert (fused.us, fused.blocks, fused.threads, fused.registers, fused.shared_bytes) == (7.25, 16, 256, 40, 1024)
