"""Chooses alpha on validation data, with an interval that tells how certain the choice is.

The alpha with the highest H depends on which classes happen to be validation classes, the more so
the fewer they are. So H is maximised for many resampled sets of classes, and the mean of these
alphas is taken. Only the turning points of the images are needed, and nothing is embedded again.

Several alphas may be equally good: every alpha of a range, if it gives the same right answers. The
smallest of them is the best one, and the interval holds them all.
"""

from typing import NamedTuple

import numpy as np

from clarel_tf.decision.alpha import NearestClasses, alpha_grid
from clarel_tf.evaluation.gzsl import gzsl_scores

_RESAMPLINGS = 200
_INTERVAL = (0.025, 0.975)


class AlphaChoice(NamedTuple):
    """A chosen alpha.

    Attributes:
      alpha: the mean of the best alphas of all resamplings.
      interval: [low, high], the middle 95 % of all that were best; equally good ones included.
    """

    alpha: float
    interval: list[float]


def choose_alpha(
    seen_images: NearestClasses,
    seen_labels: np.ndarray,
    unseen_images: NearestClasses,
    unseen_labels: np.ndarray,
    seed: int = 0,
) -> AlphaChoice:
    """Alpha for these images of seen and of unseen classes, as in `gzsl_scores`.

    A resampling draws as many classes as there are, with replacement, and gives the images of a
    class random weights, so that a single class varies too. Alpha is 0 if a positive one lowers H.
    """
    grid = alpha_grid(seen_images, unseen_images)
    rng = np.random.default_rng(seed)
    unseen = _Side(unseen_images.turning_points(), unseen_images.unseen, unseen_labels, grid)
    seen = _Side(seen_images.turning_points(), seen_images.seen, seen_labels, grid)
    best, last_best = np.empty((2, _RESAMPLINGS))
    for row in range(_RESAMPLINGS):
        turned, _ = unseen.resampled(rng)
        lost, right = seen.resampled(rng)
        u, s = turned, right - lost
        h = u * s / np.maximum(u + s, 1e-12)
        best[row] = grid[np.argmax(h)]
        last_best[row] = grid[np.flatnonzero(h == h.max())[-1]]
    low, high = np.quantile(best, _INTERVAL[0]), np.quantile(last_best, _INTERVAL[1])
    sides = seen_images, seen_labels, unseen_images, unseen_labels
    alpha = float(best.mean())
    if gzsl_scores(*sides, alpha).h < gzsl_scores(*sides, 0.0).h:
        alpha = 0.0
    return AlphaChoice(alpha, [float(min(low, alpha)), float(max(high, alpha))])


class _Side:
    """Images of seen or of unseen classes, each right on one side of its turning point."""

    def __init__(
        self, turning: np.ndarray, answers: np.ndarray, labels: np.ndarray, grid: np.ndarray
    ):
        """`answers`: the nearest class of the images' own side, int [N]."""
        _, self._rows, counts = np.unique(labels, return_inverse=True, return_counts=True)
        self._classes, self._points = len(counts), len(grid)
        self._is_right = answers == labels
        # The first alpha of the grid that is above the turning point.
        self._turns = np.searchsorted(grid, turning, side="right")

    def resampled(self, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Accuracy of the images that have turned at each alpha, float [P], and of all."""
        drawn = rng.multinomial(self._classes, np.full(self._classes, 1.0 / self._classes))
        weights = rng.exponential(size=len(self._rows))
        of_class = np.bincount(self._rows, weights, self._classes)
        weights *= self._is_right * (drawn / (self._classes * of_class))[self._rows]
        turned = np.bincount(self._turns, weights, self._points + 1)[: self._points]
        return np.cumsum(turned), float(weights.sum())
