"""Generalised zero-shot accuracy: u, s and H, and their curves over alpha (AUSUC)."""

import math

import numpy as np

from clarel_tf.decision.alpha import NearestClasses, alpha_grid
from clarel_tf.evaluation.records import AlphaPoint, GzslScores


def per_class_accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Top-1 accuracy of each class that occurs in `labels`, averaged over these classes.

    NaN without labels: nothing can be measured.

    Args:
      predicted: int [N], predicted classes.
      labels: int [N], true classes.
    """
    if not len(labels):
        return math.nan
    _, class_of_image, images = np.unique(labels, return_inverse=True, return_counts=True)
    hits = np.bincount(class_of_image, weights=predicted == labels)
    return float(100.0 * np.mean(hits / images))


def harmonic_mean(u: float, s: float) -> float:
    """2us / (u + s); 0 when both are 0, NaN when one of them is."""
    return 0.0 if u + s == 0 else 2.0 * u * s / (u + s)


def gzsl_scores(
    seen_images: NearestClasses,
    seen_labels: np.ndarray,
    unseen_images: NearestClasses,
    unseen_labels: np.ndarray,
    alpha: float,
) -> GzslScores:
    """u, s and H at one alpha, for images of seen and of unseen classes."""
    u = per_class_accuracy(unseen_images.predict(alpha), unseen_labels)
    s = per_class_accuracy(seen_images.predict(alpha), seen_labels)
    return GzslScores(u, s, harmonic_mean(u, s))


def alpha_curve(
    seen_images: NearestClasses,
    seen_labels: np.ndarray,
    unseen_images: NearestClasses,
    unseen_labels: np.ndarray,
) -> list[AlphaPoint]:
    """u, s and H for every alpha of the grid."""
    curve = []
    for alpha in alpha_grid(seen_images, unseen_images):
        scores = gzsl_scores(seen_images, seen_labels, unseen_images, unseen_labels, alpha)
        curve.append(AlphaPoint(float(alpha), scores.u, scores.s, scores.h))
    return curve


def best_alpha(curve: list[AlphaPoint]) -> float:
    """The alpha with the highest H; the smallest of them if several share it.

    `choose_alpha` of `alpha_choice.py` generalises better to other classes.
    """
    return max(curve, key=lambda point: (point.h, -point.alpha)).alpha


def seen_unseen_curve(
    seen_images: NearestClasses,
    seen_labels: np.ndarray,
    unseen_images: NearestClasses,
    unseen_labels: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """All pairs (u, s) that some alpha gives, from "everything is seen" to "everything is unseen".

    An image changes sides once, at its turning point, so the curve has at most one corner an image
    and needs no grid.

    Returns:
      (u, s) in percent, float64 [P] each; u never falls and s never rises. Empty without images
      of both kinds.
    """
    if not (len(seen_labels) and len(unseen_labels)):
        return np.zeros(0), np.zeros(0)
    turning = np.concatenate([seen_images.turning_points(), unseen_images.turning_points()])
    # What the side of an image's class gains (unseen) or loses (seen) when the image changes sides.
    lost = _class_weights(seen_labels) * (seen_images.seen == seen_labels)
    won = _class_weights(unseen_labels) * (unseen_images.unseen == unseen_labels)
    order = np.argsort(turning, kind="stable")
    u = np.cumsum(np.concatenate([np.zeros_like(lost), won])[order])
    s = lost.sum() - np.cumsum(np.concatenate([lost, np.zeros_like(won)])[order])
    # Images that turn at the same alpha turn together, be it at infinity.
    in_order = turning[order]
    ends = np.flatnonzero(np.append(in_order[1:] != in_order[:-1], True))
    return (
        100.0 * np.concatenate([[0.0], u[ends]]),
        100.0 * np.concatenate([[lost.sum()], np.maximum(s[ends], 0.0)]),
    )


def area_under(u: np.ndarray, s: np.ndarray) -> float:
    """AUSUC in percent of the square: 100 if every image is right whatever alpha."""
    if not len(u):
        return math.nan
    return float(np.trapezoid(s, u) / 100.0)


def _class_weights(labels: np.ndarray) -> np.ndarray:
    """The weight of each image in per-class accuracy: 1 / (classes * images of its class)."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / (len(counts) * counts[inverse])
