"""What a module of the developer's own run is like: its class, state, modes, plain attributes, and what hangs on it."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.utils import parametrize

from .shared import values

_SAMPLED = 1 << 16
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module", "DataParallel": "module"}
_PLAIN = (bool, int, float, str, type(None))


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the developer's module inside what ``torch.compile`` and data parallelism wrap it in."""
    while type(module).__name__ in _WRAPPERS and type(module).__module__.startswith("torch."):
        module = getattr(module, _WRAPPERS[type(module).__name__])
    return module


def class_of(module: nn.Module) -> type:
    """Return the class that was written for a module: parametrizing gives it another one, derived from that."""
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


def class_key(module: nn.Module) -> str:
    """Return the name that a module's class is ranked and captured under, ``package.module:Class``."""
    cls = class_of(unwrapped(module))
    return f"{cls.__module__}:{cls.__qualname__}"


def is_lazy(module: nn.Module) -> bool:
    """Whether the module has parameters or buffers whose shapes are not known yet."""
    lazy = (UninitializedParameter, UninitializedBuffer)
    return any(isinstance(tensor, lazy) for tensor in [*module.parameters(), *module.buffers()])


# --- State ----------------------------------------------------------------------------------------------------------


def state_tensors(module: nn.Module) -> Dict[str, torch.Tensor]:
    """Return parameters and persistent buffers by name, a shared one under each of its names."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **values.persistent_buffers(module)}


def baked(module: nn.Module) -> Dict[str, Tuple[torch.Tensor, List[str]]]:
    """Return what parametrizations make, by the name the class knows it under, each with the names it is made from."""
    found: Dict[str, Tuple[torch.Tensor, List[str]]] = {}
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        if parametrize.is_parametrized(part):
            for name, chain in part.parametrizations.items():
                with torch.no_grad():
                    whole = getattr(part, name).detach()
                inner = [*dict(chain.named_parameters()), *dict(chain.named_buffers())]
                found[prefix + name] = whole, [f"{prefix}parametrizations.{name}.{key}" for key in inner]
        for name in _normalised(part):  # ``torch.nn.utils.weight_norm``, which goes by a hook
            whole = getattr(part, name).detach()
            found[prefix + name] = whole, [f"{prefix}{name}_g", f"{prefix}{name}_v"]
    return found


def whole_state(module: nn.Module) -> Dict[str, torch.Tensor]:
    """Return the state, and behind it what parametrizations make of it."""
    return {**state_tensors(module), **{name: whole for name, (whole, _) in baked(module).items()}}


def build_of(module: nn.Module) -> Tuple[Any, ...]:
    """Return what is alike in modules of a class that are built alike; numbers that only count them are left out."""
    state = tuple((name, str(t.dtype), tuple(t.shape)) for name, t in state_tensors(module).items())
    plain = tuple(
        (path, name, value)
        for path, found in attributes(module).items()
        for name, value in found.items()
        if type(value) is not int
    )
    return state, plain, tuple(parts(module).values())


def described_state(module: nn.Module) -> Dict[str, Dict[str, Any]]:
    """Return shape, strides, dtype, statistics and whether gradients are wanted, for each of the state's tensors."""
    return {
        name: {**described(tensor), "requires_grad": tensor.requires_grad}
        for name, tensor in whole_state(module).items()
    }


def described(tensor: torch.Tensor) -> Dict[str, Any]:
    """Return a tensor's shape, layout and dtype, and mean, spread, least and largest of some of its elements."""
    told: Dict[str, Any] = {
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "layout": values.layout_of(tensor),
        "dtype": str(tensor.dtype).partition(".")[2],
    }
    if tensor.numel() and not tensor.is_complex():
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // _SAMPLED)].double()
        some = some[torch.isfinite(some)]
        if some.numel():
            numbers = torch.stack([some.mean(), some.std(correction=0), some.min(), some.max()]).tolist()
            told.update(zip(("mean", "spread", "low", "high"), numbers))
    return told


def ties(module: nn.Module) -> List[List[str]]:
    """Return the names of parameters that are one and the same."""
    names: Dict[int, List[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _normalised(part: nn.Module) -> Iterator[str]:
    for hook in part._forward_pre_hooks.values():
        if type(hook).__name__ in ("WeightNorm", "SpectralNorm"):
            yield str(hook.name)  # type: ignore[attr-defined]


# --- The rest -------------------------------------------------------------------------------------------------------


def modes(module: nn.Module) -> Dict[str, bool]:
    """Return whether a part is in train mode, for those that are in another mode than the whole."""
    return {path: part.training for path, part in module.named_modules() if part.training != module.training}


def attributes(module: nn.Module) -> Dict[str, Dict[str, Any]]:
    """Return the plain attributes of each part, which may have been changed since it was constructed."""
    found = {}
    for path, part in module.named_modules():
        plain = {
            name: value
            for name, value in vars(part).items()
            if isinstance(value, _PLAIN) and name != "training" and not name.startswith("_")
        }
        if plain:
            found[path] = plain
    return found


def parts(module: nn.Module) -> Dict[str, str]:
    """Return the class of each part by its path."""
    return {path: class_key(part) for path, part in module.named_modules() if path and "parametrizations" not in path}


def hooks(module: nn.Module) -> List[str]:
    """Return one sentence on whatever hangs on a module and is no part of its class's source."""
    said = []
    for path, part in module.named_modules():
        where = f"its part {path}" if path else "it"
        own = [hook for hook in part._forward_pre_hooks.values() if type(hook).__name__ not in _OF_TORCH]
        names = [_named(hook) for hook in [*own, *part._forward_hooks.values(), *part._backward_hooks.values()]]
        if names:
            said.append(f"{where} has hooks ({', '.join(names)}), which are no part of its class and left out")
        if "forward" in vars(part):
            said.append(f"the forward of {where} was replaced on the object, and its class's own is judged instead")
    for path, (_, made_of) in baked(module).items():
        said.append(f"{path} is parametrized ({len(made_of)} tensors) and judged as the plain weight that it comes to")
    return said


_OF_TORCH = ("WeightNorm", "SpectralNorm")


def _named(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", type(hook).__name__))
