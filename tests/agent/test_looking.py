"""Sweep, Ablate and Sanitize as the agent uses them: a session of the real engine, whose calls are recorded like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.session import create_session
from agent.store import read_events
from tests.agent.support import MODULE, make_recording, make_settings, make_spec, make_turn
from tests.servers.engine_process import EngineProcess

CANDIDATE = MODULE.replace("import torch\n", "import torch\nfrom shifted_kernels import shifted\n", 1).replace(
    MODULE[MODULE.index("        y = x * self.scale") :],
    "        out = torch.empty_like(x)\n        shifted(x, self.scale, out, x.shape[0], x.shape[1])\n        return out\n",
)
KERNEL = """\
#include <algorithm>
#include <cstdint>
#ifndef BLOCK
#define BLOCK 16
#endif
extern "C" int shifted(const float* x, const float* scale, float* out, int64_t rows, int64_t width) {
#ifndef ABLATE_PAUSE
  for (volatile int i = 0; i < 100000; ++i) {}
#endif
  for (int64_t first = 0; first < rows * width; first += BLOCK)
    for (int64_t i = first; i < std::min<int64_t>(rows * width, first + BLOCK); ++i) {
      float y = std::min(2.0f, std::max(-2.0f, x[i] * scale[i % width] + 1.0f));
      out[i] = y * y - x[i];
    }
  return 0;
}
"""
WRITES = make_turn(
    "",
    ("Write", {"file_path": "shifted.py", "content": CANDIDATE}),
    ("Write", {"file_path": "kernels/a.cpp", "content": KERNEL}),
)
LOOKS = make_turn(
    "",
    ("Sweep", {"defines": {"BLOCK": [16, 64]}}),
    ("Ablate", {}),
    ("Sanitize", {}),
    ("Sweep", {"defines": {"TILE": [1, 2]}}),
    ("Sweep", {"defines": {"BLOCK": ["a b"]}}),
    ("Ncu", {}),
    turn=2,
)


@pytest.mark.long
def test_the_agent_looks_closer_and_nothing_of_it_counts(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, WRITES, LOOKS, make_turn("Done.", turn=3))
    settings = make_settings(tmp_path, model=f"replay:{recording}")
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    with EngineProcess(folder) as engine:
        engine.wait_for(ev.EngineReady)
        engine.send(cmd.Run())
        ended = engine.wait_for(ev.RunEnded, seconds=240)
        engine.send(cmd.Close())
    assert (ended.reason, ended.best_attempt) == (EndReason.FINISHED, None)
    stored = [item.event for item in read_events(folder)]
    assert not [event for event in stored if isinstance(event, ev.Attempt)]
    results = [event for event in stored if isinstance(event, ev.ToolFinished)][2:]
    sweep, ablate, sanitize, not_open, no_value, ncu = (str(event.message["content"]) for event in results)
    assert [event.ok for event in results] == [True, True, True, False, False, False]
    assert sweep.startswith("Sweep (no verdict")
    assert "BLOCK=64" in sweep
    assert "as the source has it" in sweep
    assert "never counts" in ablate
    assert sanitize.startswith("sanitizer: nothing found by address, undefined")
    assert "No kernel file leaves TILE open" in not_open
    assert "'a b' is not a value for BLOCK" in no_value
    assert "no tool 'Ncu'" in ncu  # a session on the CPU has none
