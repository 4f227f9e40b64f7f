"""Probabilities against what was observed: fitting the temperatures, and the calibration error.

The two temperatures are fitted so that the mean probability of the answers equals the share of
right answers, both of images of seen classes and of images of unseen classes. So neither kind gets
probabilities that are too high, whatever share of the images is of that kind. A prior keeps the two
together where few images speak for a difference: `_APART` is the standard deviation of the
logarithm of their ratio. docs/lab_notes.md has what was tried.

If all answers were right, the best temperature would be 0, and every probability 0 or 1. So the
share of n answers of which k are right counts as (k + 1) / (n + 2).
"""

import math

import numpy as np
import scipy.optimize

from clarel_tf.decision.probabilities import Temperatures, exponential_sums, probabilities
from clarel_tf.evaluation.ranked import RankedImages
from clarel_tf.evaluation.trust_records import CalibrationErrors, Reliability, ReliabilityBin

_APART = 0.5
_BINS = 15
_BLOCK = 4096  # images at a time


def fit_temperatures(images: RankedImages) -> Temperatures:
    """The temperatures for images whose nearest class is seen, and for all others."""
    correct, side = images.is_correct(), images.nearest_is_seen()
    of_seen = images.is_seen[images.own]
    kinds = [kind for kind in (of_seen, ~of_seen) if kind.any()]
    below = (images.distances.min(axis=1, keepdims=True) - images.distances).astype(np.float64)

    def loss(logs: np.ndarray) -> float:
        temperatures = np.exp(np.where(side, *logs))[:, np.newaxis]
        given = 1.0 / np.exp(below / temperatures).sum(axis=1)
        apart = float(np.square(logs[0] - logs[1])) / (2.0 * _APART**2)
        return apart + sum(_misfit(given[kind], correct[kind]) for kind in kinds)

    start = np.log(max(float(np.median(-below)), 1e-6))
    one = scipy.optimize.minimize_scalar(
        lambda log: loss(np.array([log, log])), bounds=(start - 12, start + 7), method="bounded"
    )
    both = scipy.optimize.minimize(loss, [one.x, one.x], method="Nelder-Mead")
    seen, unseen = np.exp(both.x)
    return float(seen), float(unseen)


def _misfit(given: np.ndarray, correct: np.ndarray) -> float:
    """-log of the likelihood of the share of right answers, as a normal distribution.

    Args:
      given: float [N], probabilities of the answers.
      correct: bool [N].
    """
    share = (np.count_nonzero(correct) + 1.0) / (len(correct) + 2.0)
    variance = share * (1.0 - share) / len(correct)
    return float(np.square(given.mean() - share)) / (2.0 * variance)


def answer_probabilities(images: RankedImages, temperatures: Temperatures) -> np.ndarray:
    """The probability of the nearest class of each image, float64 [N], as it is served."""
    found = np.empty(len(images.own))
    side = images.nearest_is_seen()
    for start in range(0, len(found), _BLOCK):
        part = slice(start, start + _BLOCK)
        distances = images.distances[part].astype(np.float64)
        smallest = distances.min(axis=1, keepdims=True)
        sums = exponential_sums(distances, smallest, temperatures)
        given = probabilities(smallest, smallest, sums, side[part, np.newaxis], temperatures)
        found[part] = given.numpy()[:, 0]
    return found


def reliability(images: RankedImages, temperatures: Temperatures) -> dict[str, Reliability]:
    """Of all images, of those of seen classes and of those of unseen classes."""
    given, correct = answer_probabilities(images, temperatures), images.is_correct()
    groups = {"all": np.ones(len(given), bool), "seen": images.is_seen[images.own]}
    groups["unseen"] = ~groups["seen"]
    return {
        name: _reliability(given[group], correct[group])
        for name, group in groups.items()
        if group.any()
    }


def calibration_errors(images: RankedImages, temperatures: Temperatures) -> CalibrationErrors:
    """The expected calibration error in percent, with temperature 1 and with the fitted ones.

    NaN without images.
    """
    if not len(images.own):
        return CalibrationErrors(math.nan, math.nan)
    after = reliability(images, temperatures)
    return CalibrationErrors(
        reliability(images, (1.0, 1.0))["all"].error,
        after["all"].error,
        after["seen"].error if "seen" in after else None,
        after["unseen"].error if "unseen" in after else None,
    )


def _reliability(given: np.ndarray, correct: np.ndarray) -> Reliability:
    """Bins of equal width by probability; the error is the mean gap, weighted by their sizes.

    Args:
      given: float [N], probabilities.
      correct: bool [N].
    """
    place = np.minimum((given * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(place, minlength=_BINS)
    sums = np.bincount(place, weights=given, minlength=_BINS)
    hits = np.bincount(place, weights=correct, minlength=_BINS)
    bins = [
        ReliabilityBin(100.0 * float(p / n), 100.0 * float(h / n), int(n))
        for p, h, n in zip(sums, hits, counts, strict=True)
        if n
    ]
    return Reliability(100.0 * float(np.abs(sums - hits).sum()) / len(given), bins)
