import pytest
from textual.color import Color

from app.theme import DARK, LIGHT, SIXTEEN, THEMES, VARIABLE_DEFAULTS, choose_theme


@pytest.mark.parametrize(
    ("environment", "theme"),
    [
        ({"TERM": "xterm-256color"}, DARK),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, DARK),
        ({"TERM": "tmux-256color", "COLORFGBG": "0;15"}, LIGHT),
        ({"TERM": "linux"}, SIXTEEN),
        ({"TERM": "xterm"}, SIXTEEN),
        ({"TERM": "screen"}, SIXTEEN),
        ({}, DARK),
    ],
)
def test_the_theme_fits_what_the_terminal_promises(environment: dict[str, str], theme: str) -> None:
    assert choose_theme(environment) == theme


def test_every_theme_names_the_same_colours_of_ours() -> None:
    ours = {name for name in VARIABLE_DEFAULTS if name.startswith(("syn-", "bar"))} | {
        "line",
        "muted",
        "faint",
        "added",
        "removed",
    }
    for theme in THEMES:
        assert ours <= set(theme.variables)


def test_every_colour_of_ours_is_one() -> None:
    for theme in THEMES:
        for name, value in theme.variables.items():
            if not name.endswith("style"):
                Color.parse(value.split()[0])
