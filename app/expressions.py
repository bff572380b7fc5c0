"""Python arguments as a developer types them into the form: checked before they are used, and guessed from names."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_INDICES = ("ids", "idx", "index", "indices", "token", "label", "target", "position")


def argument_error(text: str) -> str:
    """Return what is wrong with text that stands between the parentheses of a call, or an empty text."""
    try:
        tree = ast.parse(f"f({text}\n)", mode="eval")
    except SyntaxError:
        unfinished = next((part.strip() for part in text.split(",") if part.strip().endswith("=")), "")
        if unfinished:
            return f"'{unfinished.rstrip('= ')}' has no value yet."
        return "This is not a list of Python arguments."
    except ValueError as error:
        return f"This cannot be read: {error}."
    if not isinstance(tree.body, ast.Call) or not isinstance(tree.body.func, ast.Name):
        return "This is not a list of Python arguments."
    return ""


def guess_constructor(parameters: Sequence[str]) -> str:
    """Return the required constructor arguments by name, each with its value left open."""
    return ", ".join(f"{_name(p)}=" for p in parameters if _is_required(p))


def guess_inputs(parameters: Sequence[str]) -> str:
    """Return plausible forward arguments: a random tensor each, unless its name or annotation says something else."""
    return ", ".join(_guess(parameter) for parameter in parameters if _is_required(parameter))


def _guess(parameter: str) -> str:
    name, _, annotation = parameter.partition(":")
    name, annotation = name.strip(), annotation.strip()
    if annotation in ("int", "bool", "float"):
        return f"{name}={ {'int': '1', 'bool': 'True', 'float': '1.0'}[annotation] }"
    if any(word in name.lower() for word in _INDICES):
        return "torch.randint(0, 100, (8, 128))"
    if "mask" in name.lower():
        return "torch.ones(8, 128, dtype=torch.bool)"
    return "torch.randn(8, 128)"


def _name(parameter: str) -> str:
    return parameter.partition(":")[0].partition("=")[0].strip()


def _is_required(parameter: str) -> bool:
    return "=" not in parameter and not parameter.startswith("*")
