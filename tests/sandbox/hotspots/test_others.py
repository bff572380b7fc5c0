"""What a command is watched beside and with: other programs, room for captures; and that the end of it is quiet."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sandbox.hotspots.command import parse_command
from sandbox.hotspots.others import OthersWatch
from sandbox.hotspots.recording import read_recording
from sandbox.hotspots.run import Limits, watch
from tests.sandbox.hotspots.conftest import Run

BURN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
ENDLESS = """\
import torch
from net.blocks import Net

net = Net()
with torch.no_grad():
    while True:
        net(torch.zeros(2, 16))
"""


def _burner(parent: str) -> subprocess.Popen[bytes]:
    """Start what keeps a processor busy: as our child, or as nobody's, which tells its pid."""
    if parent == "ours":
        return subprocess.Popen([sys.executable, "-c", BURN])
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {BURN!r}], stdout=2).pid)"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def test_what_ours_have_of_the_processors_is_not_told_and_what_others_have_is() -> None:
    watch = OthersWatch()
    ours = _burner("ours")
    try:
        time.sleep(2.0)
        watch.look()
    finally:
        ours.kill()
        ours.wait()
    assert sum(watch._ours.values()) - watch._had > 0.2, "a process of ours was not counted as ours"
    starter = _burner("nobody's")
    assert starter.stdout is not None
    other = psutil.Process(int(starter.stdout.read()))
    starter.wait()
    try:
        watch, began, before = OthersWatch(), time.monotonic(), sum(other.cpu_times()[:2])
        time.sleep(2.0)
        busy = watch.processors()
        burnt = (sum(other.cpu_times()[:2]) - before) / (time.monotonic() - began)
    finally:
        other.kill()
    assert busy >= min(0.25, 0.8 * burnt)


@pytest.mark.timeout(120)
def test_inputs_that_find_no_room_say_which_option_gives_them_more(run: Run, tmp_path: Path) -> None:
    run(ENDLESS.replace("while True", "for _ in range(9)"), capture_bytes=16)
    manifest = json.loads((tmp_path / "recording" / "captures" / "Net" / "manifest.json").read_text())
    assert "16 are left for captures" in manifest["refused"]
    assert "--capture-mb" in manifest["next_step"]


@pytest.mark.timeout(120)
def test_a_script_that_was_watched_for_long_enough_ends_without_a_traceback(
    project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "serve.py").write_text(ENDLESS)
    folder = tmp_path / "recording"
    folder.mkdir()
    end = watch(parse_command([sys.executable, "-W", "ignore", "serve.py"]), folder, Limits(steps=20), lambda _: None)
    assert end.status is None
    assert read_recording(folder).processes[0].complete
    assert "Traceback" not in capfd.readouterr().err
