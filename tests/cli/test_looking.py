"""``check`` with what looks closer, as a user runs it: what is printed, the exit codes, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.scale_task import Write, kernel

OPEN = "#ifndef TILE\n#define TILE 1\n#endif\n"
PHASE = "#ifndef ABLATE_PAUSE\n  for (volatile int i = 0; i < 200000; ++i) {}\n#endif"
READS_PAST_THE_END = "volatile float past = x[n * d]; (void)past;"


def test_a_fault_that_the_verdict_does_not_see_fails_the_check(cli: Cli, task: Path, candidate: Write) -> None:
    done = cli.check(task, candidate(kernel(before=READS_PAST_THE_END)), "--sanitize", "--ncu", "--json")
    assert done.code == 1, done.err
    verdict = json.loads(done.out)
    assert verdict["verify"]["ok"]
    assert verdict["sanitizer"]["ok"] is False
    (finding,) = verdict["sanitizer"]["findings"]
    assert finding["where"].startswith("kernels/scale_add.cpp:")
    assert "looks at NVIDIA GPUs" in verdict["ncu"]["problem"]
    assert not cli.left_behind()


def test_a_sweep_and_an_ablation_are_printed_and_are_no_verdict(cli: Cli, task: Path, candidate: Write) -> None:
    folder = candidate(OPEN + kernel(before=PHASE))
    swept = cli.check(task, folder, "--sweep", "TILE=1,2", "--sweep", "TILE=4")
    swept.says("Sweep (no verdict", "TILE=1", "TILE=4", "as the source has it")
    assert swept.code in (0, 3)
    ablated = cli.check(task, folder, "--ablate", "PAUSE", "--json")
    assert ablated.code in (0, 3), ablated.err
    data = json.loads(ablated.out)
    assert data["schema"] == "warpsmith.ablation/1"
    assert "reward" not in data
    assert not cli.left_behind()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sweep", "TILE"], ["no values for TILE", "TILE=32,64,128"]),
        (["--sweep", "NOPE=1,2"], ["No kernel file leaves NOPE open", "#ifndef NOPE"]),
        (["--sweep", "TILE=" + ",".join(map(str, range(40)))], ["40 combinations", "32"]),
        (["--sweep", "TILE=1", "--ablate", "all"], ["do not go together: --sweep, --ablate"]),
        (["--sweep", "TILE=1", "--full"], ["do not go together: --sweep, --full"]),
        (["--ablate", "NOPE"], ["NOPE cannot be left out", "no kernel file has such a phase"]),
        (["--output", "here"], ["--ncu keeps its report"]),
    ],
    ids=lambda value: " ".join(value)[:30] if value and value[0].startswith("--") else "",
)
def test_what_cannot_be_looked_at_is_refused_at_once(
    cli: Cli, task: Path, candidate: Write, options: list[str], words: list[str]
) -> None:
    done = cli.check(task, candidate(OPEN + kernel()), *options)
    done.says(*words)
    assert done.code == 2
    assert "loading" not in done.err
