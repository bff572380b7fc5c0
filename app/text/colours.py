"""Colours of source text, by kind of token. Kept apart because it brings Pygments, which the first frame can do without."""

from __future__ import annotations

from pygments.token import Token  # type: ignore[import-untyped]  # it ships no types
from textual.highlight import HighlightTheme


class Colours(HighlightTheme):
    """Our own colours, the same in the source, the diffs and the agent's words."""

    STYLES: dict[tuple[str, ...], str] = {  # noqa: RUF012 - declared so by the base class
        Token.Comment: "$syn-comment italic",
        Token.Comment.Preproc: "$syn-keyword",
        Token.Comment.PreprocFile: "$syn-string",
        Token.Error: "$text",
        Token.Keyword: "$syn-keyword",
        Token.Keyword.Constant: "$syn-number",
        Token.Keyword.Type: "$syn-type",
        Token.Literal.Number: "$syn-number",
        Token.Literal.String: "$syn-string",
        Token.Literal.String.Doc: "$syn-comment italic",
        Token.Name.Attribute: "$syn-function",
        Token.Name.Builtin: "$syn-type",
        Token.Name.Builtin.Pseudo: "$syn-type italic",
        Token.Name.Class: "$syn-class bold",
        Token.Name.Decorator: "$syn-class",
        Token.Name.Exception: "$syn-class",
        Token.Name.Function: "$syn-function bold",
        Token.Name.Function.Magic: "$syn-function",
        Token.Operator: "$syn-operator",
        Token.Operator.Word: "$syn-keyword",
        Token.Punctuation: "$syn-operator",
    }
