"""Carries tensors between the bench and a worker through memory both can see, byte for byte.

What is shared holds disposable copies only: the bench writes inputs there and copies outputs out before it looks at
them, and the worker copies inputs into private tensors at once. (Inputs that fit on the device only once are the
exception, see ``crowded``: both use them where they lie.) On CUDA the shared memory is the device's (CUDA IPC);
elsewhere, and where IPC fails, an anonymous file that is sealed, so that a worker cannot shrink it under the bench.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

ALIGNMENT = 256
_COPY_DEFAULT = 4
_LAZY_PEER_ACCESS = 1
_IPC_HANDLE_BYTES = 64
_TOUCHED_BYTES = 1024 * 1024 * 1024
_TOUCHED_AT_ONCE = 64 * 1024 * 1024
_TOUCHING_THREADS = 16
_DEVICE_BLOCK = 2 * 1024 * 1024
"""The driver cuts smaller allocations out of blocks of this size, and sharing one of them shares the whole block."""

Note = Dict[str, Any]
Make = Callable[[Note, torch.device], torch.Tensor]


class TransportError(Exception):
    """Shared memory could not be made, opened or copied."""


class Region:
    """Shared memory at one address of this process. ``kind`` is ``host`` or ``cuda``."""

    kind = ""

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size

    def handle(self) -> Dict[str, Any]:
        """Return what another process needs to open it, beside the descriptor."""
        return {"kind": self.kind, "size": self.size, "descriptors": len(self.descriptors())}

    def descriptors(self) -> List[int]:
        """Return the descriptors that travel with the handle."""
        return []

    def bytes(self, start: int, size: int, device: torch.device) -> torch.Tensor:
        """Return this memory itself as a tensor of bytes, not a copy; it must not outlive the region."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it."""


class HostRegion(Region):
    """An anonymous file in memory. Args: ``descriptor`` to open, or None to make a new one of ``size`` bytes."""

    kind = "host"

    def __init__(self, size: int, descriptor: Optional[int] = None) -> None:
        self._descriptor = _sealed_file(size) if descriptor is None else descriptor
        self._map = mmap.mmap(self._descriptor, size)
        self._view = (ctypes.c_char * size).from_buffer(self._map)
        super().__init__(ctypes.addressof(self._view), size)
        if descriptor is None:
            touch(self.address, size)

    def descriptors(self) -> List[int]:
        """Return the file's descriptor."""
        return [self._descriptor]

    def bytes(self, start: int, size: int, device: torch.device) -> torch.Tensor:  # noqa: ARG002  # the CPU's
        """See ``Region``."""
        return torch.frombuffer(self._view, dtype=torch.uint8, count=size, offset=start)

    def close(self) -> None:
        """Unmap and close the file; memory that is still looked at as a tensor goes with that."""
        del self._view
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._descriptor)


class CudaRegion(Region):
    """Device memory of its own, outside torch's allocator. Args: ``handle`` (hex) to open, or None to allocate."""

    kind = "cuda"

    def __init__(self, size: int, handle: Optional[str] = None) -> None:
        self._runtime = cuda_runtime()
        self._owner = handle is None
        pointer = ctypes.c_void_p()
        if handle is None:
            self._check(self._runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)), "cudaMalloc")
        else:
            opened = _IpcHandle.from_buffer_copy(bytes.fromhex(handle))
            code = self._runtime.cudaIpcOpenMemHandle(ctypes.byref(pointer), opened, ctypes.c_uint(_LAZY_PEER_ACCESS))
            self._check(code, "cudaIpcOpenMemHandle")
        super().__init__(pointer.value or 0, size)

    def handle(self) -> Dict[str, Any]:
        """Return the handle with which another process opens the same device memory."""
        exported = _IpcHandle()
        code = self._runtime.cudaIpcGetMemHandle(ctypes.byref(exported), ctypes.c_void_p(self.address))
        self._check(code, "cudaIpcGetMemHandle")
        return {**super().handle(), "ipc": bytes(exported).hex()}

    def bytes(self, start: int, size: int, device: torch.device) -> torch.Tensor:
        """See ``Region``."""
        return bytes_at(self.address + start, size, device)

    def close(self) -> None:
        """Free the memory, or close it where another process owns it."""
        free = self._runtime.cudaFree if self._owner else self._runtime.cudaIpcCloseMemHandle
        free(ctypes.c_void_p(self.address))

    def _check(self, code: int, call: str) -> None:
        if code:
            self._runtime.cudaGetLastError()  # clears it, so that torch does not meet it later
            raise TransportError(f"{call} failed with error {code}")


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * _IPC_HANDLE_BYTES)]


def bytes_at(address: int, size: int, device: torch.device) -> torch.Tensor:
    """Return memory that somebody else owns as a tensor of bytes; numpy is not needed, as for torch's public ways."""
    storage = torch._C._construct_storage_from_data_pointer(address, device, size)
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (size,), (1,))


def make_region(kind: str, size: int) -> Region:
    """Return new shared memory of at least ``size`` bytes."""
    if kind == "cuda":
        return CudaRegion(max(1, -(-size // _DEVICE_BLOCK)) * _DEVICE_BLOCK)
    return HostRegion(max(ALIGNMENT, size))


def open_region(handle: Dict[str, Any], descriptors: Sequence[int]) -> Region:
    """Open shared memory another process made."""
    if handle["kind"] == "cuda":
        return CudaRegion(handle["size"], handle["ipc"])
    return HostRegion(handle["size"], descriptors[0])


def span(tensor: torch.Tensor) -> int:
    """Return the elements from the first to the last a strided tensor touches, gaps included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def bytes_needed(tensors: Sequence[torch.Tensor]) -> int:
    """Return the size of a region that holds these tensors."""
    return sum(_aligned(span(tensor) * tensor.element_size()) for tensor in tensors)


def pack(tensors: Sequence[torch.Tensor], region: Region, start: int = 0) -> List[Note]:
    """Copy tensors into a region, and return a note of each: dtype, shape, strides, device kind, where its bytes are.

    A tensor that does not fit, or is not strided, is noted without bytes (``offset`` None).
    """
    notes = []
    position = start
    for tensor in tensors:
        note = describe(tensor)
        size = note["bytes"]
        if note["strided"] and position + size <= region.size:
            note["offset"] = position
            copy_bytes(region.address + position, tensor.data_ptr(), size, region.kind == "cuda" or tensor.is_cuda)
            position += _aligned(size)
        notes.append(note)
    _settle(region, tensors)
    return notes


def unpack(
    notes: Sequence[Note], region: Region, device: torch.device, make: Optional[Make] = None
) -> List[torch.Tensor]:
    """Return private tensors with the bytes that the notes point at, in the same layout; ``make`` makes them, or ``blank``.

    Notes come from another process: what does not fit the region raises ``TransportError``.
    """
    tensors = []
    for note in notes:
        size, offset = _size(note), note["offset"]
        if not isinstance(offset, int) or offset < 0 or offset + size > region.size:
            raise TransportError("a tensor's bytes do not lie in the shared memory")
        tensor = (make or blank)(note, device)
        copy_bytes(tensor.data_ptr(), region.address + offset, size, region.kind == "cuda" or tensor.is_cuda)
        tensors.append(tensor)
    _settle(region, tensors)
    return tensors


def views(notes: Sequence[Note], region: Region, device: torch.device) -> List[torch.Tensor]:
    """Return tensors that lie in the region itself, where the notes point; whoever writes to one writes for everybody."""
    tensors = []
    for note in notes:
        size = _size(note)
        if size == 0:
            tensors.append(blank(note, device))
            continue
        flat = region.bytes(note["offset"], size, device).view(getattr(torch, note["dtype"]))
        tensors.append(flat.as_strided(note["shape"], note["stride"]))
    return tensors


def describe(tensor: torch.Tensor) -> Note:
    """Return a note of a tensor's metadata, without bytes."""
    strided = tensor.layout == torch.strided and not tensor.is_quantized
    stride = list(tensor.stride()) if strided else []
    return {
        "dtype": str(tensor.dtype)[len("torch.") :],
        "shape": list(tensor.shape),
        "stride": stride,
        "device": tensor.device.type,
        "strided": strided,
        "bytes": span(tensor) * tensor.element_size() if strided else 0,
        "offset": None,
    }


def blank(note: Note, device: torch.device) -> torch.Tensor:
    """Return an uninitialised tensor of a note's dtype, shape and strides; on the device, or the CPU where it was."""
    place = torch.device("cpu") if note["device"] == "cpu" else device
    dtype = getattr(torch, note["dtype"])
    return torch.empty_strided(note["shape"], note["stride"], dtype=dtype, device=place)


def _size(note: Note) -> int:
    """Return a noted tensor's bytes from its dtype, shape and strides, before anything is allocated for it."""
    dtype, shape, stride = getattr(torch, note["dtype"]), note["shape"], note["stride"]
    if not isinstance(dtype, torch.dtype) or len(shape) != len(stride) or min([*shape, *stride], default=0) < 0:
        raise TransportError("a tensor's description makes no sense")
    elements = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride))
    return elements * dtype.itemsize


def copy_bytes(target: int, source: int, size: int, cuda: bool) -> None:
    """Copy raw bytes between addresses of this process, through the CUDA runtime where one is the device's."""
    if size == 0:
        return
    if not cuda:
        ctypes.memmove(target, source, size)
        return
    call = cuda_runtime().cudaMemcpy
    code = call(ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(size), ctypes.c_int(_COPY_DEFAULT))
    if code:
        raise TransportError(f"cudaMemcpy failed with error {code}")


_RUNTIME: List[Any] = []


def cuda_runtime() -> Any:
    """Return the CUDA runtime that torch has loaded; another copy would not share its state."""
    if not _RUNTIME:
        with Path("/proc/self/maps").open() as maps:
            loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "libcudart" in line}
        if not loaded:
            raise TransportError("torch has loaded no libcudart")
        _RUNTIME.append(ctypes.CDLL(sorted(loaded)[0]))
    return _RUNTIME[0]


def touch(address: int, size: int) -> None:
    """Fill much new memory of the host with zeros, on several threads.

    The system finds memory when it is first written to, page after page: for one thread that takes longer than a copy
    between the device and memory that is there. Little memory is left as it is.
    """
    if size < _TOUCHED_BYTES:
        return
    starts = range(0, size, _TOUCHED_AT_ONCE)
    with ThreadPoolExecutor(max_workers=min(_TOUCHING_THREADS, os.cpu_count() or 1)) as threads:
        for _ in threads.map(lambda at: ctypes.memset(address + at, 0, min(_TOUCHED_AT_ONCE, size - at)), starts):
            pass


def _sealed_file(size: int) -> int:
    descriptor = os.memfd_create("warpsmith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _settle(region: Region, tensors: Sequence[torch.Tensor]) -> None:
    if region.kind == "cuda" or any(tensor.is_cuda for tensor in tensors):
        torch.cuda.synchronize()
