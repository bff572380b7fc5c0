import pytest

from app.expressions import argument_error, guess_constructor, guess_inputs


@pytest.mark.parametrize(
    "text", ["", "64", "64, eps=1e-6", "torch.randn(8, 64), mask=None", "*[1, 2], **{'a': 3}", "(1,\n2)"]
)
def test_lists_of_arguments_are_accepted(text: str) -> None:
    assert argument_error(text) == ""


@pytest.mark.parametrize("text", ["64,,", "a b", "64)", "1); import os; (", "x = 1; y", "f(", "\x00", ")("])
def test_anything_else_is_named_wrong(text: str) -> None:
    assert argument_error(text)


def test_an_open_value_is_named() -> None:
    assert argument_error("width=, eps=1e-6") == "'width' has no value yet."


def test_guesses_come_from_names_and_annotations() -> None:
    assert guess_constructor(("width: int", "eps: float = 1e-06", "*rest")) == "width="
    assert guess_inputs(("x: torch.Tensor", "mask", "token_ids", "n: int", "scale: float = 1.0")) == (
        "torch.randn(8, 128), torch.ones(8, 128, dtype=torch.bool), torch.randint(0, 100, (8, 128)), n=1"
    )
    assert argument_error(guess_inputs(("x", "n: int", "flag: bool", "rate: float"))) == ""
