"""The colours: a dark and a light theme of our own, and one that keeps to the terminal's sixteen.

Colour never carries meaning alone: every mark is a sign or a word too, so that ``NO_COLOR`` loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

DARK, LIGHT, SIXTEEN = "warpsmith", "warpsmith-light", "warpsmith-16"

_DARK_VARIABLES = {
    "line": "#2d333d",
    "muted": "#828b97",
    "faint": "#565e69",
    "added": "#1b2b22",
    "removed": "#33201f",
    "bar": "#4f6f8f",
    "bar-own": "#d99a59",
    "syn-comment": "#707986",
    "syn-keyword": "#b79bd6",
    "syn-type": "#7fb8c4",
    "syn-string": "#9dbf83",
    "syn-number": "#d8a877",
    "syn-function": "#84addc",
    "syn-class": "#e0bd76",
    "syn-operator": "#a2abb6",
    "footer-key-foreground": "#e3a15e",
    "footer-background": "#15171c",
    "footer-description-foreground": "#828b97",
    "footer-item-background": "#15171c",
    "block-cursor-background": "#2b3442",
    "block-cursor-foreground": "#e6e9ee",
    "block-cursor-text-style": "bold",
    "block-cursor-blurred-background": "#22262f",
    "block-cursor-blurred-foreground": "#d5d8de",
    "block-hover-background": "#22262f",
    "input-selection-background": "#7aa2c9 35%",
    "scrollbar": "#333a45",
    "scrollbar-hover": "#465060",
    "scrollbar-active": "#586478",
    "scrollbar-background": "#15171c",
    "scrollbar-background-hover": "#1a1d24",
    "scrollbar-background-active": "#1a1d24",
    "scrollbar-corner-color": "#15171c",
}

_LIGHT_VARIABLES = {
    "line": "#d3d0c8",
    "muted": "#6a6f78",
    "faint": "#9a9ea6",
    "added": "#dfeedd",
    "removed": "#f6e0dd",
    "bar": "#7b9cbb",
    "bar-own": "#b4691f",
    "syn-comment": "#7c8088",
    "syn-keyword": "#7a4fa3",
    "syn-type": "#1f7480",
    "syn-string": "#4b7a2c",
    "syn-number": "#9a5a1a",
    "syn-function": "#2b5f9e",
    "syn-class": "#8a6410",
    "syn-operator": "#5a606a",
    "footer-key-foreground": "#b4691f",
    "footer-background": "#faf8f4",
    "footer-description-foreground": "#6a6f78",
    "footer-item-background": "#faf8f4",
    "block-cursor-background": "#dde4ec",
    "block-cursor-foreground": "#22262d",
    "block-cursor-text-style": "bold",
    "block-cursor-blurred-background": "#ebe8e1",
    "block-cursor-blurred-foreground": "#2b2f36",
    "scrollbar": "#d3d0c8",
    "scrollbar-hover": "#b9b6ae",
    "scrollbar-active": "#9c9a93",
    "scrollbar-background": "#faf8f4",
    "scrollbar-background-hover": "#f3f0ea",
    "scrollbar-background-active": "#f3f0ea",
    "scrollbar-corner-color": "#faf8f4",
}

_SIXTEEN_VARIABLES = {
    "line": "ansi_bright_black",
    "muted": "ansi_white",
    "faint": "ansi_bright_black",
    "added": "ansi_default",
    "removed": "ansi_default",
    "bar": "ansi_blue",
    "bar-own": "ansi_yellow",
    "syn-comment": "ansi_bright_black",
    "syn-keyword": "ansi_magenta",
    "syn-type": "ansi_cyan",
    "syn-string": "ansi_green",
    "syn-number": "ansi_yellow",
    "syn-function": "ansi_bright_blue",
    "syn-class": "ansi_yellow",
    "syn-operator": "ansi_default",
    "footer-key-foreground": "ansi_yellow",
    "block-cursor-background": "ansi_blue",
    "block-cursor-foreground": "ansi_bright_white",
    "block-cursor-text-style": "bold",
    "block-cursor-blurred-background": "ansi_white",
    "block-cursor-blurred-foreground": "ansi_black",
    "input-cursor-text-style": "reverse",
    "input-selection-background": "ansi_blue",
    "input-selection-foreground": "ansi_bright_white",
    "scrollbar": "ansi_bright_black",
    "scrollbar-background": "ansi_default",
    "screen-selection-background": "ansi_blue",
    "screen-selection-foreground": "ansi_bright_white",
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border": "ansi_yellow",
    "border-blurred": "ansi_bright_black",
}

THEMES = (
    Theme(
        name=DARK,
        primary="#7aa2c9",
        secondary="#5f87a8",
        accent="#e3a15e",
        success="#8fbc7a",
        warning="#dcb66a",
        error="#e07f7b",
        foreground="#d5d8de",
        background="#15171c",
        surface="#1a1d24",
        panel="#22262f",
        variables=_DARK_VARIABLES,
    ),
    Theme(
        name=LIGHT,
        primary="#2f6390",
        secondary="#4d7ea8",
        accent="#b4691f",
        success="#3f7a35",
        warning="#946a0c",
        error="#b03a36",
        foreground="#2b2f36",
        background="#faf8f4",
        surface="#f3f0ea",
        panel="#ebe8e1",
        dark=False,
        variables=_LIGHT_VARIABLES,
    ),
    Theme(
        name=SIXTEEN,
        ansi=True,
        primary="ansi_bright_blue",
        secondary="ansi_cyan",
        accent="ansi_yellow",
        success="ansi_green",
        warning="ansi_bright_yellow",
        error="ansi_bright_red",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        variables=_SIXTEEN_VARIABLES,
    ),
)

VARIABLE_DEFAULTS = _DARK_VARIABLES
"""What a theme that is not ours takes for the names that only we use."""


def choose_theme(environment: Mapping[str, str]) -> str:
    """Return the theme for this terminal, judged by its environment: sixteen colours where it promises no more."""
    terminal = environment.get("TERM", "")
    many = environment.get("COLORTERM") in ("truecolor", "24bit")
    many = many or any(
        word in terminal for word in ("256color", "direct", "truecolor", "kitty", "alacritty", "ghostty")
    )
    if not many and terminal and not environment.get("WT_SESSION"):
        return SIXTEEN
    _, _, background = environment.get("COLORFGBG", "").rpartition(";")
    return LIGHT if background in ("7", "15") else DARK
