"""What follows from several findings together."""

from __future__ import annotations

import pytest

from sandbox.guard.findings import contradicted
from sandbox.verdict import Finding

SHOWN = Finding("joined-streams", "label", "a CUDA graph of the call shows it")
ASKED = Finding("capture-aware", "label", "kernels/a.cu:3: asks")


def test_order_shown_by_a_capture_is_doubted_where_the_candidate_looks_for_captures() -> None:
    [found] = contradicted([SHOWN, ASKED])
    assert (found.rule, found.severity) == ("unordered-stream", "reject")
    assert "kernels/a.cu:3" in found.evidence


@pytest.mark.parametrize("alone", [SHOWN, ASKED], ids=lambda finding: finding.rule)
def test_either_alone_is_a_label(alone: Finding) -> None:
    assert contradicted([alone]) == []
