"""Watches a candidate's call: what it computes with, whether it has finished when it returns, what it leaves behind.

These checks run beside the candidate, so they hold against what a program does, not against one that rewrites the
judge in its own memory. What is replaced from Python, or by writing over Python's objects, ``seal`` finds; an answer in
the worker's place the parent finds, for requests are numbered and followed by a last one. A candidate that gets past the
static guard and patches machine code, or looks for the seal, can still silence what is found here: that torch computed,
that inputs were written to, that an output came late. Its answers have to be right all the same, on contents nobody can
know before, as another process finds. The judge's own clock holds as far as calls are really made: a worker that is taken
over wholly can leave out those whose outputs nobody asks for, and then only the floor of the bytes stands against it.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith_harness import values
from warpsmith_harness.fences import Fences
from warpsmith_harness.gate import Gate
from warpsmith_harness.poison import Poison
from warpsmith_harness.products import telling_products
from warpsmith_harness.questions import same_bits
from warpsmith_harness.transport import span

Finding = Dict[str, str]

ALLOCATIONS = frozenset(
    ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided")
)
ARRANGEMENTS = frozenset(
    (
        "aten::_local_scalar_dense",
        "aten::_to_copy",
        "aten::_unsafe_view",
        "aten::clone",
        "aten::copy_",
        "aten::detach",
        "aten::fill_",
        "aten::full",
        "aten::full_like",
        "aten::is_pinned",
        "aten::lift_fresh",
        "aten::lift_fresh_copy",
        "aten::new_full",
        "aten::new_ones",
        "aten::new_zeros",
        "aten::ones",
        "aten::ones_like",
        "aten::pin_memory",
        "aten::record_stream",
        "aten::resize_",
        "aten::scalar_tensor",
        "aten::set_",
        "aten::zero_",
        "aten::zeros",
        "aten::zeros_like",
    )
)
"""Operators that allocate, copy, cast or fill: they arrange memory and compute nothing."""

_RESHAPED = frozenset(("aten::resize_", "aten::resize_as_", "aten::set_"))
"""Operators after which a tensor may reach farther, or lie elsewhere."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_HELD_BYTES = 512 * 1024 * 1024
_LARGE_BYTES = 256 * 1024 * 1024
"""Above this nothing is kept twice: the device may have no room for it."""


class OperatorWatch(TorchDispatchMode):
    """Counts the operators that compute, and poisons whatever is allocated.

    Args:
        poison: What with.

    Attributes:
        computed: How often each operator beyond allocation, views and copies was called.
        fences: Around what is allocated.
    """

    def __init__(self, poison: Poison) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._poison = poison
        self.computed: Dict[str, int] = {}
        self.fences = Fences()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from importing its whole compiler in every worker, to shield this class from it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name in ALLOCATIONS:
            result = self.fences.around(result)
            self._poison.fill([result])
        elif name in _RESHAPED:
            self.fences.take_down()
        elif name not in ARRANGEMENTS and not _is_view(func):
            self.computed[name] = self.computed.get(name, 0) + 1
        return result


def _is_view(func: Any) -> bool:
    """Tell whether an operator returns an alias of its input without writing to it."""
    aliases = [output.alias_info for output in func._schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def delegation(computed: Dict[str, int], policy: str) -> List[Finding]:
    """Return a finding for operators of torch that computed in the candidate's place."""
    if not computed:
        return []
    named = ", ".join(f"{name.replace('aten::', 'torch.')} ({count})" for name, count in sorted(computed.items()))
    return [finding("delegation", "reject" if policy == "own-kernels" else "label", f"computed by torch: {named}")]


def call_watched(
    call: Callable[[], Any],
    device: torch.device,
    inputs: Sequence[torch.Tensor],
    sizes: Sequence[int],
    poison: Poison,
    watch: Optional[OperatorWatch],
) -> Tuple[List[torch.Tensor], Any, List[Finding]]:
    """Call the candidate in poisoned memory; return its output, flattened, and what was found.

    The call is queued behind a closed gate, and directly behind it, with nothing waited for, its outputs are copied on
    the same stream: what differs once the device is idle was written late.
    """
    gate = Gate(inputs, device)
    with poison.handed_out(sizes, device):
        gate.close()
        if watch is not None:
            with watch, telling_products():
                result = call()
        else:
            result = call()
        tensors, structure = values.flatten(result)
        strided = [tensor for tensor in tensors if tensor.layout == torch.strided]
        early = [_remembered(tensor.detach()) for tensor in strided]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    late = [index for index, (then, now) in enumerate(zip(early, strided)) if not _as_remembered(then, now)]
    found = [
        finding("late-write", "reject", f"output {index} changed after the call's own stream had finished")
        for index in late
    ]
    return tensors, structure, found + (beyond(watch.fences) if watch is not None else [])


def _remembered(tensor: torch.Tensor) -> Union[torch.Tensor, int]:
    """Return a copy of a tensor, or of a large one a sum over its bytes."""
    large = tensor.numel() * tensor.element_size() > _LARGE_BYTES
    return fingerprint(tensor) if large else values.clone_like(tensor)


def _as_remembered(then: Union[torch.Tensor, int], now: torch.Tensor) -> bool:
    return fingerprint(now) == then if isinstance(then, int) else same_bits(then, now)


def fingerprint(tensor: torch.Tensor) -> int:
    """Return a sum over a tensor's bytes that changes when they do; on the CPU without a thread pool."""
    if tensor.device.type != "cpu":
        return values.checksum(tensor)
    size = span(tensor) * tensor.element_size()
    memory = (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""
    return zlib.crc32(memory)


class Checksums:
    """What a call must leave alone: inputs and state, summed before, compared after."""

    def __init__(self, named: Dict[str, torch.Tensor]) -> None:
        self._named = named
        self._before = {name: fingerprint(tensor) for name, tensor in named.items()}

    def changed(self) -> List[str]:
        """Return the names of what has changed since."""
        return [name for name, tensor in self._named.items() if fingerprint(tensor) != self._before[name]]


def mutation(changed: List[str]) -> List[Finding]:
    """Return a finding for inputs and state that the candidate wrote to and the original does not."""
    if not changed:
        return []
    return [finding("mutation", "reject", f"the call changed {', '.join(changed)}, which the original leaves alone")]


def beyond(fences: Fences) -> List[Finding]:
    """Return a finding for what was written beside tensors, where an allocator may have put something else."""
    broken = fences.broken()
    return [finding("beyond", "reject", f"the call wrote beyond {', '.join(broken)}")] if broken else []


class HeldOutputs:
    """Outputs of earlier calls, kept to see whether a later call writes to them."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: List[Tuple[torch.Tensor, int]] = []

    def hold(self, tensors: Sequence[torch.Tensor], others: Iterable[torch.Tensor]) -> None:
        """Keep some more, as far as the limit allows, but nothing that lies in the memory of ``others``, which may change."""
        own = {tensor.untyped_storage().data_ptr() for tensor in others if tensor.layout == torch.strided}
        for tensor in tensors:
            if tensor.layout != torch.strided or tensor.untyped_storage().data_ptr() in own:
                continue
            size = tensor.numel() * tensor.element_size()
            if size <= self._limit:
                self._limit -= size
                self._held.append((tensor, fingerprint(tensor)))

    def findings(self) -> List[Finding]:
        """Return a finding if any has changed."""
        if all(fingerprint(tensor) == total for tensor, total in self._held):
            return []
        return [finding("reused-output", "reject", "a later call changed the output that an earlier call had returned")]


class Guards:
    """All guards around the calls of one candidate.

    Args:
        device: Where it runs.
        policy: ``own-kernels`` or ``library-ok``.

    Attributes:
        launches: What the names of operators begin with that launch the candidate's own kernels; none before it lands.
        poison: In the memory that a call gets; a new turn with each.
    """

    def __init__(self, device: torch.device, policy: str) -> None:
        self.launches: Tuple[str, ...] = ()
        self.poison = Poison()
        self._device = device
        self._policy = policy
        self._held = HeldOutputs(_HELD_BYTES)
        self._settings = settings()

    def call(
        self,
        call: Callable[[], Any],
        inputs: Sequence[torch.Tensor],
        given: Dict[str, torch.Tensor],
        sizes: Sequence[int],
        changing: Iterable[torch.Tensor],
        *,
        operators: bool,
    ) -> Tuple[List[torch.Tensor], Any, List[Finding]]:
        """Make one guarded call; return its output, flattened, its structure, and what was found.

        Args:
            call: The call.
            inputs: What it is called on, as far as that may be taken away and brought back.
            given: Tensors that it must leave alone, by name.
            sizes: Bytes of the memory to poison.
            changing: The inputs and the candidate's state: what it returns may lie there, and change when the judge calls again.
            operators: Whether to count what torch computes.
        """
        sums = Checksums(given)
        self.poison.turn()
        watch = OperatorWatch(self.poison) if operators else None
        outputs, structure, found = call_watched(call, self._device, inputs, sizes, self.poison, watch)
        found += mutation(sums.changed()) + self.lasting()
        computed = watch.computed.items() if watch else ()
        found += delegation({n: count for n, count in computed if not n.startswith(self.launches)}, self._policy)
        found += not_plain(outputs)
        self._held.hold(outputs, changing)
        return outputs, structure, found

    def lasting(self) -> List[Finding]:
        """Return what the calls so far have left behind: earlier outputs written over, torch set otherwise."""
        return self._held.findings() + changed_settings(self._settings)


def not_plain(outputs: Sequence[torch.Tensor]) -> List[Finding]:
    """Return a finding for outputs that are more than tensors: such a thing can compute when somebody looks at it."""
    names = sorted({type(output).__name__ for output in outputs if type(output) not in _PLAIN})
    if not names:
        return []
    return [finding("tensor-subclass", "reject", f"an output is a {', '.join(names)}, and must be a plain tensor")]


def settings() -> Dict[str, str]:
    """Return torch's settings that everything in a process depends on, precision above all."""
    backends: Any = torch.backends
    owners = {
        "torch.backends.cuda.matmul": (
            backends.cuda.matmul,
            ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"),
        ),
        "torch.backends.cudnn": (backends.cudnn, ("allow_tf32", "benchmark", "deterministic", "enabled")),
    }
    asked: Dict[str, Callable[[], Any]] = {
        "the precision of float32 products": torch.get_float32_matmul_precision,
        "the default dtype": torch.get_default_dtype,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
        "autocast": lambda: (torch.is_autocast_enabled(), torch.is_autocast_enabled("cpu")),
    }
    for place, (owner, names) in owners.items():
        asked.update({f"{place}.{name}": functools.partial(getattr, owner, name) for name in names})
    return {name: _told(ask) for name, ask in asked.items()}


def _told(ask: Callable[[], Any]) -> str:
    try:
        return str(ask())
    except RuntimeError:  # newer versions refuse to tell a setting that was made in two ways
        return "mixed"


def changed_settings(before: Dict[str, str]) -> List[Finding]:
    """Return a finding for settings of torch that are no longer what they were."""
    now = settings()
    changed = [f"{name} from {value} to {now[name]}" for name, value in before.items() if now[name] != value]
    return [finding("global-state", "reject", f"the candidate changed {', '.join(changed)}")] if changed else []


def finding(rule: str, severity: str, evidence: str) -> Finding:
    """Return a finding of the guard; ``severity`` is ``reject`` or ``label``."""
    return {"rule": rule, "severity": severity, "evidence": evidence}
