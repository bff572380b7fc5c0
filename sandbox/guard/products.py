"""Matrix products that torch's own library did for a candidate without an operator of torch being called for them."""

from __future__ import annotations

import re

from sandbox.verdict import Finding

_TOLD = re.compile(r"^MKL_VERBOSE (\w*(?:GEMM|GEMV|SYMM|HEMM|TRMM|SYRK)\w*)\(", re.MULTILINE)
"""What ``warpsmith_harness.products`` has oneMKL print; the names are those of BLAS, with what oneMKL adds to some."""


def borrowed_products(printed: str) -> list[Finding]:
    """Return a finding for the products that a worker's output tells of.

    A candidate can silence them, or claim such a product; it gains nothing by the second.
    """
    names = sorted(set(_TOLD.findall(printed)))
    if not names:
        return []
    why = f"computed by torch's own matrix library, looked up at run time: {', '.join(names)}"
    return [Finding("delegation", "reject", why)]
