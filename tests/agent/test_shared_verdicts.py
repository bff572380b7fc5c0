"""Verdicts that sessions have in common: of the same code, of one task, and judged by one session while the others wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent.session import create_session, open_session
from agent.shared_verdicts import SharedVerdicts
from agent.state import Judged
from sandbox.original import NOT_TRUSTED
from tests.agent.support import make_settings, make_spec, make_verdict

CODE = {"kernels/a.cpp": b"int a;", "shifted.py": b"x = 1"}
LAID_OUT = {"kernels/a.cpp": b"// mine\nint  a ;", "shifted.py": b"x  =  1  # one"}
OTHER = {**CODE, "kernels/a.cpp": b"int b;"}


@pytest.fixture
def sharing(tmp_path):
    """Make a session, of a search, of a step of a cycle, or of nothing, and return what it shares."""
    settings = make_settings(tmp_path)
    step, search = {"verdicts": tmp_path / "step"}, {"search": {"folder": str(tmp_path / "search"), "base": None}}

    def make(of, **spec):
        session = create_session(
            replace(make_spec(tmp_path), **spec),
            settings,
            settings.home,
            **{"step": step, "search": search, "nothing": {}}[of],
        )
        return SharedVerdicts(open_session(session))

    return make


async def given(shared, code, tier="quick", on_wait=lambda: None):
    async with shared.once(code, tier, on_wait) as found:
        return found


def judged(tier="quick", reward=3):
    return Judged(1, {}, make_verdict(tier=tier, reward=reward))


@pytest.mark.parametrize(
    ("of", "tier", "reward", "known"),
    [
        ("search", "quick", 3, True),
        ("search", "full", 3, False),
        ("search", "quick", None, False),
        ("step", "quick", 3, True),
        ("step", "full", 3, True),
        ("step", "full", None, False),
        ("nothing", "quick", 3, False),
    ],
)
async def test_the_same_code_laid_out_anew_has_the_settled_verdict_of_another_session(sharing, of, tier, reward, known):
    first, second = sharing(of), sharing(of)
    assert await given(first, CODE, tier) is None
    first.keep(CODE, judged(tier, reward))
    found = await given(second, LAID_OUT, tier)
    assert (found is not None) == known == (second.known(LAID_OUT, tier) is not None)
    assert await given(second, OTHER, tier) is None
    if known:
        assert (found.attempt, found.verdict) == (1, judged(tier, reward).verdict)
        assert await given(second, CODE, "full" if tier == "quick" else "quick") is None


async def test_another_task_has_verdicts_of_its_own(sharing):
    first, second = sharing("step"), sharing("step", init="3")
    first.keep(CODE, judged())
    first.keep_original({"notes": []})
    assert await given(second, CODE) is None
    async with second.original_once() as found:
        assert found is None


async def test_what_one_session_has_judged_the_others_wait_for(sharing):
    first, second, third = (sharing("step") for _ in range(3))
    async with first.once(CODE, "quick") as found:
        assert found is None
        waits = []
        waiting = [
            asyncio.create_task(given(each, CODE, on_wait=lambda: waits.append("told"))) for each in (second, third)
        ]
        assert await given(second, OTHER) is None
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in waiting)
        assert len(waits) == 2, "each says once that it waits"
        first.keep(CODE, judged())
    assert [found.attempt for found in await asyncio.gather(*waiting)] == [1, 1]


async def test_where_nothing_came_of_it_the_next_has_it_judged(sharing):
    first, second, third = (sharing("step") for _ in range(3))
    held = first.once(CODE, "quick")
    await held.__aenter__()
    waiting = asyncio.create_task(given(second, CODE))
    await asyncio.sleep(0)
    assert await held.__aexit__(ValueError, ValueError(), None) is False
    assert await waiting is None
    assert await given(third, CODE) is None


async def test_the_original_is_measured_once_unless_the_machine_was_disturbed(sharing):
    first, second = sharing("step"), sharing("step")
    first.keep_original({"notes": [f"{NOT_TRUSTED}: another program"]})
    async with second.original_once() as found:
        assert found is None
    first.keep_original({"notes": ["1 placement"]})
    async with second.original_once() as found:
        assert found == {"notes": ["1 placement"]}
