"""Checking a tool call's arguments against the tool's schema, in words that help a model to call again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def mismatch(value: Any, schema: Mapping[str, Any], name: str = "") -> str:
    """Return how a value differs from a schema, naming the argument and what is expected, or an empty text.

    Understands ``type``, ``properties``, ``required``, ``additionalProperties``, ``items``, ``enum``, ``minimum``,
    ``maximum``, ``minLength`` and ``minItems``.
    """
    wanted: str = schema.get("type", "object")
    if not _is_of_type(value, wanted):
        return f"{_called(name)} must be of type {wanted}, not {_json_type(value)}.{_keys(schema)}"
    if wanted == "object":
        return _object_mismatch(value, schema, name)
    if wanted == "array":
        return _array_mismatch(value, schema, name)
    if "enum" in schema and value not in schema["enum"]:
        return f"{_called(name)} must be one of: {', '.join(map(str, schema['enum']))}."
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return f"{_called(name)} must not be empty."
    return _range_mismatch(value, schema, name)


def settled(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value with every word of an ``enum`` spelt as the schema spells it, where only its case differs."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return {key: settled(part, known[key]) if key in known else part for key, part in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [settled(part, schema["items"]) for part in value]
    if isinstance(value, str) and value not in schema.get("enum", (value,)):
        same = [each for each in schema["enum"] if str(each).lower() == value.lower()]
        return same[0] if len(same) == 1 else value
    return value


def _is_of_type(value: Any, wanted: str) -> bool:
    flag_for_number = isinstance(value, bool) and wanted in ("integer", "number")
    return isinstance(value, _TYPES[wanted]) and not flag_for_number


def _object_mismatch(value: Mapping[str, Any], schema: Mapping[str, Any], name: str) -> str:
    known = schema.get("properties", {})
    if missing := [each for each in schema.get("required", ()) if each not in value]:
        return f"{_called(_inside(name, missing[0]))} is missing. {_hint(known[missing[0]])}"
    if not schema.get("additionalProperties", True) and (unknown := [each for each in value if each not in known]):
        return f"{_called(_inside(name, unknown[0]))} is unknown. Known are: {', '.join(known) or 'none'}."
    problems = (mismatch(value[each], known[each], _inside(name, each)) for each in value if each in known)
    return next(filter(None, problems), "")


def _array_mismatch(value: list[Any], schema: Mapping[str, Any], name: str) -> str:
    if len(value) < schema.get("minItems", 0):
        return f"{_called(name)} must hold at least {schema['minItems']}."
    problems = (mismatch(each, schema["items"], f"{name}[{index}]") for index, each in enumerate(value))
    return next(filter(None, problems), "") if "items" in schema else ""


def _range_mismatch(value: Any, schema: Mapping[str, Any], name: str) -> str:
    if "minimum" in schema and value < schema["minimum"]:
        return f"{_called(name)} must be at least {schema['minimum']}."
    if "maximum" in schema and value > schema["maximum"]:
        return f"{_called(name)} must be at most {schema['maximum']}."
    return ""


def _called(name: str) -> str:
    return f"'{name}'" if name else "The arguments"


def _inside(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _hint(schema: Mapping[str, Any]) -> str:
    return f"It is of type {schema.get('type', 'object')}: {schema.get('description', '')}".rstrip(": ")


def _keys(schema: Mapping[str, Any]) -> str:
    """Say which keys an object wants, or the objects of an array do; of anything else nothing."""
    if schema.get("type") == "array":
        inside = _keys(schema.get("items", {}))
        return inside and f" Each item is an object.{inside}"
    known, required = schema.get("properties", {}), schema.get("required", ())
    named = (key if key in required else f"{key} (optional)" for key in known)
    return f" Its keys: {', '.join(named)}." if known else ""


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return next(name for name, types in _TYPES.items() if isinstance(value, types))
