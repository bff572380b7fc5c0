"""How time between marks is shared out, and which events are steps: worked out by hand."""

from __future__ import annotations

from recorder.classes import ModuleKind
from recorder.timeline import BACKWARD, BACKWARD_END, CLOSE, NOTED, OPEN, REACHED, Call, Mark, Timeline
from recorder.windows import CAPTURED, MODULE, OPTIMIZER, PLAIN, RECORDED, WARM_UP, StepMarker, Windows
from torch import nn


class Outer(nn.Module):
    """Stands for the developer's."""


class Inner(nn.Module):
    """Stands for a class of theirs within it."""


def kind(cls: type) -> ModuleKind:
    return ModuleKind(cls, "", compiled=False)


def test_the_time_between_marks_belongs_to_whoever_was_at_work_and_that_of_hooks_to_nobody() -> None:
    outer, inner, linear = kind(Outer), kind(Inner), kind(nn.Linear)
    first = Call(outer, None, 1)
    second = Call(inner, first, 2)
    third = Call(linear, second, 3)
    entries = [
        (NOTED, None),
        (OPEN, first),  # 10 outside
        (OPEN, second),  # 10 outer
        (OPEN, third),  # 10 inner
        (CLOSE, third),  # 10 linear
        (CLOSE, second),  # 10 inner
        (CLOSE, first),  # 10 outer
        (BACKWARD, None),  # 10 outside
        (REACHED, first),  # 10 autograd
        (REACHED, third),  # 10 outer
        (REACHED, second),  # 10 linear
        (REACHED, None),  # 10 inner
        (BACKWARD_END, None),  # 10 autograd
        (NOTED, None),  # 10 outside
    ]
    marks = [Mark(what, call, None, 13 * at, 13 * at + 3) for at, (what, call) in enumerate(entries)]
    timeline = Timeline(lambda _: None)
    timeline.share_out(marks[:5])
    timeline.share_out(marks[5:])
    assert (timeline.outside.host, timeline.modules.host, timeline.backward.host) == (30, 50, 50)
    assert [each.own.host for each in (outer, inner, linear)] == [20, 20, 10]
    assert [each.mine.host for each in (outer, inner, linear)] == [20, 30, 0]
    assert [each.total.host for each in (outer, inner, linear)] == [50, 30, 10]
    assert [each.backward_own.host for each in (outer, inner, linear)] == [10, 10, 10]
    assert [each.backward_mine.host for each in (outer, inner, linear)] == [10, 20, 0]
    assert [each.backward_total.host for each in (outer, inner, linear)] == [30, 20, 10]
    assert [each.calls for each in (outer, inner, linear)] == [1, 1, 1]


def test_what_is_nested_in_itself_counts_once_and_a_call_that_raised_is_closed_with_those_around_it() -> None:
    outer = kind(Outer)
    first = Call(outer, None, 1)
    second = Call(outer, first, 2)
    marks = [(OPEN, first), (OPEN, second), (CLOSE, first)]
    timeline = Timeline(lambda _: None)
    timeline.share_out([Mark(what, call, None, 10 * at, 10 * at) for at, (what, call) in enumerate(marks)])
    assert outer.total.host == outer.own.host == 20
    assert outer.calls == 1


def test_an_optimizer_ends_steps_rather_than_a_module_and_another_takes_over_when_it_is_gone() -> None:
    marker, first, other, module = StepMarker(), Outer(), Inner(), Outer()
    assert marker.ends_step(MODULE, module)
    assert marker.ends_step(OPTIMIZER, first)
    assert not marker.ends_step(MODULE, module)
    assert [marker.ends_step(OPTIMIZER, each) for each in (other, first, other, first)] == [False, True, False, True]
    assert [marker.ends_step(OPTIMIZER, other) for _ in range(6)] == [False] * 4 + [True] * 2


def test_windows_take_turns_after_the_warm_up() -> None:
    windows, kinds = Windows(captures=True), []
    for _ in range(5):
        kinds.append(windows.now.kind)
        windows.turn()
    assert kinds == [WARM_UP, PLAIN, RECORDED, CAPTURED, PLAIN]
    windows.restart()
    assert not windows.step()
    assert windows.step()
    assert windows.now.recorded
    assert windows.now.captured
