"""Statistics of repeated runs."""

import math
from collections.abc import Sequence

import numpy as np
import scipy.stats


def mean_and_interval(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, and half the width of the 95 % interval of the mean (None for a single value)."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return {"mean": mean, "interval": None}
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {"mean": mean, "interval": float(scipy.stats.t.ppf(0.975, len(values) - 1)) * spread}
