"""Check: when it asks the judge, and when it answers without it. The judge's own work is tested elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent import events as ev
from agent.state import Judged, SessionState
from agent.store import SessionWriter
from agent.stream import Stream
from agent.tools.base import ToolResult
from agent.tools.check import check_tool
from sandbox.verdict import BuildReport, KernelResources, Tier
from sandbox.workspace import Workspace
from tests.agent.support import make_verdict


class Judge:
    """Stands in for the judge: stores a verdict of the next reward, and is counted."""

    def __init__(self, stream: Stream, rewards: list[int | None]) -> None:
        self.stream = stream
        self.rewards = rewards

    async def attempt(
        self, files: Mapping[str, bytes], tier: Tier, call_id: str | None = None, *, fresh: bool = False
    ) -> Judged:
        self.fresh = fresh
        hashes = {path: self.stream.blob(content) for path, content in files.items()}
        verdict = make_verdict(tier=tier, reward=self.rewards.pop(0)).to_json()
        number = len(self.stream.state.judged) + 1
        self.stream.emit(ev.Attempt(attempt=number, files=hashes, verdict=verdict, call_id=call_id))
        return self.stream.state.judged[-1]


class Checking:
    """The tool on a workspace, with a judge of these rewards."""

    def __init__(self, workspace: Workspace, stream: Stream, rewards: list[int | None]) -> None:
        self.judge = Judge(stream, rewards)
        self.tool = check_tool(self.judge, workspace, stream)  # type: ignore[arg-type]
        self.folder = workspace.folder

    async def run(self, **arguments: object) -> ToolResult:
        return await self.tool.run(arguments)


@pytest.fixture
def stream(workspace: Workspace, tmp_path: Path) -> Iterator[Stream]:
    (tmp_path / "session").mkdir()
    stream = Stream(SessionWriter(tmp_path / "session"), os.open(os.devnull, os.O_WRONLY), SessionState())
    files = {path: stream.blob(content) for path, content in workspace.files().items()}
    stream.emit(ev.SessionStarted(task=workspace.spec.to_json(), model="", device="cpu", versions={}, files=files))
    yield stream
    stream.writer.close()


async def test_the_untouched_original_is_no_attempt(workspace: Workspace, stream: Stream) -> None:
    result = await Checking(workspace, stream, []).run()
    assert not result.ok
    assert "model_new.py still is the original" in result.text
    assert stream.state.judged == []


async def test_a_verdict_is_used_again_and_the_way_to_a_fresh_one_is_told(workspace: Workspace, stream: Stream) -> None:
    checking = Checking(workspace, stream, [3, 3, 2])
    (workspace.folder / "kernels" / "a.cpp").write_text("// a kernel\n")
    assert (await checking.run()).text.startswith("Attempt 1 (quick)")
    again = await checking.run(tier="Quick")
    assert again.ok
    assert again.text.startswith("These very files were judged with tier quick already")
    assert "remeasure: true" in again.text
    assert "Attempt 1 (quick)" in again.text
    assert not checking.judge.fresh
    assert (await checking.run(remeasure=True)).text.startswith("Attempt 2 (quick)")
    assert checking.judge.fresh
    assert (await checking.run(tier="full")).text.startswith("Attempt 3 (full)")


async def test_a_disturbed_verdict_is_not_used_again(workspace: Workspace, stream: Stream) -> None:
    checking = Checking(workspace, stream, [None, 3])
    (workspace.folder / "kernels" / "a.cpp").write_text("// a kernel\n")
    await checking.run()
    assert (await checking.run()).text.startswith("Attempt 2 (quick): reward 3.")


async def test_a_verdict_too_long_for_a_model_is_told_in_part_and_kept_whole(
    workspace: Workspace, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = Checking(workspace, stream, [3, 3])
    (workspace.folder / "kernels" / "a.cpp").write_text("// a kernel\n")
    assert (await checking.run()).full is None
    kernels = tuple(KernelResources(f"kernel_{number}", 32, 0, 0) for number in range(20))
    built = BuildReport(ok=True, seconds=0.5, kernels=kernels)
    long = replace(make_verdict(), build=built)
    monkeypatch.setattr(f"{__name__}.make_verdict", lambda **_: long)
    result = await checking.run(remeasure=True)
    assert "... and 12 more" in result.text
    assert "kernel_19" not in result.text
    assert result.full is not None
    assert "kernel_19: 32 registers" in result.full
