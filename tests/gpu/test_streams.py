"""Work on other streams on a GPU: what nobody waits for is found every time, what is joined passes every time.

``pytest -s`` prints what a CUDA graph of each form held, and why it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from warpsmith_harness.streams import check_streams
from warpsmith_harness.trace import device_activity
from warpsmith_harness.watch import Guards

from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Judges, caught_by
from tests.candidates.honest.suite import HONEST
from tests.candidates.tasks import TASKS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU"),
]

DEVICE = "cuda:0"
TIMES = 20
SIZES = [1 << 12, 1 << 22]
_cuda: Any = torch.cuda

Form = Callable[["Side", torch.Tensor], torch.Tensor]


class Side:
    """A stream beside the caller's, memory to stage in, and a graph of one kernel."""

    def __init__(self, x: torch.Tensor) -> None:
        self.stream, self.other = _cuda.Stream(), _cuda.Stream()
        self.staged = torch.empty_like(x)
        self.out = torch.empty_like(x)
        self.graph = _cuda.CUDAGraph()
        self.fixed = x.clone()
        torch.mul(self.fixed, 2, out=self.out)
        with _cuda.graph(self.graph):
            torch.mul(self.fixed, 2, out=self.out)

    def home(self) -> Any:
        return _cuda.current_stream()


def half_unjoined(side: Side, x: torch.Tensor) -> torch.Tensor:
    out, half = torch.empty_like(x), len(x) // 2
    side.stream.wait_stream(side.home())
    torch.mul(x[:half], 2, out=out[:half])
    with _cuda.stream(side.stream):
        torch.mul(x[half:], 2, out=out[half:])
    return out


def copy_unjoined(side: Side, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.mul(x, 2, out=side.staged)
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        out.copy_(side.staged, non_blocking=True)
    return out


def graph_unjoined(side: Side, x: torch.Tensor) -> torch.Tensor:
    side.fixed.copy_(x)
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        side.graph.replay()
    return side.out


def two_unjoined(side: Side, x: torch.Tensor) -> torch.Tensor:
    """Waits for a stream that has nothing to do, and not for the one that works."""
    out = torch.empty_like(x)
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        torch.mul(x, 2, out=out)
    side.home().wait_stream(side.other)
    return out


def joined_too_early(side: Side, x: torch.Tensor) -> torch.Tensor:
    out, half = torch.empty_like(x), len(x) // 2
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        torch.mul(x[:half], 2, out=out[:half])
        joined = side.stream.record_event()
        torch.mul(x[half:], 2, out=out[half:])
    side.home().wait_event(joined)
    return out


def unforked(side: Side, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    with _cuda.stream(side.stream):
        torch.mul(x, 2, out=out)
    side.home().wait_stream(side.stream)
    return out


def joined(side: Side, x: torch.Tensor) -> torch.Tensor:
    out, half = torch.empty_like(x), len(x) // 2
    side.stream.wait_stream(side.home())
    torch.mul(x[:half], 2, out=out[:half])
    with _cuda.stream(side.stream):
        torch.mul(x[half:], 2, out=out[half:])
    side.home().wait_stream(side.stream)
    return out


def joined_by_one_event(side: Side, x: torch.Tensor) -> torch.Tensor:
    out, event = torch.empty_like(x), _cuda.Event()
    event.record()
    side.stream.wait_event(event)
    with _cuda.stream(side.stream):
        torch.mul(x, 2, out=out)
        event.record()
    side.home().wait_event(event)
    return out


def joined_in_a_chain(side: Side, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        torch.mul(x, 1, out=side.staged)
    side.other.wait_stream(side.stream)
    with _cuda.stream(side.other):
        torch.mul(side.staged, 2, out=out)
    side.home().wait_stream(side.other)
    return out


def joined_by_the_host(side: Side, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    side.home().synchronize()
    with _cuda.stream(side.stream):
        torch.mul(x, 2, out=out)
    side.stream.synchronize()
    return out


def joined_copy(side: Side, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.mul(x, 2, out=side.staged)
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        out.copy_(side.staged, non_blocking=True)
    side.home().wait_stream(side.stream)
    return out


def joined_graph(side: Side, x: torch.Tensor) -> torch.Tensor:
    side.fixed.copy_(x)
    side.stream.wait_stream(side.home())
    with _cuda.stream(side.stream):
        side.graph.replay()
    side.home().wait_stream(side.stream)
    return side.out.clone()


def graph_here(side: Side, x: torch.Tensor) -> torch.Tensor:
    side.fixed.copy_(x)
    side.graph.replay()
    return side.out.clone()


STRAYS: list[Form] = [
    half_unjoined,
    copy_unjoined,
    graph_unjoined,
    two_unjoined,
    joined_too_early,
    unforked,
    joined_graph,  # torch replays no graph while it captures, so its order cannot be shown
]
HONEST_FORMS: list[Form] = [
    joined,
    joined_by_one_event,
    joined_in_a_chain,
    joined_by_the_host,
    joined_copy,
    graph_here,
]


def setting(size: int) -> tuple[Side, torch.Tensor]:
    x = torch.linspace(-3, 3, size, device=DEVICE)  # a failed capture leaves torch no random numbers
    return Side(x), x


def checked(form: Form, side: Side, x: torch.Tensor) -> list[dict[str, str]]:
    device = torch.device(DEVICE)
    seen = device_activity(lambda: form(side, x), device)
    assert seen
    return check_streams(lambda: form(side, x), device, seen, of_library=lambda _: False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", HONEST_FORMS, ids=lambda form: form.__name__)
def test_what_is_joined_passes(form: Form, size: int) -> None:
    side, x = setting(size)
    found = [checked(form, side, x) for _ in range(TIMES)]
    print(f"\n{form.__name__} of {size}: {found[0]}")
    assert [each for findings in found for each in findings if each["severity"] == "reject"] == []


def watched(form: Form, side: Side, x: torch.Tensor) -> tuple[list[str], bool]:
    """Return the rules that one guarded call breaks, and whether its answer is right."""
    guards, right = Guards(torch.device(DEVICE), "library-ok"), x * 2
    with torch.no_grad():
        outputs, _, found = guards.call(
            lambda: form(side, x), [x], {"input 0": x}, [x.numel() * 4], (), operators=False
        )
    return [each["rule"] for each in found], torch.equal(outputs[0], right)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", HONEST_FORMS, ids=lambda form: form.__name__)
def test_behind_the_gate_what_is_joined_is_right(form: Form, size: int) -> None:
    side, x = setting(size)
    form(side, x)
    assert [watched(form, side, x) for _ in range(TIMES)] == [([], True)] * TIMES


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", STRAYS, ids=lambda form: form.__name__)
def test_how_often_the_gate_alone_finds_it(form: Form, size: int) -> None:
    side, x = setting(size)
    form(side, x)
    seen = [watched(form, side, x) for _ in range(TIMES)]
    caught = sum(bool(rules) or not right for rules, right in seen)
    print(f"\n{form.__name__} of {size}: the gate finds {caught} of {TIMES}")
    if form is unforked:
        assert caught == TIMES


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    shared = Judges(TASKS, tmp_path_factory.mktemp("streams"), DEVICE)
    yield shared
    shared.close()


@pytest.mark.parametrize("time", range(2))
@pytest.mark.parametrize("name", [name for name in CHEATS if name.startswith("K19 ") and "graph" not in name])
def test_a_late_cheat_is_rejected_each_time(name: str, time: int, judges: Judges) -> None:
    verdict = judges.check(CHEATS[name])
    print(f"\n{name}: {caught_by(verdict) or 'MISSED'}")
    assert caught_by(verdict), verdict.reason


@pytest.mark.parametrize("name", [name for name in HONEST if "stream" in name or "graph" in name])
def test_an_honest_one_passes(name: str, judges: Judges) -> None:
    if not HONEST[name].runs_on(DEVICE):
        pytest.skip("it has no form for a GPU")
    verdict = judges.check(HONEST[name])
    assert verdict.guard is not None
    print(f"\n{name}: reward {verdict.reward}, {[(each.rule, each.evidence) for each in verdict.guard.findings]}")
    assert verdict.correct, verdict.reason


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", STRAYS, ids=lambda form: form.__name__)
def test_what_is_not_ordered_is_found_each_time(form: Form, size: int) -> None:
    side, x = setting(size)
    found = [checked(form, side, x) for _ in range(TIMES)]
    caught = [any(each["severity"] == "reject" for each in findings) for findings in found]
    print(f"\n{form.__name__} of {size}: {sum(caught)} of {TIMES}; {found[0]}")
    assert all(caught), [each for each, one in zip(found, caught, strict=True) if not one]
