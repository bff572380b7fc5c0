"""From the shapes that a module was called with to the sizes that vary, as a task declares them."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

Shapes = Tuple[Tuple[int, ...], ...]


def varying(names: Sequence[str], seen: Sequence[Shapes], of: Shapes) -> List[Dict[str, Any]]:
    """Return the sizes that vary: dimensions that were always equal together, with the least and the largest size.

    Args:
        names: Of the input tensors.
        seen: Their shapes, one entry a call.
        of: The shapes that a task draws; calls with other numbers of dimensions are passed over.
    """
    alike = [shapes for shapes in seen if [len(shape) for shape in shapes] == [len(shape) for shape in of]]
    groups: Dict[Tuple[int, ...], List[str]] = {}
    for index, name in enumerate(names):
        for dim in range(len(of[index])):
            sizes = tuple(shapes[index][dim] for shapes in alike)
            if len(set(sizes)) > 1:
                groups.setdefault(sizes, []).append(f"{name}.{dim}")
    return [{"dims": dims, "low": min(sizes), "high": max(sizes)} for sizes, dims in groups.items()]


def pointed_at(
    group: Dict[str, Any], names: Sequence[str], floating: Sequence[bool], largest: Sequence[float]
) -> List[str]:
    """Return the integer inputs whose values may point into a dimension of a floating input that varies.

    At another size they would point beyond it, which ends a CUDA context.

    Args:
        group: Of ``varying``.
        names: Of the input tensors.
        floating: Whether each holds floats.
        largest: The largest value of each that holds integers; -1 for the others.
    """
    varied = {dim.rpartition(".")[0] for dim in group["dims"]}
    if not any(is_float and name in varied for name, is_float in zip(names, floating)):
        return []
    return [name for name, value in zip(names, largest) if value >= max(1, group["low"])]
