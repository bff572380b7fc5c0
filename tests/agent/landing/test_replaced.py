"""A second landing of a class says what it takes the place of, and its undo brings the first one back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.landing import FileChange, VerifiedInputs, land
from agent.landing.index import lines_for, noted
from agent.landing.kept import kept_of
from agent.landing.replaced import told_replaced
from agent.landing.taking_back import take_back
from agent.landing.verified import VerifiedTensor
from app.state import Judged
from app.text.landing import Proposal, landing_rows
from sandbox.errors import LandingRefused
from sandbox.task import TaskSpec
from tests.agent.landing.example import CANDIDATE, ORIGINAL, SIGNATURE, accepted, make_project, planned, verdict
from tests.agent.landing.repositories import picture

NAME = "shop/blocks.py:Block"
OTHER = accepted(CANDIDATE.replace("x.numel()", "int(x.numel())"))


@pytest.fixture
def spec(tmp_path: Path) -> TaskSpec:
    (tmp_path / "project/.git").mkdir(parents=True)
    return make_project(tmp_path / "project")


def changes_of(spec: TaskSpec, verified: VerifiedInputs, state: dict[str, bytes] | None = None) -> list[FileChange]:
    """A landing with its lines of the index, as the desk writes it."""
    changes = planned(spec, state, verified=verified)
    entry = kept_of(spec, changes, verdict(), spec.root)
    return [*changes, *noted(spec.root, entry.name, lines_for(entry))]


@pytest.fixture
def first(spec: TaskSpec) -> VerifiedInputs:
    """What the landing that is there was verified for: rows from 2 to 64."""
    told = VerifiedInputs.of(spec, SIGNATURE, ORIGINAL.encode())
    return replace(told, ranges=({"dims": ["x.0"], "low": 2, "high": 64},))


def test_a_first_landing_replaces_nothing(spec: TaskSpec, first: VerifiedInputs) -> None:
    assert told_replaced(changes_of(spec, first)) == ""


def test_it_says_which_calls_are_no_longer_covered_and_an_undo_brings_the_first_back(
    spec: TaskSpec, first: VerifiedInputs
) -> None:
    earlier = changes_of(spec, first)
    land(earlier)
    held = picture(spec.root)
    eight = tuple(
        VerifiedTensor(each.name, each.dtype, (8, 8)) if each.name == "x" else each for each in first.signature
    )
    later = changes_of(spec, replace(first, signature=eight, ranges=()), OTHER)
    said = told_replaced(later)
    assert said.startswith("It replaces the kernels of Block that landed there before (verified on a CPU, 1.50 times")
    assert "NOT COVERED any more, so that the original runs: x float32 [2 to 64, 8], weight float32 [8]" in said
    assert "shift=None on cpu in eval mode" in said
    asked = landing_rows(Judged(2, {}, verdict(), 0.0), Proposal(later, 3), 0, 100)
    assert "NOT COVERED any more" in " ".join(str(row.content.plain) for row in asked)
    land(later)
    with pytest.raises(LandingRefused, match="later landing of Block took the place of this one") as refused:
        take_back(earlier, spec.root, NAME)
    assert refused.value.next_step == f"Take that back first: warpsmith landed undo {NAME}"
    land([step.change for step in take_back(later, spec.root, NAME) if step.change])
    assert picture(spec.root) == held
    land([step.change for step in take_back(earlier, spec.root, NAME) if step.change])
    assert spec.path.read_text() == ORIGINAL


def test_one_that_covers_all_the_same_says_so(spec: TaskSpec, first: VerifiedInputs) -> None:
    land(changes_of(spec, first))
    assert told_replaced(changes_of(spec, replace(first, both_modes=True), OTHER)).endswith("every call that they do.")


@pytest.mark.parametrize(
    "change",
    [
        {"gradients": True},
        {"autocast": "torch.bfloat16"},
        {"constants": {}},
        {"training": True},
        {"attributes": {"": {"eps": "1e-05"}}},
    ],
)
def test_a_form_that_differs_in_anything_a_call_is_held_to_is_another(
    spec: TaskSpec, first: VerifiedInputs, change: dict[str, object]
) -> None:
    wide, narrow = (
        (replace(first, **change), first) if change == {"gradients": True} else (first, replace(first, **change))
    )  # type: ignore[arg-type]
    land(changes_of(spec, wide))
    assert "NOT COVERED" in told_replaced(changes_of(spec, narrow, OTHER))
