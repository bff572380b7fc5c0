"""Numbers on the command line: what argparse reads them with, so that one which makes no sense is refused at once."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """Read a whole number of 1 or more."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """Read a whole number of 0 or more."""
    return _whole(text, 0)


def amount(text: str) -> float:
    """Read a number of 0 or more."""
    try:
        number = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"it has to be a number, not {text!r}") from error
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError("it has to be a number that is not below 0")
    return number


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"it has to be a whole number, not {text!r}") from error
    if number < least:
        raise argparse.ArgumentTypeError(f"it has to be {least} or more")
    return number
