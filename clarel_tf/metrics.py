"""Accuracy measures on predictions, in percent."""

import numpy as np


def per_class_accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Top-1 accuracy of each class that occurs in `labels`, averaged over these classes.

    Args:
      predicted: int [N], predicted classes.
      labels: int [N], true classes.
    """
    _, class_of_image, images = np.unique(labels, return_inverse=True, return_counts=True)
    hits = np.bincount(class_of_image, weights=predicted == labels)
    return float(100.0 * np.mean(hits / images))


def harmonic_mean(u: float, s: float) -> float:
    """2us / (u + s); 0 when both are 0."""
    return 2.0 * u * s / (u + s) if u + s > 0 else 0.0
