"""Probabilities that mean something, and a way to say "none of these".

Probabilities are the softmax over -d_alpha / temperature. Both the temperature and the threshold
are fitted on validation images.
"""

from typing import NamedTuple

import numpy as np
import scipy.optimize

from clarel_tf.decision.rule import rescaled
from clarel_tf.decision.selected import NoneThreshold


class ValidationDistances(NamedTuple):
    """Rescaled distances d_alpha of validation images.

    Attributes:
      distances: float [N, C].
      own: int [N], column of each image's true class.
    """

    distances: np.ndarray
    own: np.ndarray

    @classmethod
    def rescaled(
        cls, distances: np.ndarray, own: np.ndarray, is_seen: np.ndarray, alpha: float
    ) -> "ValidationDistances":
        """Applies alpha to plain distances, [N, C], with `is_seen`, bool [C]."""
        # Seen classes first: of equally near classes the first counts, as in the rule.
        order = np.argsort(~is_seen, kind="stable")
        in_order = rescaled(distances, is_seen.astype(np.float32), np.float32(alpha))[:, order]
        return cls(in_order, np.argsort(order)[own])

    def log_probabilities(self, temperature: float) -> np.ndarray:
        """Log softmax of -d / temperature, float64 [N, C]."""
        logits = -self.distances.astype(np.float64) / temperature
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def negative_log_likelihood(self, temperature: float) -> float:
        """Mean over the images."""
        chosen = self.log_probabilities(temperature)[np.arange(len(self.own)), self.own]
        return float(-chosen.mean())

    def calibration_error(self, temperature: float, bins: int = 15) -> float:
        """Expected calibration error in percent.

        Images are put in bins of equal width by the probability of their best class; the error is
        the mean gap between that probability and the accuracy, weighted by the size of the bins.
        """
        probabilities = np.exp(self.log_probabilities(temperature).max(axis=1))
        correct = self.distances.argmin(axis=1) == self.own
        bin_of = np.minimum((probabilities * bins).astype(int), bins - 1)
        gaps = np.bincount(bin_of, weights=probabilities - correct, minlength=bins)
        return float(100.0 * np.abs(gaps).sum() / len(correct))


def fit_temperature(validation: ValidationDistances) -> float:
    """The temperature with the highest likelihood of the true classes."""
    spread = float(np.median(validation.distances)) or 1.0
    found = scipy.optimize.minimize_scalar(
        lambda log_t: validation.negative_log_likelihood(float(np.exp(log_t))),
        bounds=(np.log(spread * 1e-5), np.log(spread * 1e3)),
        method="bounded",
    )
    return float(np.exp(found.x))


def fit_none_threshold(validation: ValidationDistances) -> NoneThreshold:
    """The threshold that best tells whether an image's class is on offer.

    Each validation image is used twice: with all classes, where it should be accepted, and with
    its own class taken away, where it should be rejected. The threshold is the one with the highest
    mean of the two shares.
    """
    rows = np.arange(len(validation.own))
    present = validation.distances.min(axis=1)
    others = validation.distances.copy()
    others[rows, validation.own] = np.inf
    absent = others.min(axis=1)
    candidates = np.unique(np.concatenate([present, absent[np.isfinite(absent)]]))
    # Whole numbers of images, so that equally good thresholds are found to be equal.
    accepted = np.searchsorted(np.sort(present), candidates, side="right")
    rejected = len(rows) - np.searchsorted(np.sort(absent), candidates, side="right")
    best = int(np.argmax(accepted + rejected))
    percent = 100.0 / len(rows)
    return NoneThreshold(
        float(candidates[best]), float(percent * accepted[best]), float(percent * rejected[best])
    )
