"""The memory that the bench shares with one worker at a time: inputs one way, outputs the other."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from warpsmith_harness.protocol import Message
from warpsmith_harness.transport import Note, Region, TransportError, bytes_needed, make_region, pack, unpack, views


class Sharing:
    """Keeps a region for inputs and one for outputs; a new worker gets new ones, and so do larger tensors.

    Args:
        device: Where tensors live.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._incoming: Optional[Region] = None
        self._outgoing: Optional[Region] = None
        self._worker = 0
        self._lent_bytes = 0

    def share(
        self, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], request: Message
    ) -> Tuple[Message, List[int]]:
        """Put tensors where the worker reads, and make room for outputs like these.

        Args:
            tensors: To be read.
            outputs: Like those to be written.
            request: ``worker`` (its number) and ``transport`` (``host`` or ``cuda``).

        Returns:
            ``notes`` of the tensors, and ``regions`` with their descriptors where the worker must open new ones.
        """
        sizes = (bytes_needed(tensors), bytes_needed(outputs))
        handles: List[Any] = []
        descriptors: List[int] = []
        if request["worker"] != self._worker or not self._fits(sizes):
            regions = self._renew(request["transport"], sizes)
            self._worker = request["worker"]
            handles = [region.handle() for region in regions]
            descriptors = [descriptor for region in regions for descriptor in region.descriptors()]
        if self._incoming is None:
            raise RuntimeError("nothing is shared")
        return {"notes": pack(tensors, self._incoming), "regions": handles}, descriptors

    def lend(
        self, tensors: Sequence[torch.Tensor], state: Sequence[torch.Tensor], output_bytes: int, request: Message
    ) -> Tuple[Message, List[int]]:
        """As ``share``, for tensors that the worker uses where they lie, and for others that it copies, ``state``.

        Outputs come back through the host's memory.
        """
        sizes = (bytes_needed(tensors) + bytes_needed(state), output_bytes)
        handles: List[Any] = []
        descriptors: List[int] = []
        if request["worker"] != self._worker or not self._fits(sizes):
            self._close()
            self._incoming, self._outgoing = make_region(request["transport"], sizes[0]), make_region("host", sizes[1])
            self._worker = request["worker"]
            handles = [self._incoming.handle(), self._outgoing.handle()]
            descriptors = [*self._incoming.descriptors(), *self._outgoing.descriptors()]
        if self._incoming is None:
            raise RuntimeError("nothing is lent")
        self._lent_bytes = bytes_needed(tensors)
        return {"notes": pack(tensors, self._incoming), "state": self.renew(state), "regions": handles}, descriptors

    def renew(self, state: Sequence[torch.Tensor]) -> List[Note]:
        """Put another state behind the tensors that are lent; returns its notes."""
        if self._incoming is None:
            raise RuntimeError("nothing is lent")
        return pack(state, self._incoming, self._lent_bytes)

    def holds(self, worker: int) -> bool:
        """Tell whether this worker has the memory that is there now; any other's is let go."""
        if worker != self._worker:
            self._close()
        return self._incoming is not None

    def lent(self, notes: Sequence[Note]) -> List[torch.Tensor]:
        """Return tensors that were lent, where they lie."""
        if self._incoming is None:
            raise RuntimeError("nothing is lent")
        return views(notes, self._incoming, self._device)

    def read(self, notes: Sequence[Note]) -> List[torch.Tensor]:
        """Copy out what the worker wrote; what it only described becomes a tensor of that form without memory.

        Raises:
            TransportError: A tensor is not strided, or its description makes no sense.
        """
        if self._outgoing is None:
            raise RuntimeError("nothing is shared")
        found = []
        for note in notes:
            if not note["strided"]:
                raise TransportError("an output is not a plain strided tensor")
            if note["offset"] is None:
                dtype = getattr(torch, note["dtype"])
                found.append(torch.empty_strided(note["shape"], note["stride"], dtype=dtype, device="meta"))
            else:
                found += unpack([note], self._outgoing, self._device)
        return found

    def _fits(self, sizes: Tuple[int, int]) -> bool:
        regions = (self._incoming, self._outgoing)
        return all(region is not None and region.size >= size for region, size in zip(regions, sizes))

    def _close(self) -> None:
        for region in (self._incoming, self._outgoing):
            if region is not None:
                region.close()
        self._incoming = self._outgoing = None

    def _renew(self, kind: str, sizes: Tuple[int, int]) -> List[Region]:
        self._close()
        self._incoming = make_region(kind, sizes[0])
        self._outgoing = make_region(kind, sizes[1])
        return [self._incoming, self._outgoing]
