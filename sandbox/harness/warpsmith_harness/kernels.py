"""Call the launchers of a built kernel library from Python: one checked function for each, made from its signature.

``bind(manifest, name)`` returns a module of functions. A function takes the C parameters in order, without the stream:

    rms_norm(x, weight, out, n, eps)        # returns None

Pointers take a tensor or None (a null pointer), outputs are allocated by the caller. A tensor must have the dtype of
its parameter, lie on the device the library is for, the same one for all, be contiguous, and begin at a multiple of 16
bytes, so that vector loads are safe; a tensor ``x`` may be any view if the launcher has ``int64_t`` parameters named
``x_stride...``. Outputs count as changed in place. The device of the tensors
is made current and its current stream is passed. What does not fit raises ``RuntimeError`` (``TypeError`` and
``OverflowError`` for numbers) before anything runs; a non-zero return code raises ``RuntimeError`` with its meaning.

Needs the standard library and torch 2.4 or newer; runs on Python 3.9.
"""

from __future__ import annotations

import ctypes
import keyword
import linecache
import operator
import struct
import types
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

import torch

_NUMBERS = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}
_PACKED = {"int32": "i", "int64": "q", "float32": "f", "float64": "d", "bool": "?", "pointer": "Q"}
_LIMITS = {"int32": 2**31, "int64": 2**63}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_ALIGNMENT = 16
"""Bytes; allocators give far more, and only a view of another tensor begins elsewhere."""


_NO_GRAPH_TASK = -1
_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: _NO_GRAPH_TASK)


class Refused(RuntimeError):
    """An argument does not fit its parameter, or the launcher itself said with its return code that it does not run this."""


def bind(manifest: Dict[str, Any], name: str) -> types.ModuleType:
    """Load a built library and return a module with one function for each of its launchers.

    Args:
        manifest: ``library`` (path of the shared object) and ``functions``, a list of ``{"name", "params", "has_stream"}``;
            a parameter is ``{"name", "kind": "input" | "output" | "scalar", "dtype", "strided"}``.
        name: The module's name.

    Raises:
        OSError: The library cannot be loaded; the message says which symbol or file is missing.
    """
    library = ctypes.CDLL(str(manifest["library"]))
    module = types.ModuleType(name, f"Launchers of {manifest['library']}.")
    names = [function["name"] for function in manifest["functions"]]
    for function in manifest["functions"]:
        setattr(module, function["name"], _bind_function(library, function, name))

    def missing(wanted: str) -> NoReturn:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        raise ImportError(f"{name} has no launcher {wanted}; it has: {', '.join(names) or 'none'}.")

    vars(module).update(__all__=names, __file__=str(manifest["library"]), __getattr__=missing)
    return module


def _bind_function(library: ctypes.CDLL, function: Dict[str, Any], module: str) -> Callable[..., None]:
    """Make the checked function of one launcher by writing its Python source: loops over checks cost twice the time."""
    params = function["params"]
    launch, pack = _launcher(library, function)
    source = _source(function, packed=pack is not None)
    file = f"<binding of {function['name']}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: Dict[str, Any] = {
        "_launch": launch,
        "_pack": pack,
        "_plain": _PLAIN,
        "_type": type,
        "_bump": _version_bumper(),
        "_refuse": _Refusal(function),
        "_fail": _fail,
        "_cuda": torch.cuda,
        **{f"_{param['dtype']}": getattr(torch, param["dtype"]) for param in params if param["kind"] != "scalar"},
        **(_stream_functions() if function["has_stream"] else {}),
        "__name__": module,
    }
    exec(compile(source, file, "exec"), scope)  # noqa: S102  (our own text; the names in it are C identifiers)
    bound: Callable[..., None] = scope[function["name"]]
    return bound


def _launcher(library: ctypes.CDLL, function: Dict[str, Any]) -> Tuple[Any, Optional[Callable[..., bytes]]]:
    """Return a launcher and what packs its arguments, or the launcher itself and None where it takes them one by one."""
    kinds = [p["dtype"] if p["kind"] == "scalar" else "pointer" for p in function["params"]]
    kinds += ["pointer"] if function["has_stream"] else []
    try:
        launch = library[f"_warpsmith_{function['name']}"]
    except AttributeError:
        launch = library[function["name"]]
        types_in_c: List[Any] = [_NUMBERS.get(kind, ctypes.c_void_p) for kind in kinds]
        launch.argtypes = types_in_c
        launch.restype = ctypes.c_int
        return launch, None
    launch.restype = ctypes.c_int
    return launch, struct.Struct("=" + "".join(_PACKED[kind] for kind in kinds)).pack


def _source(function: Dict[str, Any], packed: bool) -> str:
    """Write the Python source of one function."""
    params, has_stream = function["params"], function["has_stream"]
    names = _python_names(params)
    lines = [f"def {function['name']}({', '.join(names)}):", f"    {_describe(function)!r}"]
    if has_stream:
        lines.append("    _device = None")
    for index, (name, param) in enumerate(zip(names, params)):
        if param["kind"] == "scalar":
            lines += _scalar_lines(index, name, param["dtype"])
        else:
            lines += _pointer_lines(index, name, param, has_stream)
    lines += [f"    if {n} is not None: _bump(({n},))" for n, p in zip(names, params) if p["kind"] == "output"]
    values = [n if p["kind"] == "scalar" else f"_p{i}" for i, (n, p) in enumerate(zip(names, params))]
    values += ["_stream(_device)"] if has_stream else []
    call = f"_launch(_pack({', '.join(values)}))" if packed else f"_launch({', '.join(values)})"
    if has_stream:
        lines += [
            "    _current = _current_device()",
            "    if _device is None or _device == _current:",
            "        _device = _current",
            f"        _code = {call}",
            "    else:",
            f"        with _cuda.device(_device): _code = {call}",
        ]
    else:
        lines.append(f"    _code = {call}")
    lines.append(f"    if _code: _fail({function['name']!r}, _code, {has_stream})")
    return "\n".join(lines) + "\n"


def _pointer_lines(index: int, name: str, param: Dict[str, Any], has_stream: bool) -> List[str]:
    contiguous = "" if param.get("strided") else f" and {name}.is_contiguous()"
    place = "is_cuda" if has_stream else "is_cpu"
    fits = f"_type({name}) in _plain and {name}.dtype is _{param['dtype']} and {name}.{place}{contiguous}"
    lines = [
        f"    if {name} is None: _p{index} = 0",
        "    else:",
        f"        if not ({fits}): {name} = _refuse.tensor({index}, {name})",
        f"        _p{index} = {name}.data_ptr()",
    ]
    if not param.get("strided"):
        moved = f"{name} = _refuse.place_in_memory({index}, {name}); _p{index} = {name}.data_ptr()"
        lines.append(f"        if _p{index} % {_ALIGNMENT}: {moved}")
    if has_stream:
        lines += [
            f"        if _device is None: _device = {name}.get_device()",
            f"        elif _device != {name}.get_device(): _refuse.device({index}, {name}, _device)",
        ]
    return lines


def _scalar_lines(index: int, name: str, dtype: str) -> List[str]:
    if dtype in _LIMITS:
        limit = _LIMITS[dtype]
        unfit = f"_type({name}) is not int or not {-limit} <= {name} < {limit}"
        return [f"    if {unfit}: {name} = _refuse.integer({index}, {name}, {limit})"]
    if dtype == "bool":
        return [f"    if _type({name}) is not bool: _refuse.number({index}, {name}, 'a bool')"]
    return [f"    if _type({name}) is not float: {name} = _refuse.real({index}, {name})"]


def _python_names(params: List[Dict[str, Any]]) -> List[str]:
    """Return the Python parameters for C parameters; ``in`` and ``lambda`` are good names in C only."""
    names: List[str] = []
    for param in params:
        name = param["name"].lstrip("_") or "arg"
        while keyword.iskeyword(name) or name in names:
            name += "_"
        names.append(name)
    return names


def _describe(function: Dict[str, Any]) -> str:
    shown = [f"{param['name']}: {param['dtype']} {param['kind']}" for param in function["params"]]
    return f"{function['name']}({', '.join(shown)})"


class _Refusal:
    """Says why an argument does not fit its parameter, or makes it fit where that loses nothing."""

    def __init__(self, function: Dict[str, Any]) -> None:
        self.function = function["name"]
        self.params = function["params"]
        self.place = "cuda" if function["has_stream"] else "cpu"

    def tensor(self, index: int, value: Any) -> torch.Tensor:
        """Return a contiguous copy of a gradient that arrives in another layout, which the launcher cannot choose."""
        param = self.params[index]
        what = f"{self.function}: {param['name']}"
        if not isinstance(value, torch.Tensor):
            raise Refused(f"{what} must be a tensor or None, not {type(value).__name__}.")
        if type(value) not in _PLAIN:
            raise Refused(f"{what} must be a plain tensor, not a {type(value).__name__}.")
        if value.dtype is not getattr(torch, param["dtype"]):
            raise Refused(f"{what} must be torch.{param['dtype']}, not {value.dtype}.")
        if value.device.type != self.place:
            raise Refused(f"{what} must be on {self.place}, not on {value.device}.")
        if self._is_gradient(param):
            return value.contiguous()
        raise Refused(
            f"{what} must be contiguous; its shape is {tuple(value.shape)}, its strides are {value.stride()}. Pass a contiguous "
            f"tensor, or give the launcher int64_t parameters {param['name']}_stride0, ... and pass the strides."
        )

    def place_in_memory(self, index: int, value: torch.Tensor) -> torch.Tensor:
        """Return a copy of a gradient that begins elsewhere; see ``tensor``."""
        if self._is_gradient(self.params[index]):
            return value.clone()
        name = self.params[index]["name"]
        raise Refused(
            f"{self.function}: {name} must begin at a multiple of {_ALIGNMENT} bytes; as a view it begins elsewhere. Pass the "
            f"whole tensor and an offset, or give the launcher int64_t parameters {name}_stride0, ... and pass the strides."
        )

    def _is_gradient(self, param: Dict[str, Any]) -> bool:
        """Tell whether autograd calls, and the parameter is only read: what it hands on comes in any layout."""
        return param["kind"] == "input" and _graph_task() != _NO_GRAPH_TASK

    def device(self, index: int, value: torch.Tensor, expected: int) -> NoReturn:
        raise Refused(
            f"{self.function}: {self.params[index]['name']} is on {value.device}, other tensors are on cuda:{expected}."
        )

    def number(self, index: int, value: Any, wanted: str) -> NoReturn:
        raise TypeError(f"{self.function}: {self.params[index]['name']} must be {wanted}, not {type(value).__name__}.")

    def integer(self, index: int, value: Any, limit: int) -> int:
        if isinstance(value, (bool, torch.Tensor)) or not hasattr(value, "__index__"):
            self.number(index, value, "an int")
        whole = operator.index(value)
        if not -limit <= whole < limit:
            name, dtype = self.params[index]["name"], self.params[index]["dtype"]
            raise OverflowError(f"{self.function}: {name} = {whole} does not fit in {dtype}.")
        return whole

    def real(self, index: int, value: Any) -> float:
        if isinstance(value, (bool, torch.Tensor)) or not hasattr(value, "__float__"):
            self.number(index, value, "a float")
        return float(value)


def _version_bumper() -> Callable[[Any], None]:
    """Return torch's function that counts tensors as changed in place; older ones take one tensor, not an iterable."""
    bump: Callable[[Any], None] = torch._C._increment_version
    try:
        bump((torch.empty(0),))
    except (TypeError, RuntimeError):
        return lambda tensors: None if tensors[0].is_inference() else bump(tensors[0])
    return bump


def _stream_functions() -> Dict[str, Any]:
    """Return torch's fast functions for the current device and stream, or slow ones that explain their absence."""
    current = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
    stream = getattr(
        torch._C, "_cuda_getCurrentRawStream", lambda device: torch.cuda.current_stream(device).cuda_stream
    )
    return {"_current_device": current, "_stream": stream}


def _fail(function: str, code: int, is_cuda: bool) -> NoReturn:
    meaning = ""
    if is_cuda and hasattr(torch._C, "_cudart"):
        runtime = torch.cuda.cudart()
        meaning = f": {runtime.cudaGetErrorString(runtime.cudaError(code))}"
    raise Refused(f"{function} returned error {code}{meaning}.")
