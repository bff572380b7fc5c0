"""A session without a screen: what it prints where, and its exit code for each way it can end."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace

import psutil
import pytest

from agent import events as ev
from agent.events import EndReason
from agent.headless import land, narration, resume
from agent.outcome import next_line
from agent.session import create_session, find_session, read_state
from agent.store import SessionWriter, read_events
from sandbox.errors import ExitCode
from tests.agent.support import make_recording, make_settings, make_spec, make_turn, make_verdict
from tests.servers.headless_process import start_headless
from tests.servers.openai_server import OpenAIServer, Reply

DONE = make_turn("It cannot be made faster.")


def end_of(folder):
    """The last end of a run."""
    return [item.event for item in read_events(folder) if isinstance(item.event, ev.RunEnded)][-1]


def test_without_a_correct_candidate_it_is_1_and_the_summary_is_on_stdout(tmp_path):
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, DONE, DONE)}")
    done = start_headless(make_spec(tmp_path), settings).finish()
    assert done.returncode == ExitCode.FAILED
    assert done.stdout.splitlines() == [
        "ended: finished",
        "no correct candidate in 0 attempts",
        f"spent: 2 of 150 turns, {end_of(find_session(settings.home, 'last')).minutes:.1f} minutes",
        f"session: {find_session(settings.home, 'last')}",
        f"next: let the agent go on: warpsmith sessions resume {find_session(settings.home, 'last')}",
    ]
    assert "[1] It cannot be made faster." in done.stderr


def test_json_prints_events_only(tmp_path):
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, DONE, DONE)}")
    done = start_headless(make_spec(tmp_path), settings, json=True).finish()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    folder = find_session(settings.home, "last")
    assert [line for line in lines if "n" in line] == list(map(json.loads, (folder / "events.jsonl").open()))
    assert "delta" in {line["type"] for line in lines}


@pytest.mark.parametrize(("model", "said"), [("", "No model is chosen"), ("replay:nothing", "no recording")])
def test_without_a_model_it_is_3(tmp_path, model, said):
    done = start_headless(make_spec(tmp_path), make_settings(tmp_path, model=model)).finish()
    assert done.returncode == ExitCode.ENVIRONMENT
    assert said in done.stdout


def test_a_file_that_is_gone_is_2(tmp_path):
    spec = make_spec(tmp_path)
    spec.path.unlink()
    done = start_headless(spec, make_settings(tmp_path)).finish()
    assert done.returncode == ExitCode.USAGE
    assert "does not exist" in done.stderr


@pytest.mark.parametrize(
    "source",
    [
        "def broken(:\n" + "# padding\n" * 4000,
        "import a_package_that_is_nowhere",
        "from torch import nn\nclass Shifted(nn.Module):\n    def __init__(self, w):\n        raise OSError('no')",
    ],
    ids=["no python", "no such import", "raises"],
)
def test_a_task_that_cannot_be_used_is_2(tmp_path, source):
    sleep = make_turn("", ("Bash", {"command": "sleep 4321"}))
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, sleep)}")
    done = start_headless(make_spec(tmp_path, source), settings).finish()
    assert done.returncode == ExitCode.USAGE
    assert "task_unusable" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("next: mend that; where options have to change, begin anew")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_interrupts_the_run_and_is_130(tmp_path, number):
    sleep = make_turn("", ("Bash", {"command": "sleep 4321"}))
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, sleep)}")
    running = start_headless(make_spec(tmp_path), settings)
    for line in running.process.stderr:
        if "Bash" in line:
            break
    family = psutil.Process(running.process.pid).children(recursive=True)
    running.process.send_signal(number)
    time.sleep(0.05)
    running.process.send_signal(number)  # as from a shell's ``timeout``, which hands on what the terminal sent
    done = running.finish()
    assert done.returncode == ExitCode.INTERRUPTED
    assert "ended: interrupted" in done.stdout
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_an_engine_that_is_killed_is_a_fault_of_ours_and_the_session_can_go_on(tmp_path):
    sleep_once = make_turn("", ("Bash", {"command": "test -e slept || { touch slept; sleep 4321; }"}))
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, sleep_once, DONE, DONE)}")
    running = start_headless(make_spec(tmp_path), settings)
    for line in running.process.stderr:
        if "Bash" in line:
            break
    while not (find_session(settings.home, "last") / "workspace" / "slept").exists():
        time.sleep(0.05)
    engine = next(c for c in psutil.Process(running.process.pid).children() if "agent.engine" in c.cmdline())
    family = engine.children(recursive=True)
    engine.kill()
    assert running.finish().returncode == ExitCode.INTERNAL
    assert psutil.wait_procs(family, timeout=60)[1] == []
    assert resume(find_session(settings.home, "last")) == ExitCode.FAILED


def judged_before(tmp_path, **verdict):
    """A session in which one attempt was judged in full, and whose agent was cut off and has nothing more to do."""
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, DONE)}")
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    writer = SessionWriter(folder)
    blob = writer.blob(b"")
    files = {"shifted.py": blob}
    spec = make_spec(tmp_path).to_json()
    writer.append(ev.SessionStarted(task=spec, model="", device="cpu", versions={}, files=files))
    writer.append(ev.Attempt(attempt=1, files=files, verdict=make_verdict(tier="full", **verdict).to_json()))
    writer.append(ev.RunStarted(turn_limit=1))
    writer.close()
    return folder


def test_what_was_to_land_and_has_not_is_1_with_the_reason(tmp_path, capfd):
    assert resume(judged_before(tmp_path, reward=1), land="full-pass") == ExitCode.FAILED
    told = capfd.readouterr().out
    assert "not landed: attempt 1 was not seen to be faster than eager by a full verdict" in told


def test_landing_later_asks_no_model_and_is_1_where_nothing_is_left_to_land(tmp_path, capfd):
    folder = judged_before(tmp_path)
    runs = [item for item in read_events(folder) if isinstance(item.event, ev.RunStarted)]
    assert land(folder) == ExitCode.FAILED
    assert "Nothing of attempt 1 is left to land" in capfd.readouterr().err
    assert [item for item in read_events(folder) if isinstance(item.event, ev.RunStarted)] == runs


def test_landing_later_what_is_not_faster_is_1_with_the_reason(tmp_path, capfd):
    assert land(judged_before(tmp_path, reward=1)) == ExitCode.FAILED
    assert "not landed: attempt 1 was not seen to be faster than eager" in capfd.readouterr().err


def test_landing_later_what_could_not_be_timed_says_how_to(tmp_path, capfd):
    folder = judged_before(tmp_path, reward=None)
    assert land(folder) == ExitCode.FAILED
    assert f"To land it all the same: warpsmith sessions land {folder} --untimed" in capfd.readouterr().err


def test_a_session_that_is_open_elsewhere_is_not_offered_to_go_on(tmp_path):
    folder = judged_before(tmp_path)
    assert "warpsmith sessions resume" in next_line(read_state(folder), folder)
    writer = SessionWriter(folder)
    assert "open just now" in next_line(read_state(folder), folder)
    writer.close()


def test_resuming_counts_what_was_judged_before(tmp_path, capfd):
    folder = judged_before(tmp_path)
    assert resume(folder) == ExitCode.OK
    told = capfd.readouterr().out
    assert "best: attempt 1 of 1: reward 3, 2.00x eager [1.90, 2.10], 1.50x compile [1.40, 1.60] (full)" in told
    assert told.endswith(f"next: look at the changes and land them: warpsmith sessions resume {folder}\n")
    ends = [item.event for item in read_events(folder) if isinstance(item.event, ev.RunEnded)]
    assert [end.reason for end in ends] == [EndReason.INTERRUPTED, EndReason.FINISHED]
    assert (ends[-1].best_reward, ends[-1].best_speedup["eager"]["ratio"]) == (3, 2.0)


def test_narration_says_what_matters_and_nothing_else():
    message = {"role": "tool", "tool_call_id": "a", "content": "x"}
    assert narration(ev.ToolFinished(call_id="a", name="Read", ok=True, message=message, seconds=1)) == ""
    assert narration(ev.ToolStarted(call_id="a", name="Bash", arguments={"command": "ls\npwd"})) == "  Bash ls"
    assert (
        narration(ev.ModelRetry(turn=1, error="It was busy.", wait_seconds=2.0)) == "It was busy. Asking again in 2 s."
    )
    assert narration(ev.ErrorEvent(what="A.", where="b", next_step="C.")) == "A. (b) C."


def with_an_attempt(tmp_path, model, source="", tier="full", **settings):
    """A session in which another engine judged a state with a kernel, as a correct and fast one."""
    spec = make_spec(tmp_path, source) if source else make_spec(tmp_path)
    made = make_settings(tmp_path, model=model, **settings)
    folder = create_session(spec, made, made.home)
    writer = SessionWriter(folder)
    original, kernel = writer.blob(spec.path.read_bytes()), writer.blob(b"// fast\n")
    files = {"shifted.py": original}
    writer.append(ev.SessionStarted(task=spec.to_json(), model=model, device="cpu", versions={}, files=files))
    best = {**files, "kernels/a.cpp": kernel}
    writer.append(ev.Attempt(attempt=1, files=best, verdict=make_verdict(tier=tier).to_json()))
    writer.close()
    return folder


def test_the_developer_is_told_when_the_workspace_is_not_the_best_attempt(tmp_path, capsys):
    write = make_turn("", ("Write", {"file_path": "kernels/a.cpp", "content": "// slow"}))
    read = make_turn("", ("Read", {"file_path": "kernels/a.cpp"}))
    again = make_turn("", ("Write", {"file_path": "kernels/a.cpp", "content": "// fast\n"}))
    folder = with_an_attempt(tmp_path, f"replay:{make_recording(tmp_path, read, write, DONE, again, DONE)}")
    assert resume(folder) == ExitCode.OK
    said = "The workspace holds a state that was not judged; the best is attempt 1."
    assert said in capsys.readouterr().out.splitlines()
    assert end_of(folder).workspace == said
    resume(folder)
    assert end_of(folder).workspace == ""


@pytest.mark.parametrize("changes", [{}, {"contrast": False}], ids=["by default", "switched off"])
def test_variants_are_compared_by_default_and_what_came_of_it_is_told(tmp_path, capsys, changes):
    with OpenAIServer([Reply(text="It is memory bound; there is nothing to gain.")]) as server:
        folder = with_an_attempt(tmp_path, "openai/test", api_base=server.base_url, **changes)
        slower = replace(make_verdict(tier="full", ratio=1.2), source_sha256="another")
        writer = SessionWriter(folder)
        writer.append(ev.Attempt(attempt=2, files={"kernels/a.cpp": writer.blob(b"")}, verdict=slower.to_json()))
        writer.close()
        assert resume(folder) == ExitCode.OK
    asked = not changes
    assert ("compare two of your own variants" in server.requests[0]["messages"][-1]["content"]) == asked
    out, err = capsys.readouterr()
    assert ("asked to compare attempts 2 and 1" in err) == asked
    assert ("variants compared 1 time: no other code was judged after it" in out) == asked


def test_a_fault_of_the_last_measurement_does_not_replace_why_the_run_ended(tmp_path, capsys):
    model = f"replay:{make_recording(tmp_path, DONE)}"
    folder = with_an_attempt(tmp_path, model, "import a_package_that_is_nowhere", tier="quick")
    assert resume(folder) == ExitCode.OK
    out, err = capsys.readouterr()
    assert out.startswith("ended: finished\n")
    assert "a_package_that_is_nowhere" in err


def test_a_limit_of_money_without_a_price_is_refused_before_anything_is_asked(tmp_path, capsys):
    with OpenAIServer([Reply(text="never asked")]) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url, cost_limit_usd=1.0)
        folder = create_session(make_spec(tmp_path), settings, settings.home)
        assert resume(folder) == ExitCode.ENVIRONMENT
        out = capsys.readouterr().out
        assert "The price of openai/test is not known" in out
        assert "input_price_usd" in out
        assert server.requests == []
