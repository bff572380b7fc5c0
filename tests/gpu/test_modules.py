"""Modules quoted from public models, judged in full with the kernels beside them. ``pytest -s`` shows the verdicts."""

import json
import os
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.devices import resolve_device
from sandbox.target import resolve_target

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in (HERE / "modules").glob("*.py"))
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("case", CASES)
def test_the_judge_accepts_the_kernel_in_full(case, tmp_path):
    spec = resolve_target(str(HERE / "modules" / f"{case}.py"), device=resolve_device("cuda"))
    with Judge(spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch") as judge:
        verdict = judge.check(HERE / "kernels" / case, "full")
    if kept := os.environ.get("VERDICTS"):
        Path(kept, f"{case}.json").write_text(json.dumps(verdict.to_json(), indent=1))
    print(f"\n{case}: reward {verdict.reward}. {verdict.reason} {verdict.seconds}")
    if verdict.profile:
        print(f"  {verdict.profile.device_us:.1f} us, copy {verdict.profile.copy_us:.1f} us")
        for name, gain in verdict.profile.speedup.items():
            baseline = verdict.profile.baselines[name]
            print(
                f"  {gain.ratio:.3f} [{gain.low:.3f}, {gain.high:.3f}] over {name} ({baseline.mode}, {baseline.device_us} us)"
            )
    assert verdict.correct
    assert verdict.build
    assert [kernel.spill_bytes for kernel in verdict.build.kernels] == [0] * len(verdict.build.kernels)
    assert verdict.profile
