"""A whole session for real: an agent that errs once, the judge on the CPU, a landing, a replay, a kill in the middle."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.landing.index import read_index
from agent.session import create_session, find_session, summarise
from agent.state import SessionState
from agent.store import read_events
from tests.agent.support import MODULE, UNCOMPILED, make_recording, make_settings, make_spec, make_turn
from tests.servers.engine_process import EngineProcess
from tests.servers.headless_process import start_headless
from tests.servers.openai_server import Call, OpenAIServer, Reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("end to end")]

KERNEL = """#include <cstdint>

extern "C" int fused_shift(const float* x, const float* scale, float* out, int64_t rows, int64_t width) {
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * width;
        float* to = out + row * width;
        for (int64_t i = 0; i < width; ++i) {
            float y = in[i] * scale[i] + 1.0f;
            y = y < -2.0f ? -2.0f : (y > 2.0f ? 2.0f : y);
            to[i] = y * y - in[i];
        }
    }
    return 0;
}
"""
CANDIDATE = '''"""A small module."""

import torch
from torch import nn

from shifted_kernels import fused_shift


class Shifted(nn.Module):
    """Scale, shift, clamp and squash in one pass over memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        fused_shift(x, self.scale, out, x.shape[0], x.shape[1])
        return out
'''
FILE = "kernels/shifted.cpp"
SCRIPT = [
    Reply(text="Where does the time go?", calls=[Call("Profile"), Call("Read", {"file_path": "shifted.py"})]),
    Reply(
        text="One fused pass: I expect 2x.",
        calls=[
            Call("Write", {"file_path": FILE, "content": KERNEL.replace("return 0;", "return 0")}),
            Call("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
            Call("Check", {"note": "fused, 2x expected"}),
        ],
    ),
    Reply(
        text="A semicolon is missing.",
        calls=[
            Call("Edit", {"file_path": FILE, "old_string": "return 0\n", "new_string": "return 0;\n"}),
            Call("Check", {"tier": "quick"}),
            Call("Check", {"tier": "quick"}),
        ],
    ),
    Reply(text="The fused kernel is correct."),
]


def fold(folder):
    state = SessionState()
    for item in read_events(folder):
        state.apply(item.event)
    return state


def outcomes(folder):
    """What a replay has to reproduce: each attempt's parts, and each call's success.

    How often one state is judged again depends on how busy the machine is.
    """
    attempts = [
        [None if part is None else part.ok for part in (j.verdict.build, j.verdict.guard, j.verdict.verify)]
        for j in fold(folder).judged
    ]
    calls = [(i.event.name, i.event.ok) for i in read_events(folder) if isinstance(i.event, ev.ToolFinished)]
    return [parts for parts, _ in itertools.groupby(attempts)], calls


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One scripted session, run without a screen; what it printed, its status, and where it is."""
    folder = tmp_path_factory.mktemp("recorded")
    with OpenAIServer(SCRIPT) as server:
        settings = make_settings(folder, model="openai/test", api_base=server.base_url)
        done = start_headless(make_spec(folder, compiled=True), settings, json=True).finish()
    return done, settings, find_session(settings.home, "last"), server.requests


def test_the_session_finds_a_correct_candidate_after_a_compile_error(recorded):
    done, _, folder, requests = recorded
    assert done.returncode == 0, done.stderr
    state = fold(folder)
    first, second, *_ = state.judged
    assert not first.verdict.build.ok
    assert first.verdict.build.diagnostics[0].file.endswith("shifted.cpp")
    assert second.verdict.correct
    assert second.verdict.profile.samples or second.verdict.profile.disturbed
    results = {m["tool_call_id"]: m["content"] for m in requests[2]["messages"] if m["role"] == "tool"}
    assert "shifted.cpp:13" in results["call_2_Check"] or "shifted.cpp:14" in results["call_2_Check"]
    again = requests[3]["messages"][-1]["content"]
    settled = state.judgement(second.files, "quick") == second
    assert again.startswith("These very files were judged with tier quick already" if settled else "Attempt 3 (quick)")
    profile = next(m["content"] for m in requests[1]["messages"] if m.get("tool_call_id") == "call_0_Profile")
    assert "x: float32 [32, 256] contiguous" in profile


def test_every_kernel_was_built_before_its_check_was_asked_for(recorded):
    _, _, folder, _ = recorded
    stages = [item.event.text for item in read_events(folder) if isinstance(item.event, ev.StageEvent)]
    assert "building the kernels" in stages
    assert not [text for text in stages if text.startswith("compiling")]


def test_the_best_attempt_is_measured_again_in_full_before_it_is_called_the_best(recorded):
    _, _, folder, _ = recorded
    state = fold(folder)
    assert "full" in {judged.verdict.tier for judged in state.judged if judged.files == state.best.files}


def test_json_on_stdout_is_the_stream_of_the_session(recorded):
    done, _, folder, _ = recorded
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line for line in lines if "n" in line] == [
        json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()
    ]
    assert lines[-1]["type"] == "run_ended"


def test_the_list_shows_it(recorded):
    summary = summarise(recorded[2])
    assert summary.outcome == "finished"
    assert summary.attempts >= 3


def test_replaying_it_gives_the_same_outcome_with_todays_samples(recorded, tmp_path):
    _, settings, folder, _ = recorded
    replaying = make_settings(tmp_path, model=f"replay:{folder}", cache=settings.cache)
    done = start_headless(make_spec(tmp_path), replaying).finish()
    assert done.returncode == 0, done.stderr
    today = find_session(replaying.home, "last")
    assert outcomes(today) == outcomes(folder)
    measured = [fold(session).best.verdict.profile for session in (today, folder)]
    assert measured[0].samples != measured[1].samples or any(profile.disturbed for profile in measured)
    assert "best: attempt" in done.stdout
    assert f"session: {today}" in done.stdout.splitlines()
    assert "attempt 1: reward -1" in done.stderr


def test_a_replay_on_another_module_diverges_and_says_where(recorded, tmp_path):
    _, settings, folder, _ = recorded
    other = MODULE.replace("return y * y - x", "return y * y + x")
    replaying = make_settings(tmp_path, model=f"replay:{folder}", cache=settings.cache)
    done = start_headless(make_spec(tmp_path, other), replaying).finish()
    assert done.returncode == 1
    assert "replay_diverged" in done.stdout
    assert "Check" in done.stdout


def test_it_is_accepted_in_part_judged_landed_and_undone_byte_by_byte(recorded, tmp_path):
    _, _, folder, _ = recorded
    copy = tmp_path / "sessions" / folder.name
    shutil.copytree(folder, copy)
    about = json.loads((copy / "session.json").read_text())
    about["task"]["env"] = UNCOMPILED
    (copy / "session.json").write_text(json.dumps(about))
    project = Path(about["task"]["root"])
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with EngineProcess(copy) as engine:
        engine.wait_for(ev.EngineReady)
        engine.send(cmd.RejectHunk(2, FILE, "file", "not in our tree"))
        engine.send(cmd.Land(2))
        refused = engine.wait_for(ev.LandingRefusedEvent, seconds=300)
        assert "not correct" in refused.what
        assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
        engine.send(cmd.AcceptHunk(2, FILE, "file"))
        engine.send(cmd.Land(2))
        landed = engine.wait_for(ev.Landed, seconds=300)
        assert not landed.partial
        assert "fused_shift" in (project / "shifted.py").read_text()
        assert (project / "shifted_kernels").is_dir()
        assert list(read_index(project)) == ["shifted.py:Shifted"]
        engine.send(cmd.Undo(landed.landing))
        engine.wait_for(ev.Undone)
        engine.send(cmd.Redo(landed.landing))
        engine.wait_for(ev.Landed)
        assert "fused_shift" in (project / "shifted.py").read_text()
        engine.send(cmd.Undo(landed.landing + 1))
        engine.wait_for(ev.Undone)
    after = {p: p.read_bytes() for p in project.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert after == before
    told = [text for _, text in fold(copy).steering]
    assert "not in our tree" in told[0]


def test_a_kill_while_the_judge_works_loses_nothing_that_was_judged(recorded, tmp_path):
    _, settings, folder, _ = recorded
    spec = make_spec(tmp_path)
    replaying = make_settings(tmp_path, model=f"replay:{folder}", cache=settings.cache)
    killed = create_session(spec, replaying, replaying.home)
    with EngineProcess(killed) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.Attempt, seconds=300)
        engine.wait_for(ev.StageEvent, lambda event: event.part in ("verify", "profile"), seconds=300)
        engine.process.kill()
    with EngineProcess(killed) as engine:
        assert engine.wait_for(ev.RunEnded).reason == EndReason.INTERRUPTED
        state = fold(killed)
        assert len(state.judged) == 1
        assert state.open_calls == {}
        assert (killed / "workspace" / FILE).read_text() == KERNEL


def test_interrupting_the_judge_stops_it_and_the_next_run_judges_again(recorded, tmp_path):
    _, settings, _, _ = recorded
    read = ("Read", {"file_path": "shifted.py"})
    writes = (
        ("Write", {"file_path": FILE, "content": KERNEL}),
        ("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
    )
    check = ("Check", {})
    recording = make_recording(tmp_path, make_turn("", read, *writes, check), make_turn("Done."))
    replaying = make_settings(tmp_path, model=f"replay:{recording}", cache=settings.cache)
    folder = create_session(make_spec(tmp_path), replaying, replaying.home)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.ToolStarted, lambda event: event.name == "Check", seconds=300)
        engine.wait_for(ev.StageEvent, lambda event: event.part == "verify", seconds=300)
        engine.send(cmd.Interrupt())
        assert engine.wait_for(ev.RunEnded).reason == EndReason.INTERRUPTED
        assert fold(folder).judged == []
        engine.send(cmd.Run())
        assert engine.wait_for(ev.Attempt, seconds=300).verdict["verify"]["ok"]
        ended = engine.wait_for(ev.RunEnded, seconds=300)
    assert ended.reason == EndReason.FINISHED
    assert ended.best_attempt is not None
