"""The engine as a process: commands in, events out, and nothing lost however it ends."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import signal
import subprocess
import sys
import time
import venv

import psutil
import pytest

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.session import create_session
from agent.skill_places import left_out, project_of
from agent.state import SessionState
from agent.store import read_events
from sandbox.machine.pool import Pool
from sandbox.progress import silent
from tests.agent.support import make_recording, make_settings, make_spec, make_turn
from tests.servers.engine_process import EngineProcess
from tests.servers.openai_server import Call, OpenAIServer, Reply

DONE = make_turn("It cannot be made faster.")
SLEEP = make_turn("", ("Bash", {"command": "sleep 4321"}))


@pytest.fixture
def session(tmp_path):
    """Make sessions whose model plays these answers."""

    def make(*turns, source="", **settings):
        recording = make_recording(tmp_path, *turns)
        spec = make_spec(tmp_path, source) if source else make_spec(tmp_path)
        made = make_settings(tmp_path, **{"model": f"replay:{recording}", **settings})
        return create_session(spec, made, made.home)

    return make


def finished(event):
    return event.reason == EndReason.FINISHED


def folded(folder):
    state = SessionState()
    for item in read_events(folder):
        state.apply(item.event)
    return state


def kinds(folder):
    return [item.event.type for item in read_events(folder)]


@pytest.mark.parametrize("run", [False, True])
def test_an_engine_that_waits_for_the_device_ends_at_once_when_it_is_told_to(session, tmp_path, monkeypatch, run):
    monkeypatch.setenv("WARPSMITH_POOL", str(tmp_path / "pool"))
    busy = Pool("cpu", "other:Task", lambda: None).exclusive("profile", "timing", silent)
    with busy, EngineProcess(session(SLEEP, DONE)) as engine:
        engine.wait_for(ev.StageEvent, lambda event: "waiting for pid" in event.text)
        if run:
            engine.send(cmd.Run())
            engine.wait_for(ev.ToolStarted)
        engine.send(cmd.Close())
        assert engine.finish() == 0
    assert b"Traceback" not in engine.errors
    assert b"never retrieved" not in engine.errors


def test_a_whole_run_over_http_is_on_disk_as_it_was_on_the_pipe(tmp_path):
    done = Reply(text="It cannot be made faster.")
    with OpenAIServer([Reply(text="Look.", calls=[Call("Read", {"file_path": "shifted.py"})]), done, done]) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url)
        folder = create_session(make_spec(tmp_path), settings, settings.home)
        with EngineProcess(folder) as engine:
            ready = engine.wait_for(ev.EngineReady)
            assert ready.folder == str(folder)
            engine.send(cmd.Run())
            ended = engine.wait_for(ev.RunEnded)
            assert (ended.reason, ended.best_attempt) == (EndReason.FINISHED, None)
            engine.send(cmd.Close())
            assert engine.finish() == 0
    stored = [line for line in engine.lines if "n" in line]
    assert [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()] == stored
    assert [line["n"] for line in stored] == list(range(1, len(stored) + 1))
    assert kinds(folder)[0] == "session_started"
    assert any(isinstance(event, ev.Delta) for event in engine.seen)
    system = server.requests[0]["messages"][0]["content"]
    assert "from shifted_kernels import" in system
    assert str(folder) not in json.dumps(server.requests)
    names = {tool["function"]["name"] for tool in server.requests[0]["tools"]}
    assert {"Bash", "Read", "Write", "Edit", "Grep", "Glob", "TodoWrite", "Check", "Profile", "Skill"} <= names


def test_a_skill_that_is_trusted_before_the_agent_begins_is_in_its_prompt_and_later_in_the_next_sessions(tmp_path):
    with OpenAIServer([Reply(text="Done.")] * 4) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url)
        spec = make_spec(tmp_path)
        for name in ("early", "late"):
            skill = spec.root / ".agents" / "skills" / name / "SKILL.md"
            skill.parent.mkdir(parents=True)
            skill.write_text(f"---\nname: {name}\ndescription: About {name} tiles.\n---\nTile it.\n")
        early, late = (
            {str(folder): files} for folder, files in sorted(left_out(settings.home, project_of(spec)).items())
        )
        with EngineProcess(create_session(spec, settings, settings.home)) as engine:
            engine.send(cmd.TrustSkills(early))
            engine.send(cmd.Run())
            engine.wait_for(ev.RunEnded)
            engine.send(cmd.TrustSkills(late))
            assert not engine.wait_for(ev.SkillsTrusted).used
    assert [event.used for event in engine.seen if isinstance(event, ev.SkillsTrusted)] == [True, False]
    system = server.requests[-1]["messages"][0]["content"]
    assert "About early tiles." in system
    assert "About late tiles." not in system
    assert left_out(settings.home, project_of(spec)) == {}


def test_the_file_that_the_opening_shows_whole_counts_as_read(session):
    write = ("Write", {"file_path": "shifted.py", "content": "# mine\n"})
    run = ("Bash", {"command": "echo '# changed' > shifted.py"})
    for turn, fine in ((make_turn("", write), [True]), (make_turn("", run, write), [True, False])):
        folder = session(turn, DONE, DONE)
        with EngineProcess(folder) as engine:
            engine.send(cmd.Run())
            engine.wait_for(ev.RunEnded)
        assert [item.event.ok for item in read_events(folder) if isinstance(item.event, ev.ToolFinished)] == fine


def test_a_kill_in_the_middle_of_an_answer_loses_only_the_answer(session):
    folder = session(make_turn("", ("Glob", {"pattern": "*"})), DONE, DONE, replay_delay=5.0)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.Delta, lambda event: event.turn == 2)
        engine.process.kill()
    before = folded(folder).messages
    with EngineProcess(folder) as engine:
        assert engine.wait_for(ev.RunEnded).reason == EndReason.INTERRUPTED
        engine.send(cmd.Run())
        engine.wait_for(ev.RunEnded, finished)
    after = folded(folder).messages
    assert [message["role"] for message in before] == ["system", "user", "assistant", "tool"]
    assert after[: len(before)] == before
    assert "The session was resumed" in after[len(before)]["content"]


def test_a_kill_in_the_middle_of_a_tool_gives_the_call_a_result_on_resuming(session):
    calls = [
        ("Write", {"file_path": "kernels/a.cpp", "content": "// a"}),
        ("Bash", {"command": "test -e slept || { touch slept; sleep 99; }"}),
    ]
    folder = session(make_turn("", *calls), DONE, DONE)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.ToolStarted, lambda event: event.name == "Bash")
        while not (folder / "workspace" / "slept").exists():
            time.sleep(0.05)
        family = psutil.Process(engine.process.pid).children(recursive=True)
        engine.process.kill()
    assert psutil.wait_procs(family, timeout=60)[1] == []
    with EngineProcess(folder) as engine:
        assert "shell" in engine.wait_for(ev.SessionResumed).note
        engine.send(cmd.Steer("use float4"))
        engine.wait_for(ev.RunEnded, finished)
    assert (folder / "workspace" / "kernels" / "a.cpp").read_text() == "// a"
    messages = folded(folder).messages
    written, cut_off, again = (message["content"] for message in messages if message["role"] == "tool")
    assert "Interrupted" in cut_off
    assert "Interrupted" not in written + again
    assert {"role": "user", "content": "[developer] use float4"} in messages
    state = SessionState()
    for item in read_events(folder):
        if isinstance(item.event, ev.ModelTurn):
            assert item.event.prompt_sha256 == state.prompt_sha256
        state.apply(item.event)


def compilers(engine):
    """The compilers that the engine has started, all of them below it."""
    return [each for each in psutil.Process(engine.process.pid).children(recursive=True) if name_of(each) == "cc1plus"]


def name_of(process):
    with contextlib.suppress(psutil.NoSuchProcess):  # it may end while it is looked at
        return process.name()


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_what_is_built_ahead_ends_with_the_run(session, how):
    """The kernel takes a compiler minutes, so that only an end from outside ends it in time."""
    loops = "for (int k = 0; k < 2000; ++k) for (int i = 0; i < 1000; ++i)"
    slow = f"constexpr int spin(int n) {{ {loops} n ^= i; return n; }}\n"
    slow += "".join(f"constexpr int v{n} = spin({n});\n" for n in range(500))
    folder = session(make_turn("", ("Write", {"file_path": "kernels/a.cpp", "content": slow})), SLEEP)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.ToolStarted, lambda event: event.name == "Bash")
        while not (found := compilers(engine)):
            time.sleep(0.05)
        if how == "interrupt":
            engine.send(cmd.Interrupt())
            engine.wait_for(ev.RunEnded)
        else:
            engine.process.kill()
        assert psutil.wait_procs(found, timeout=60)[1] == []


@pytest.mark.parametrize("changed", [False, True])
def test_what_the_model_saw_before_a_kill_counts_as_seen_unless_it_was_changed(session, changed):
    write = ("Write", {"file_path": "./kernels/a.cpp", "content": "// a"})
    hang = ("Bash", {"command": "test -e slept || { touch slept; sleep 99; }"})
    folder = session(make_turn("", write, hang), make_turn("", write), DONE, DONE)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        while not (folder / "workspace" / "slept").exists():
            time.sleep(0.05)
        engine.process.kill()
    if changed:
        (folder / "workspace" / "kernels" / "a.cpp").write_text("// by another hand")
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.RunEnded, finished)
    done = [item.event for item in read_events(folder) if isinstance(item.event, ev.ToolFinished)]
    assert [event.ok for event in done if event.name == "Write"] == [True, not changed]


def test_killed_again_and_again_and_in_the_middle_of_a_line_it_tells_everything_once(session):
    folder = session(DONE, DONE, DONE, replay_delay=2.0)
    for before in (cmd.Steer("use float4"), cmd.Run(), cmd.Run()):
        with EngineProcess(folder) as engine:
            engine.send(before)
            engine.wait_for(ev.Delta)
            engine.process.kill()
        with (folder / "events.jsonl").open("ab") as file:
            file.write(b'{"n": 99, "type": "user_message", "message": {"role": "us')
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.RunEnded, finished)
    told = [m["content"] for m in folded(folder).messages if m["role"] == "user"]
    assert sum("use float4" in text for text in told) == 1
    lines = (folder / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(1, len(lines) + 1))


def test_it_is_said_once_that_the_shell_is_a_new_one_until_the_model_answers(session):
    folder = session(make_turn("", ("Glob", {"pattern": "*"})), DONE, DONE, replay_delay=2.0)
    for turn in (2, 2):
        with EngineProcess(folder) as engine:
            engine.send(cmd.Run())
            engine.wait_for(ev.Delta, lambda event, turn=turn: event.turn == turn)
            engine.process.kill()
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.RunEnded, finished)
    assert sum("The session was resumed" in m["content"] for m in folded(folder).messages) == 1


def test_interrupting_an_answer_ends_the_run_and_the_next_run_goes_on(session):
    folder = session(DONE, DONE, replay_delay=3.0)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.Delta)
        engine.send(cmd.Interrupt())
        engine.send(cmd.Interrupt())
        assert engine.wait_for(ev.RunEnded).reason == EndReason.INTERRUPTED
        engine.send(cmd.Steer("go on then"))
        engine.wait_for(ev.RunEnded, finished)
    assert kinds(folder).count("interrupted") == 1
    assert folded(folder).messages[2] == {"role": "user", "content": "[developer] go on then"}


def test_interrupting_nothing_leaves_no_trace(session):
    folder = session()
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
        engine.send(cmd.Interrupt())
    assert "interrupted" not in kinds(folder)


@pytest.mark.parametrize("how", ["close", "eof", "sigterm", "sigint"])
def test_however_it_is_told_to_it_ends_cleanly_and_takes_its_processes_with_it(session, how):
    folder = session(SLEEP)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.ToolStarted)
        family = psutil.Process(engine.process.pid).children(recursive=True)
        if how == "close":
            engine.send(cmd.Close())
        elif how == "eof":
            engine.close_stdin()
        else:
            engine.process.send_signal(signal.SIGTERM if how == "sigterm" else signal.SIGINT)
        assert engine.finish() == 0
    assert kinds(folder)[-1] == "run_ended"
    assert [event.reason for event in engine.seen if isinstance(event, ev.RunEnded)] == [EndReason.INTERRUPTED]
    assert psutil.wait_procs(family, timeout=60)[1] == []
    assert not (folder / "scratch").exists()


def test_a_second_engine_is_refused_with_a_message_and_disturbs_nothing(session):
    folder = session()
    with EngineProcess(folder) as first:
        first.wait_for(ev.EngineReady)
        with EngineProcess(folder) as second:
            refusal = second.wait_for(ev.ErrorEvent)
            assert f"process {first.process.pid}" in refusal.what
            assert second.finish() == 2
        first.send(cmd.Steer("still there"))
        first.wait_for(ev.Steered)


def test_what_is_no_command_is_answered_and_the_engine_goes_on(session):
    folder = session()
    with EngineProcess(folder) as engine:
        for line in ("{", '{"type": "dance"}', '{"type": "steer"}', "[1]"):
            engine.send_line(line)
            assert "no command" in engine.wait_for(ev.ErrorEvent).what
        engine.send(cmd.RejectHunk(7, "a.py", "1", "no"))
        assert engine.wait_for(ev.ErrorEvent).what == "There is no attempt 7."
        engine.send(cmd.Land(7))
        assert engine.wait_for(ev.LandingRefusedEvent).what == "There is no attempt 7."
        engine.send(cmd.Undo(3))
        assert "no landing 3" in engine.wait_for(ev.LandingRefusedEvent).what


@pytest.mark.parametrize(("model", "said"), [("", "No model is chosen"), ("replay:nothing", "no recording")])
def test_without_a_model_the_session_opens_and_a_run_ends_with_the_reason(tmp_path, model, said):
    settings = make_settings(tmp_path, model=model)
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
        engine.send(cmd.Run())
        ended = engine.wait_for(ev.RunEnded)
    assert ended.reason == EndReason.MODEL_ERROR
    assert said in ended.detail


def test_a_task_that_raises_ends_the_run_as_unusable(session):
    source = "from torch import nn\nclass Shifted(nn.Module):\n    def __init__(self, width):\n        raise ValueError('no')\n"
    folder = session(SLEEP, source=source)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        ended = engine.wait_for(ev.RunEnded)
    assert ended.reason == EndReason.TASK_UNUSABLE
    assert "no" in ended.detail


def test_an_interpreter_without_torch_is_a_fault_of_the_environment(tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / "bin" / "python"
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, SLEEP)}")
    folder = create_session(make_spec(tmp_path).with_changes(python=bare), settings, settings.home)
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        ended = engine.wait_for(ev.RunEnded)
    assert ended.reason == EndReason.ENVIRONMENT


def test_a_full_disk_ends_the_run_with_its_reason_and_the_session_goes_on_with_room(session):
    folder = session(DONE, DONE)
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
        room = (folder / "events.jsonl").stat().st_size + 2_000
        resource.prlimit(engine.process.pid, resource.RLIMIT_FSIZE, (room, room))
        engine.send(cmd.Run())
        ended = engine.wait_for(ev.RunEnded)
        assert ended.reason == EndReason.ENVIRONMENT
        assert "cannot be written" in ended.detail
        engine.send(cmd.Close())
        assert engine.finish() == 0
    assert (folder / "events.jsonl").read_bytes().endswith(b"\n")
    with EngineProcess(folder) as engine:
        engine.send(cmd.Run())
        engine.wait_for(ev.RunEnded, finished)


def test_a_workspace_that_is_gone_is_made_again_from_the_blobs(session):
    folder = session()
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
    shutil.rmtree(folder / "workspace")
    with EngineProcess(folder) as engine:
        assert "made again as of the start" in engine.wait_for(ev.SessionResumed).note
        engine.wait_for(ev.EngineReady)
    assert "class Shifted" in (folder / "workspace" / "shifted.py").read_text()


CLAIM = """
import os
from agent.engine import _claim_pipes
source, output = _claim_pipes()
print("from a library", flush=True)
os.system("echo from a child; cat")
os.write(output, b"event\\n")
os.write(output, os.read(source, 100))
"""


def test_libraries_and_children_reach_neither_pipe():
    done = subprocess.run([sys.executable, "-c", CLAIM], input=b"command", capture_output=True, check=True)
    assert done.stdout == b"event\ncommand"
    assert done.stderr == b"from a library\nfrom a child\n"


def test_packages_of_the_working_directory_are_never_taken_for_ours(session, tmp_path, monkeypatch):
    for name in ("agent", "sandbox", "app", "skills", "trainer"):
        package = tmp_path / "project" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('the project of the developer')")
    folder = session()
    monkeypatch.chdir(tmp_path / "project")
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
