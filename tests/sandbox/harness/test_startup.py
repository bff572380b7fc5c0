"""What an interpreter says of itself before anything is judged in it."""

from __future__ import annotations

import pytest
from warpsmith_harness.startup import architecture_problem, device_problem


@pytest.mark.parametrize(
    ("sm", "built_for", "works"),
    [
        ("90", ["sm_80", "sm_90"], True),
        ("89", ["sm_80", "sm_86", "sm_90"], True),
        ("120", ["sm_80", "sm_90"], False),
        ("120", ["sm_80", "sm_90", "compute_90"], True),
        ("61", ["sm_75", "sm_80", "compute_90"], False),
        ("90", ["sm_90a"], True),
        ("103", ["sm_100f"], True),
        ("103", ["sm_100a"], False),
        ("90", [], True),
    ],
)
def test_torch_needs_code_for_the_gpu(sm: str, built_for: list[str], works: bool) -> None:
    problem = architecture_problem(sm, built_for)
    assert (problem == "") == works
    assert works or f"sm_{sm}" in problem


def test_a_cpu_build_of_torch_is_told_for_a_gpu_task_only() -> None:
    assert device_problem("cpu") == ""
