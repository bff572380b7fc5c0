"""The judge's parts alone: messages, shared memory, clocks, and whose kernels ran."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from warpsmith_harness.poison import Poison
from warpsmith_harness.questions import same_bits
from warpsmith_harness.timing import Arena, Turn
from warpsmith_harness.trace import Activity, ownership
from warpsmith_harness.transport import HostRegion, TransportError, bytes_needed, pack, unpack
from warpsmith_harness.watch import Checksums, OperatorWatch, delegation

from sandbox.processes import BoundedLog
from sandbox.snapshot import digest, read_candidate
from sandbox.timing.clocks import below_floor, contradicts, measure, plan_burst
from sandbox.timing.held_clock import CONTRADICTIONS, HeldClock
from sandbox.wire import Channel, ChannelClosed, ChannelGarbage, ChannelTimeout, pair
from tests.scale_task import Write

CPU = torch.device("cpu")


class TestChannel:
    def test_messages_and_descriptors_arrive(self) -> None:
        ours, theirs = map(Channel, pair())
        reader, writer = os.pipe()
        ours.send({"number": 1, "nan": float("nan")}, [writer])
        message, descriptors = theirs.receive_with_descriptors(1.0)
        assert message["number"] == 1
        os.write(descriptors[0], b"x")
        assert os.read(reader, 1) == b"x"

    def test_a_long_message_arrives_whole(self) -> None:
        ours, theirs = map(Channel, pair())
        text = "x" * 3_000_000
        sender = threading.Thread(target=ours.send, args=({"text": text},))
        sender.start()
        assert theirs.receive(10.0)["text"] == text
        sender.join()

    def test_silence_is_a_timeout_and_leaving_is_an_end(self) -> None:
        ours, theirs = map(Channel, pair())
        with pytest.raises(ChannelTimeout):
            theirs.receive(0.05)
        ours.close()
        with pytest.raises(ChannelClosed):
            theirs.receive(1.0)

    @pytest.mark.parametrize(
        "sent",
        [
            b"\xff\xff\xff\xff",
            b"\0\0\0\x02[]",
            b"\0\0\0\x03xyz",
            b"\0\1\0\0" + b"[" * 65536,
            b"\0\1\0\0" + b'{"id":' + b"9" * 65529 + b"}",
            b"\0\0\4\xb2" + b'{"a":' * 200 + b"{}" + b"}" * 200,
        ],
        ids=["huge", "list", "text", "brackets", "number", "depth"],
    )
    def test_what_is_no_message_is_garbage(self, sent: bytes) -> None:
        ours, theirs = pair()
        ours.sendall(sent)
        with pytest.raises(ChannelGarbage):
            Channel(theirs).receive(1.0)


class TestSharedMemory:
    @pytest.mark.parametrize(
        "tensor",
        [
            torch.randn(3, 5),
            torch.randn(4, 6)[:, ::2],
            torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
            torch.randn(1, 5).expand(4, 5),
            torch.tensor(2.5),
            torch.empty(0, 3),
            torch.tensor([True, False]),
            torch.randn(3, dtype=torch.complex64),
            torch.randn(8).to(torch.bfloat16),
            torch.randn(8).to(torch.float8_e4m3fn),
            torch.arange(7)[2:],
        ],
        ids=lambda tensor: f"{tensor.dtype}{list(tensor.shape)}",
    )
    def test_tensors_arrive_with_their_bytes_and_strides(self, tensor: torch.Tensor) -> None:
        region = HostRegion(max(256, bytes_needed([tensor])))
        other = HostRegion(region.size, os.dup(region.descriptors()[0]))
        (arrived,) = unpack(pack([tensor], region), other, CPU)
        assert (arrived.dtype, arrived.shape, arrived.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
        assert same_bits(arrived, tensor)

    @pytest.mark.parametrize(
        "change",
        [
            {"offset": -256},
            {"offset": 1 << 40},
            {"shape": [1 << 40, 4]},
            {"stride": [-4, 1]},
            {"dtype": "load"},
            {"offset": "0"},
        ],
        ids=str,
    )
    def test_a_note_that_points_elsewhere_is_refused(self, change: dict[str, object]) -> None:
        region = HostRegion(4096)
        (note,) = pack([torch.zeros(4, 4)], region)
        with pytest.raises(TransportError):
            unpack([{**note, **change}], region, CPU)

    def test_the_file_cannot_be_shrunk_under_the_reader(self) -> None:
        region = HostRegion(4096)
        with pytest.raises(PermissionError):
            os.ftruncate(region.descriptors()[0], 0)


def test_contents_differ_in_every_call_at_the_same_address() -> None:
    structure = {
        "kind": "tuple",
        "content": [{"kind": "tuple", "content": [{"kind": "tensor", "content": 0}]}, {"kind": "dict", "content": []}],
    }
    base = torch.arange(12.0).reshape(3, 4)
    arena = Arena([[base]], structure, 1, rollable=True)
    (first,), _ = arena.fill(Turn(0, 0, 0.25))
    seen = first.clone()
    (second,), _ = arena.fill(Turn(0, 0, 0.5))
    assert second.data_ptr() == first.data_ptr()
    assert seen.flatten().tolist() == [*range(3, 12), 0, 1, 2]
    assert second.flatten().tolist() == [*range(6, 12), *range(6)]


class TestWatching:
    def test_operators_that_compute_are_counted_and_views_are_not(self) -> None:
        watch = OperatorWatch(Poison())
        with watch:
            x = torch.empty(4, 4)
            y = x.view(16)[:8].reshape(2, 4).transpose(0, 1).contiguous()
            assert not watch.computed
            torch.mm(y, y.t())
        assert watch.computed == {"aten::mm": 1}
        (found,) = delegation(watch.computed, "own-kernels")
        assert found["severity"] == "reject"
        assert "torch.mm" in found["evidence"]
        assert delegation(watch.computed, "library-ok")[0]["severity"] == "label"

    def test_a_changed_tensor_is_named(self) -> None:
        tensors = {"x": torch.randn(4, 4)[:, ::2], "w": torch.randn(3)}
        sums = Checksums(tensors)
        assert sums.changed() == []
        tensors["x"][1, 1] += 1
        assert sums.changed() == ["x"]


class TestOwnership:
    MANIFEST: ClassVar[dict[str, object]] = {
        "kernels": [{"mangled": "_Z5scalePf", "demangled": "scale(float*)", "name": "scale", "base": "scale"}],
        "libraries": ["cublas"],
    }
    MARKER = Activity(
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<unsigned char>>", 7, 1.0
    )

    def rules(
        self, *ran: Activity, policy: str = "own-kernels", manifest: dict[str, object] | None = MANIFEST
    ) -> list[str]:
        return [f"{found['severity']} {found['rule']}" for found in ownership([self.MARKER, *ran], manifest, policy)]

    def test_the_candidates_own_kernels(self) -> None:
        assert self.rules(Activity("scale(float*)", 7, 5.0), Activity("Memset (Device)", 7, 1.0)) == []
        assert self.rules(Activity("void scale<3>(float*)", 7, 5.0)) == []

    def test_a_library_that_was_named(self) -> None:
        ran = [Activity("scale(float*)", 7, 5.0), Activity("sm90_xmma_gemm_f32f32_tn", 7, 45.0)]
        assert self.rules(*ran) == ["label library"]
        [found] = ownership([self.MARKER, *ran], self.MANIFEST, "own-kernels")
        assert found["evidence"].startswith(
            "90% of the device time is cuBLAS's, which the policy own-kernels allows: sm90_xmma"
        )
        manifest = {**self.MANIFEST, "libraries": []}
        assert self.rules(Activity("sm90_xmma_gemm_f32f32_tn", 7, 50.0), manifest=manifest) == ["reject delegation"]

    def test_kernels_of_torch(self) -> None:
        torchs = Activity("void at::native::reduce_kernel<512, 1>", 7, 5.0)
        assert self.rules(Activity("scale(float*)", 7, 5.0), torchs) == ["reject delegation"]
        assert self.rules(torchs, policy="library-ok") == ["label delegation"]
        assert self.rules(Activity("triton_poi_fused_relu_0", 7, 5.0), manifest=None) == ["reject delegation"]
        assert self.rules(Activity("my_kernel(float*)", 7, 5.0), manifest=None) == []

    def test_triton_kernels_are_the_candidates_by_their_names(self) -> None:
        ran = [self.MARKER, Activity("my_triton_gemm", 7, 5.0), Activity("triton_poi_fused_relu_0", 7, 5.0)]
        assert self.rules(*ran[1:], manifest=None) == ["reject delegation"]
        assert ownership(ran[:2], None, "own-kernels", ["my_triton_gemm"]) == []
        [found] = ownership(ran, self.MANIFEST, "own-kernels", ["my_triton_gemm"])
        assert (found["severity"], found["evidence"].split(" of ")[0]) == ("reject", "50%")

    def test_nothing_ran(self) -> None:
        assert self.rules(Activity("Memcpy DtoD (Device -> Device)", 7, 5.0)) == ["reject no-launch"]

    def test_a_profiler_that_sees_nothing_rejects_nobody_and_says_so(self) -> None:
        """Where another profiler has the tracer, no kernel shows up, and an honest candidate's were there all the same."""
        [found] = ownership([], self.MANIFEST, "own-kernels")
        assert (found["severity"], found["rule"]) == ("label", "no-trace")
        assert "the profiler saw nothing" in found["evidence"]

    def test_another_stream_is_said(self) -> None:
        assert self.rules(Activity("scale(float*)", 13, 5.0)) == ["label side-stream"]


class Clock:
    """A clock that goes on only while a burst takes its time, so that a busy machine adds nothing."""

    def __init__(self) -> None:
        self.now_ns = 0

    def perf_counter_ns(self) -> int:
        return self.now_ns

    def burst(self, each_us: int, once_us: int = 0) -> Callable[[int, float], None]:
        """A burst whose calls take so long each, and something once."""

        def take(count: int, _: float) -> None:
            self.now_ns += 1000 * (count * each_us + once_us)

        return take


class TestClocks:
    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> Clock:
        made = Clock()
        monkeypatch.setattr("sandbox.timing.clocks.time", made)
        return made

    def test_a_burst_is_timed_by_the_difference(self, clock: Clock) -> None:
        plan = plan_burst(2000.0, 0.0, on_gpu=False)
        measured = measure(plan, clock.burst(3000, once_us=20_000))
        assert measured == 3000.0
        assert contradicts(1000.0, plan, measured)
        assert not contradicts(measured, plan, measured)

    def test_waiting_for_a_processor_is_left_out(self, clock: Clock) -> None:
        plan = plan_burst(2000.0, 0.0, on_gpu=False)
        calls = 0

        def burst(count: int, fill_us: float) -> None:
            nonlocal calls
            calls += count
            clock.burst(3000)(count, fill_us)

        def ran() -> dict[int, int]:
            return {1: 1_000_000 * calls, 2: 400_000 * calls}

        assert measure(plan, burst, ran) == 1000.0
        assert measure(plan, burst, lambda: {1: 9_000_000 * calls}) == 3000.0
        assert measure(plan, burst, dict) == 0.0

    @pytest.mark.parametrize(("said", "believed"), [(300.0, False), (4000.0, True)])
    def test_a_worker_is_disbelieved_only_when_the_clock_says_so_every_time(
        self, clock: Clock, said: float, believed: bool
    ) -> None:
        held = HeldClock("latency", clock.burst(2000), queued=False)
        while held.count == 0 or held.doubts:
            held.check([said], 0.0)
        assert (held.evidence() == "") is believed
        assert held.count == (1 if believed else CONTRADICTIONS)
        held.excuse_last()
        assert held.evidence() == ""

    @pytest.mark.parametrize(("host_us", "believed"), [(400.0, True), (40_000.0, False)])
    def test_who_queues_calls_on_a_busy_host_is_given_longer(
        self, clock: Clock, host_us: float, believed: bool
    ) -> None:
        """The device runs a call in 50 us, but cannot before the host has queued it, and others keep the host busy."""

        def burst(count: int, fill_us: float) -> None:
            clock.now_ns += round(1000 * max(fill_us + 50 * count, host_us * count))

        held = HeldClock("device", burst, queued=True)
        while held.count == 0 or held.doubts:
            held.check([50.0], 20.0)
        assert (held.evidence() == "") is believed
        assert held.count > 1

    @pytest.mark.parametrize("host_us", [0.0, 5.0, 400.0, 20_000.0])
    def test_a_burst_fits_the_launch_queue(self, host_us: float) -> None:
        plan = plan_burst(5.0, host_us, on_gpu=True)
        assert plan.many > plan.few > 0
        assert plan.many * host_us / 4 <= 1000 or plan.many <= 3
        assert plan.fill_us <= 80_000

    def test_no_time_is_under_the_bytes(self) -> None:
        assert below_floor(1.0, 1 << 20, 20.0, 2 << 20)
        assert not below_floor(3.0, 1 << 20, 20.0, 2 << 20)


def test_a_log_keeps_both_ends_and_no_more() -> None:
    log = BoundedLog(limit=1000)
    os.write(log.writer, b"first\n")
    for _ in range(200):
        os.write(log.writer, b"x" * 65536)
    os.write(log.writer, b"\nlast\n")
    log.close_writer()
    text = log.text(settle=5.0)
    assert text.startswith("first")
    assert text.endswith("last\n")
    assert len(text) < 2200
    assert log.total > 13_000_000


def test_a_candidates_hash_covers_names_and_contents(candidate: Write) -> None:
    from sandbox.task import TaskSpec

    folder = candidate()
    spec = TaskSpec("kernelbench", folder / "scale.py", "Model", "scale", folder, Path(sys.executable))
    before = digest(read_candidate(folder, spec))
    assert before == digest(read_candidate(folder / "model_new.py", spec))
    (folder / "kernels" / "scale_add.cpp").rename(folder / "kernels" / "other.cpp")
    assert digest(read_candidate(folder, spec)) != before
