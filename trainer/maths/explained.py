"""How much of what was earned the critic saw coming."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def explained_variance(values: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    """Return 1 - Var(targets - values) / Var(targets): 1 is perfect, 0 no better than a constant, less is harmful.

    NaN where the targets do not vary: there is nothing to explain then.
    """
    spread = float(np.var(targets))
    return 1.0 - float(np.var(targets - values)) / spread if spread else float("nan")
