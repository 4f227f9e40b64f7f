"""LDA of the seen classes, extended to unseen classes by caption similarity.

The distance to a prototype ignores how the images of a class scatter and which directions separate
classes. Linear discriminant analysis (LDA) models both, but only for classes with images. So each
class is expressed as a mixture of the seen classes, by kernel ridge regression on the prototypes,
and its mean image is the same mixture of their mean images. With M the centred mean images of the K
seen classes, S the covariance within classes, and a(y) the mixture of y:

    score(z, y) = (z - mean) S^-1 M' a(y) - a(y)' M S^-1 M' a(y) / 2
    d(z, y) = d(z, p(y)) - weight * score(z, y)                      for every class, before alpha

The mixture of a seen class is close to the class itself. The mixture of an unseen class follows
from its prototype, so sentences suffice here too. The setting `discriminant_evidence` fixes the
weight: it is the variation of scores between classes as a share of the variation of distances.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.models.distances import EPSILON, pairwise_distances, pairwise_distances_numpy

_BLOCK = 4096  # images at a time, so that memory does not grow with their number

# Kernel exp(-d^2 / width): the width as a share of the median squared distance between seen
# prototypes, and the ridge. docs/lab_notes.md has the values that were tried.
_WIDTH_SHARE = 0.5
_RIDGE = 0.03

# Fitting holds five matrices of 8-byte numbers, seen classes by seen classes. Above this many
# bytes there is a warning.
_MUCH_MEMORY = 4e9


class Discriminants(NamedTuple):
    """LDA of K seen classes, applicable to any class with a prototype.

    Attributes:
      mean: float32 [E], of the mean images of the seen classes.
      directions: float32 [E, K], S^-1 M'.
      products: float32 [K, K], M S^-1 M'.
      prototypes: float32 [K, E], of the seen classes.
      solver: float32 [K, K], maps kernel values to mixtures.
      width: of the kernel.
      weight: of a score, in units of distance.
    """

    mean: np.ndarray
    directions: np.ndarray
    products: np.ndarray
    prototypes: np.ndarray
    solver: np.ndarray
    width: float
    weight: float

    @classmethod
    def fit(
        cls, images: np.ndarray, labels: np.ndarray, prototypes: np.ndarray, strength: float
    ) -> "Discriminants":
        """LDA fitted to the embedded images of a training split.

        Args:
          images: float32 [N, E].
          labels: int [N], of K classes.
          prototypes: float32 [K, E], of these classes in the order of their labels.
          strength: variation of scores between classes, as a share of the variation of distances.
        """
        needed = 5 * 8 * len(prototypes) ** 2
        if needed > _MUCH_MEMORY:
            print(
                f"discriminants of {len(prototypes)} seen classes need about {needed / 1e9:.0f} "
                "GB of memory; discriminant_evidence=0 does without them",
                file=sys.stderr,
            )
        means, covariance = class_statistics(images, labels)
        centred = means - means.mean(axis=0)
        directions = np.linalg.solve(covariance, centred.T)
        squares = np.square(pairwise_distances_numpy(prototypes, prototypes).astype(np.float64))
        between = squares[~np.eye(len(squares), dtype=bool)]
        width = max(_WIDTH_SHARE * float(np.median(between)) if len(between) else 1.0, EPSILON)
        kernel = np.exp(-squares / width)
        made = cls(
            means.mean(axis=0).astype(np.float32),
            directions.astype(np.float32),
            (centred @ directions).astype(np.float32),
            prototypes,
            np.linalg.inv(kernel + _RIDGE * np.eye(len(kernel))).astype(np.float32),
            width,
            weight=1.0,
        )
        some = images[:: 1 + len(images) // _BLOCK]
        by_distance = pairwise_distances_numpy(some, prototypes).std(axis=1).mean()
        mixtures = made.mixtures(prototypes)
        scores = tf.matmul(made.scores(some), mixtures, transpose_b=True) - made.halves(mixtures)
        by_score = scores.numpy().std(axis=1).mean()
        weight = float(strength * by_distance / max(by_score, EPSILON))
        return made._replace(weight=weight)

    def as_tensors(self) -> "Discriminants":
        """A copy with tensors instead of arrays; variables stay variables."""
        values: list[Any] = [
            tf.constant(value) if isinstance(value, np.ndarray) else value for value in self
        ]
        return Discriminants(*values)

    def as_variables(self) -> "Discriminants":
        """A copy with variables, for an exported graph."""
        values: list[Any] = [
            value if isinstance(value, float) else stored(value, f"discriminant_{name}")
            for name, value in self._asdict().items()
        ]
        return Discriminants(*values)

    def mixtures(self, prototypes: tf.Tensor, excess: tf.Tensor | None = None) -> tf.Tensor:
        """Classes as mixtures of the seen ones, float32 [C, E] -> float32 [C, K].

        Args:
          excess: float32 [C], expected excess of their squared distances: the mean of few captions
            lies farther from every point than the mean of many.
        """
        squares = tf.square(pairwise_distances(prototypes, self.prototypes))
        if excess is not None:
            squares = tf.maximum(squares - tf.reshape(excess, [-1, 1]), 0.0)
        return tf.matmul(tf.exp(-squares / self.width), self.solver)

    def scores(self, images: tf.Tensor) -> tf.Tensor:
        """(z - mean) S^-1 M' of each image, float32 [B, E] -> float32 [B, K]."""
        return tf.matmul(images - self.mean, self.directions)

    def halves(self, mixtures: tf.Tensor) -> tf.Tensor:
        """The term subtracted from the scores of each class, a' M S^-1 M' a / 2: [C, K] -> [C]."""
        return 0.5 * tf.reduce_sum(tf.matmul(mixtures, self.products) * mixtures, axis=1)


def stored(value: Any, name: str) -> tf.Variable | None:
    """A value as a variable: unlike a constant, it is not copied with the graph."""
    return None if value is None else tf.Variable(value, trainable=False, name=name)


def class_statistics(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean images of K classes, and the covariance within classes.

    The covariance is shrunk towards a multiple of the identity, by the optimal amount of Ledoit
    and Wolf (2004) for this number of images.

    Args:
      images: float32 [N, E].
      labels: int [N].

    Returns:
      (means, float64 [K, E]; covariance within classes, float64 [E, E], of full rank).
    """
    _, rows, counts = np.unique(labels, return_inverse=True, return_counts=True)
    size = images.shape[1]
    means = np.zeros((len(counts), size))
    np.add.at(means, rows, images)
    means /= counts[:, np.newaxis]
    products, fourth_powers = np.zeros((size, size)), 0.0
    for start in range(0, len(images), _BLOCK):
        part = slice(start, start + _BLOCK)
        deviations = images[part] - means[rows[part]]
        products += deviations.T @ deviations
        fourth_powers += np.square(np.square(deviations).sum(axis=1)).sum()
    sample = products / len(images)
    level = np.trace(sample) / size
    distance = np.square(sample - level * np.eye(size)).sum()
    noise = (fourth_powers / len(images) - np.square(sample).sum()) / len(images)
    share = np.clip(noise / max(distance, EPSILON), 0.0, 1.0)
    shrunk = (1.0 - share) * sample + (share * level + EPSILON) * np.eye(size)
    return means, shrunk
