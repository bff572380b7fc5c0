"""Values as Python writes them, to be kept as text and compared as text; needs the standard library only."""

from __future__ import annotations

from typing import Any

_SCALARS = (bool, int, float, str)


def literal(value: Any) -> str:
    """Return a value as Python writes it, if it is made of numbers, texts, None, and tuples, lists and dicts of them; else "".

    Infinity has no literal, and is written as what is too large to be another number. A kind of number or text is written as
    its base.
    """
    if value is None:
        return "None"
    for kind in _SCALARS:
        if isinstance(value, kind):
            return repr(kind(value)).replace("inf", "1e999") if kind is float else repr(kind(value))
    if isinstance(value, dict):
        pairs = [(literal(key), literal(each)) for key, each in value.items()]
        return f"{{{', '.join(f'{key}: {each}' for key, each in pairs)}}}" if all(map(all, pairs)) else ""
    if isinstance(value, (tuple, list)):
        inner = [literal(each) for each in value]
        whole = ", ".join(inner)
        comma = "," if len(inner) == 1 else ""
        return "" if not all(inner) else f"({whole}{comma})" if isinstance(value, tuple) else f"[{whole}]"
    return ""
