"""Which attempts are measured again at the end of a run, and how."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from agent import events as ev
from agent.measured_again import measure_best_again
from agent.state import SessionState
from agent.store import SessionWriter
from agent.stream import Stream
from tests.agent.support import make_verdict


class Judge:
    """Stands in for the judge: says of an attempt's code, told by the file's content, what is next in its list."""

    def __init__(self, stream, **verdicts):
        self.stream, self.verdicts, self.asked = stream, verdicts, []

    async def attempt(self, files, tier, *, fresh=False):
        (code,) = files.values()
        self.asked.append((code.decode(), tier, fresh))
        verdict = replace(make_verdict(tier=tier, **self.verdicts[code.decode()].pop(0)), source_sha256=code.decode())
        hashes = {path: self.stream.blob(content) for path, content in files.items()}
        number = len(self.stream.state.judged) + 1
        self.stream.emit(ev.Attempt(attempt=number, files=hashes, verdict=verdict.to_json()))
        return self.stream.state.judged[-1]


@pytest.fixture
def stream(tmp_path):
    writer = SessionWriter(tmp_path)
    yield Stream(writer, os.open(os.devnull, os.O_WRONLY), SessionState())
    writer.close()


@pytest.mark.parametrize(
    ("tier", "checked", "then"),
    [
        ("full", ["slow"], [("slow", "full", False)]),
        ("full", ["slow", "lucky"], [("lucky", "full", False), ("slow", "full", False)]),
        ("quick", ["slow"], []),
        ("correctness", ["slow", "lucky"], []),
        ("quick", ["slow", "lucky"], [("lucky", "quick", True), ("slow", "quick", True)]),
    ],
)
async def test_the_best_is_measured_again_until_one_stays_the_best(stream, tier, checked, then):
    slow, lucky = {"ratio": 2.0}, [{"ratio": 4.0}, {"ratio": 1.5}]
    judge = Judge(stream, slow=[slow, slow], lucky=lucky)
    for code in checked:
        await judge.attempt({"a.cpp": code.encode()}, "quick")
    judge.asked.clear()
    await measure_best_again(stream, judge, tier)
    assert judge.asked == then


@pytest.mark.parametrize(
    ("checked", "then", "best"),
    [
        (["untimed"], ["untimed"], "untimed"),
        (["slow", "untimed"], ["untimed"], "untimed"),
        (["untimed", "slow"], ["slow"], "slow"),
        (["slow", "still"], ["still", "slow"], "slow"),
        (["still"], ["still"], "still"),
        (["lost"], ["lost"], "lost"),
    ],
)
async def test_what_is_right_and_had_no_time_at_the_end_is_measured_once_more(stream, checked, then, best):
    none, slow, fast = {"reward": None}, {"ratio": 2.0}, {"ratio": 4.0}
    judge = Judge(stream, slow=[slow, slow], untimed=[none, fast], still=[none, none], lost=[slow, none])
    for code in checked:
        await judge.attempt({"a.cpp": code.encode()}, "quick")
    judge.asked.clear()
    await measure_best_again(stream, judge, "full")
    assert [code for code, _, _ in judge.asked] == then
    assert stream.state.best.verdict.source_sha256 == best


async def test_nothing_is_measured_where_nothing_is_right_or_the_best_was_measured_in_full(stream):
    judge = Judge(stream, wrong=[{"ok": False}], right=[{"ratio": 2.0}])
    await judge.attempt({"a.cpp": b"wrong"}, "quick")
    await measure_best_again(stream, judge, "full")
    await judge.attempt({"a.cpp": b"right"}, "full")
    await measure_best_again(stream, judge, "full")
    assert len(judge.asked) == 2
