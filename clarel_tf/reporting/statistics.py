"""Statistics of repeated runs."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import scipy.stats


@dataclasses.dataclass(frozen=True)
class MeanAndInterval:
    """A mean, and half the width of its 95 % interval (None for a single value)."""

    mean: float
    interval: float | None


def mean_and_interval(values: Sequence[float]) -> MeanAndInterval:
    """The mean of values with its interval by Student's t."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return MeanAndInterval(mean, None)
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return MeanAndInterval(mean, float(scipy.stats.t.ppf(0.975, len(values) - 1)) * spread)
