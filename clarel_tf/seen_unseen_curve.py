"""The exact seen-unseen curve over all alpha, and the area under it (AUSUC)."""

import numpy as np

from clarel_tf.calibration import NearestClasses


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
      (u, s) in percent, float64 [P] each; u never falls and s never rises.
    """
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
    return float(np.trapezoid(s, u) / 100.0)


def _class_weights(labels: np.ndarray) -> np.ndarray:
    """What one image counts in per-class accuracy: 1 / (classes * images of its class)."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / (len(counts) * counts[inverse])
