"""What the inputs of a class's calls may take, and what is said where some find no room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from recorder.capture import Capture
from torch import nn

BYTES = 4 * 64 * 64


class Halved(nn.Module):
    """A class of the developer's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return half of it."""
        return x / 2


@pytest.mark.parametrize(("room", "kept", "told"), [(100 * BYTES, 2, False), (2 * BYTES, 1, True)])
def test_calls_that_find_no_room_are_said_with_the_option_that_gives_it(
    tmp_path: Path, room: int, kept: int, told: bool
) -> None:
    module = Halved()
    key = f"{__name__}:Halved"
    capture = Capture(tmp_path, [key], room)
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64):
            x = torch.randn(64, 64, dtype=dtype)
            capture.before(module, (x,), {})
            capture.after(module, module(x))
    manifest = json.loads((capture.finish([key])[key] / "manifest.json").read_text())
    assert manifest["refused"] == ""
    shapes = [each["shape"] for each in manifest["inputs"]]
    assert shapes == [[64, 64]]
    said = " ".join(manifest["notes"])
    assert ("--capture-mb" in said) is told
    assert ("1 more are judged beside it" in said) is (kept == 2)
