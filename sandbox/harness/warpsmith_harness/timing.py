"""Times calls, the same way for the candidate and for the baselines.

``device`` is from the first to the last device work of one call with the launch queue kept filled, ``latency`` what a
caller waits from an idle device. Before each call its inputs get new contents at another address, and the last-level
cache is filled with something else. ``burst`` makes calls in a row for whoever holds another clock to it.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from warpsmith_harness import values
from warpsmith_harness.poison import Poison
from warpsmith_harness.transport import copy_bytes, span

Call = Callable[..., Any]

_cuda: Any = torch.cuda

_CPU_FLUSH_BYTES = 32 * 1024 * 1024
_CYCLES_PER_US = 2_000.0
_LEAST_FILL_CYCLES = 100_000
_MOST_FILL_CYCLES = 40_000_000
_POISONED_BYTES = 64 * 1024 * 1024
_COPIED_BYTES = 256 * 1024 * 1024
_MMAP_THRESHOLD, _LARGEST_ON_HEAP = -3, 32 * 1024 * 1024
_TRIM_THRESHOLD, _KEPT_ON_HEAP = -1, 1024 * 1024 * 1024
"""glibc's numbers for ``mallopt``, and bytes; above the first it takes memory from the system, whatever it is told."""
_WARM_UP_CALLS = 3
_HOST_CALLS = 5
_EMPTY_FILL_US = 100.0


@dataclass(frozen=True)
class Turn:
    """What one timed call gets: a drawn set of inputs, rolled by a share of its length, in one of the slots."""

    base: int
    slot: int
    roll: float


class Arena:
    """The buffers of one placement: drawn sets of inputs, and the slots they are copied into before a call.

    Args:
        bases: The drawn sets, one list of tensors each.
        structure: Of the forward's arguments.
        slots: How many addresses to rotate among.
        rollable: Whether floating inputs may be rolled, so that contents differ in every call.

    Attributes:
        filled: The slot that was filled last.
        replay: What replays this arena's call as a CUDA graph, once it was captured.
    """

    def __init__(self, bases: List[List[torch.Tensor]], structure: Any, slots: int, rollable: bool) -> None:
        self.bases = bases
        self.slots = slots
        self.filled = 0
        self.replay: Optional[Call] = None
        self._rollable = rollable
        self._slots = [[values.clone_like(tensor) for tensor in bases[0]] for _ in range(slots)]
        self._arguments: List[Tuple[Tuple[Any, ...], Dict[str, Any]]] = []
        for slot in self._slots:
            args, kwargs = values.rebuild(structure, slot)
            self._arguments.append((tuple(args), kwargs))

    def fill(self, turn: Turn) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        """Copy the turn's contents into its slot and return the arguments there."""
        for source, target in zip(self.bases[turn.base], self._slots[turn.slot]):
            shift = int(span(source) * turn.roll) if self._rollable and source.is_floating_point() else 0
            _roll_into(source, target, shift)
        self.filled = turn.slot
        return self._arguments[turn.slot]


def _roll_into(source: torch.Tensor, target: torch.Tensor, shift: int) -> None:
    """Copy the memory of one tensor into another's, rolled by ``shift`` elements; on one thread on the CPU."""
    item = source.element_size()
    whole, moved = span(source) * item, shift * item
    if source.is_cuda:
        flat_source, flat_target = _flat(source), _flat(target)
        flat_target[: whole - moved].copy_(flat_source[moved:])
        flat_target[whole - moved :].copy_(flat_source[:moved])
        return
    copy_bytes(target.data_ptr(), source.data_ptr() + moved, whole - moved, cuda=False)
    copy_bytes(target.data_ptr() + whole - moved, source.data_ptr(), moved, cuda=False)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    memory = tensor.as_strided((span(tensor),), (1,))
    return (torch.view_as_real(memory).flatten() if memory.is_complex() else memory).view(torch.uint8)


def _sizes(output: Any) -> List[int]:
    """Return the bytes of the memory that goes back to the allocator with an output: left as it is, it holds an answer."""
    tensors = [tensor for tensor in values.flatten(output)[0] if tensor.layout == torch.strided]
    sizes = (tensor.untyped_storage().nbytes() for tensor in tensors)
    return [size for size in sizes if 0 < size <= _POISONED_BYTES]


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a plain tensor on the current stream; one of another kind is returned, to be found by what looks for these."""
    size = tensor.numel() * tensor.element_size()
    if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or size > _COPIED_BYTES:
        return tensor
    return values.clone_like(tensor)


def _overwrite(sizes: List[int], byte: int) -> None:
    """Leave a byte in the host's memory that is handed out next; on one thread, as all that surrounds a call."""
    blocks = [torch.empty(size, dtype=torch.uint8) for size in sizes]
    for block, size in zip(blocks, sizes):
        ctypes.memset(block.data_ptr(), byte, size)


def keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to 32 MiB a block, instead of giving it back and faulting it in again.

    Whether it does by itself hangs on what else lies on its heap: a call whose output is 8 MiB would take a millisecond more
    in one pattern of calls than in another. A C library without ``mallopt`` stays as it is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
        mallopt(_TRIM_THRESHOLD, _KEPT_ON_HEAP)


def _do_nothing() -> None:
    """Stand for a call of which only the clock's own cost is left."""


class Stopwatch:
    """Base of the clocks of both kinds of device."""

    def warm(self, call: Call, arena: Arena) -> None:
        """Make a few calls that are not timed, at every address."""
        for number in range(max(_WARM_UP_CALLS, arena.slots)):
            args, kwargs = arena.fill(Turn(number % len(arena.bases), number % arena.slots, 0.0))
            call(*args, **kwargs)
        self.settle()

    def settle(self) -> None:
        """Wait until the device is idle."""

    def host_us(self, call: Call, arena: Arena) -> float:
        """Return how long the host needs to queue one call."""
        taken = []
        for _ in range(_HOST_CALLS):
            args, kwargs = arena.fill(Turn(0, 0, 0.0))
            self.settle()
            started = time.perf_counter_ns()
            call(*args, **kwargs)
            taken.append((time.perf_counter_ns() - started) / 1000)
        self.settle()
        return sorted(taken)[_HOST_CALLS // 2]

    def device(
        self, call: Call, arena: Arena, turns: Sequence[Turn], keep: int, cold: bool, fill_us: float
    ) -> Tuple[List[float], Any]:
        """Return what the clock reads for each turn, in microseconds, and the output of the call numbered ``keep``.

        On a GPU that is from one event to another around the call, so it holds what two events cost (see ``empty``).

        Args:
            call: What is timed.
            arena: Its buffers.
            turns: One for each call.
            keep: Number of the call whose output is returned, or -1.
            cold: Whether the last-level cache is written over before each call.
            fill_us: How long the device is kept busy while the host queues the call.
        """
        raise NotImplementedError

    def empty(self, count: int) -> List[float]:
        """Return what ``device`` reads for so many calls that do nothing: what this clock itself costs."""
        arena = Arena([[]], values.flatten(((), {}))[1], 1, rollable=False)
        turns = [Turn(0, 0, 0.0)] * count
        return self.device(_do_nothing, arena, turns, -1, cold=True, fill_us=_EMPTY_FILL_US)[0]

    def latency(self, call: Call, arena: Arena, turns: Sequence[Turn]) -> List[float]:
        """Return microseconds from an idle device to a synchronised end for each turn."""
        raise NotImplementedError

    def burst(self, call: Call, arena: Arena, count: int, fill_us: float, each: bool) -> None:
        """Make calls in a row, behind ``fill_us`` of other work for the device; synchronised at both ends, or after each."""
        raise NotImplementedError


class CpuStopwatch(Stopwatch):
    """Wall time of a call. Caches are written over on one thread, so that no idle pool spins beside the call."""

    def __init__(self) -> None:
        keep_freed_memory()
        self._poison = Poison()
        self._flush = (ctypes.c_char * _CPU_FLUSH_BYTES)()
        self._byte = 0

    def device(
        self,
        call: Call,
        arena: Arena,
        turns: Sequence[Turn],
        keep: int,
        cold: bool,
        fill_us: float,  # noqa: ARG002
    ) -> Tuple[List[float], Any]:
        """See ``Stopwatch``."""
        kept: Any = None
        times = []
        for number, turn in enumerate(turns):
            args, kwargs = arena.fill(turn)
            if cold:
                self._byte ^= 1
                ctypes.memset(self._flush, self._byte, _CPU_FLUSH_BYTES)
            started = time.perf_counter_ns()
            output = call(*args, **kwargs)
            times.append((time.perf_counter_ns() - started) / 1000)
            if number == keep:
                kept = output
            sizes = _sizes(output)
            del output
            self._poison.turn()
            _overwrite(sizes, self._poison.byte)
        return times, kept

    def latency(self, call: Call, arena: Arena, turns: Sequence[Turn]) -> List[float]:
        """See ``Stopwatch``."""
        return self.device(call, arena, turns, -1, cold=True, fill_us=0.0)[0]

    def burst(self, call: Call, arena: Arena, count: int, fill_us: float, each: bool) -> None:  # noqa: ARG002
        """See ``Stopwatch``."""
        args, kwargs = arena.fill(Turn(0, 0, 0.0))
        for _ in range(count):
            call(*args, **kwargs)


class CudaStopwatch(Stopwatch):
    """Event times, behind a wait on the device that is long enough for the host to queue the whole call."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._poison = Poison()
        size = 2 * getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 * 1024 * 1024)
        self._others = torch.zeros(size // 4, dtype=torch.float32, device=device)
        self._sum = torch.zeros((), dtype=torch.float32, device=device)
        self._start = _cuda.Event(enable_timing=True)
        self._end = _cuda.Event(enable_timing=True)

    def settle(self) -> None:
        """Wait until the device is idle."""
        torch.cuda.synchronize(self._device)

    def device(
        self, call: Call, arena: Arena, turns: Sequence[Turn], keep: int, cold: bool, fill_us: float
    ) -> Tuple[List[float], Any]:
        """See ``Stopwatch``."""
        kept: Any = None
        times = []
        cycles = int(fill_us * _CYCLES_PER_US)
        for number, turn in enumerate(turns):
            wanted = number == keep
            output, seen, ran_dry = self._queue(call, arena, turn, cold, cycles, wanted)
            while ran_dry and cycles < _MOST_FILL_CYCLES:
                del output, seen  # a task that fills the device has no room for them beside the next call
                cycles = 2 * cycles + _LEAST_FILL_CYCLES
                output, seen, ran_dry = self._queue(call, arena, turn, cold, cycles, wanted)
            times.append(self._start.elapsed_time(self._end) * 1000)
            if wanted:
                kept = seen
            sizes = _sizes(output)
            del output
            self._poison.turn()
            self._poison.leave(sizes, self._device)
        return times, kept

    def _queue(
        self, call: Call, arena: Arena, turn: Turn, cold: bool, cycles: int, wanted: bool
    ) -> Tuple[Any, Any, bool]:
        """Queue one call behind a wait, and let it end; tell whether the device began it before all of it was queued.

        Then its time holds gaps that come from the host, which is slower at some moments than at others. A wanted output
        is returned a second time as it was when the clock stopped: what is written later does not count.
        """
        args, kwargs = arena.fill(turn)
        if cold:
            self._make_cold()
        _cuda._sleep(cycles)
        self._start.record()
        output = call(*args, **kwargs)
        self._end.record()
        ran_dry = self._start.query()
        seen = values.map_tensors(output, _as_it_is) if wanted else None
        self._end.synchronize()
        return output, seen, ran_dry

    def _make_cold(self) -> None:
        """Fill the last-level cache by reading: lines that were written would be written back during the timed call.

        A GELU of 32 MiB then takes 22 µs on an H200, and 17 by Nsight Compute, whose flush leaves nothing to write back.
        """
        torch.sum(self._others, 0, out=self._sum)

    def latency(self, call: Call, arena: Arena, turns: Sequence[Turn]) -> List[float]:
        """See ``Stopwatch``."""
        times = []
        for turn in turns:
            args, kwargs = arena.fill(turn)
            self._make_cold()
            self.settle()
            started = time.perf_counter_ns()
            call(*args, **kwargs)
            self.settle()
            times.append((time.perf_counter_ns() - started) / 1000)
        return times

    def burst(self, call: Call, arena: Arena, count: int, fill_us: float, each: bool) -> None:
        """See ``Stopwatch``."""
        args, kwargs = arena.fill(Turn(0, 0, 0.0))
        self.settle()
        _cuda._sleep(int(fill_us * _CYCLES_PER_US))
        for _ in range(count):
            call(*args, **kwargs)
            if each:
                self.settle()
        self.settle()


def make_stopwatch(device: torch.device) -> Stopwatch:
    """Return the clock for a device."""
    return CpuStopwatch() if device.type == "cpu" else CudaStopwatch(device)
