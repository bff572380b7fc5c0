import pytest

from agent.tools.arguments import mismatch

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "description": "Where."},
        "lines": {"type": "integer", "minimum": 1, "maximum": 9},
        "exact": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "edits": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]},
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


def test_what_fits_has_no_mismatch() -> None:
    assert mismatch({"path": "x", "lines": 3, "exact": True, "mode": "b", "edits": [{"old": ""}]}, SCHEMA) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "'path' is missing. It is of type string: Where."),
        ({"path": "x", "line": 3}, "'line' is unknown. Known are: path, lines, exact, mode, edits."),
        ({"path": 3}, "'path' must be of type string, not integer."),
        ({"path": None}, "'path' must be of type string, not null."),
        ({"path": ""}, "'path' must not be empty."),
        ({"path": "x", "lines": True}, "'lines' must be of type integer, not boolean."),
        ({"path": "x", "lines": "3"}, "'lines' must be of type integer, not string."),
        ({"path": "x", "lines": 0}, "'lines' must be at least 1."),
        ({"path": "x", "lines": 10}, "'lines' must be at most 9."),
        ({"path": "x", "exact": 1}, "'exact' must be of type boolean, not integer."),
        ({"path": "x", "mode": "c"}, "'mode' must be one of: a, b."),
        ({"path": "x", "edits": []}, "'edits' must hold at least 1."),
        ({"path": "x", "edits": [{"old": "a"}, {}]}, "'edits[1].old' is missing."),
        ({"path": "x", "edits": [[]]}, "'edits[0]' must be of type object, not array."),
    ],
)
def test_the_first_mismatch_is_named(arguments: dict[str, object], said: str) -> None:
    assert mismatch(arguments, SCHEMA).startswith(said)
