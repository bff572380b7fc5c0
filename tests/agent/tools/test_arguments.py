import pytest

from agent.tools.arguments import mismatch, settled

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
            "items": {
                "type": "object",
                "properties": {"old": {"type": "string"}, "all": {"type": "boolean"}},
                "required": ["old"],
            },
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
        ({"path": "x", "edits": [[]]}, "'edits[0]' must be of type object, not array. Its keys: old, all (optional)."),
        (
            {"path": "x", "edits": "a"},
            "'edits' must be of type array, not string. Each item is an object. Its keys: old,",
        ),
        ("x", "The arguments must be of type object, not string. Its keys: path, lines (optional),"),
    ],
)
def test_the_first_mismatch_is_named(arguments: object, said: str) -> None:
    assert mismatch(arguments, SCHEMA).startswith(said)


def test_words_of_an_enum_may_be_spelt_in_any_case_where_one_is_meant() -> None:
    assert settled({"mode": "B", "path": "B"}, SCHEMA) == {"mode": "b", "path": "B"}
    assert settled({"mode": "c"}, SCHEMA) == {"mode": "c"}
    nested = {"type": "array", "items": {"type": "string", "enum": ["on", "ON", "off"]}}
    assert settled(["On", "OFF", "ON"], nested) == ["On", "off", "ON"]
    assert settled("odd", SCHEMA) == "odd"
