"""Linear discriminants of the known classes, lent to every class that reads like them.

Distances compare an image with the place of a class's captions. How the images of a class scatter,
and which directions tell classes apart, they do not know. Linear discriminant analysis does, but
for classes with images only. So a class is written as a mixture of the known ones, by kernel ridge
regression on the prototypes, and its mean image is the same mixture of theirs. With M the centred
mean images of the K known classes, S the covariance within classes, and a(y) the mixture of y:

    score(z, y) = (z - mean) S^-1 M' a(y) - a(y)' M S^-1 M' a(y) / 2
    d(z, y) = d(z, p(y)) - weight * score(z, y)                      for every class, before alpha

A known class is hardly mixed with others. The mixture of a new one follows from its prototype, so
sentences are all that it needs here too. The weight follows from the setting, which says how much
scores vary from class to class, as a share of how much distances do.
"""

import sys
from typing import NamedTuple

import numpy as np

from clarel_tf.models.distances import EPSILON, pairwise_distances_numpy

_BLOCK = 4096  # images at a time, so that memory does not grow with their number

# Of the kernel exp(-d^2 / width): the width as a share of the median squared distance between known
# prototypes, and the ridge. docs/results.md has the values that were tried.
_WIDTH_SHARE = 0.5
_RIDGE = 0.03

# Fitting holds five matrices of 8-byte numbers, known classes by known classes. Who is about to use
# this many bytes for them is told.
_MUCH_MEMORY = 4e9


class Discriminants(NamedTuple):
    """What K known classes have to say about any class.

    Attributes:
      mean: float32 [E], of the mean images of the known classes.
      directions: float32 [E, K], S^-1 M'.
      products: float32 [K, K], M S^-1 M'.
      prototypes: float32 [K, E], of the known classes.
      solver: float32 [K, K], from kernel values to mixtures.
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
        """Fits to the embedded images of a training split.

        Args:
          images: float32 [N, E].
          labels: int [N], of K classes.
          prototypes: float32 [K, E], of these classes in the order of their labels.
          strength: how much scores vary from class to class, as a share of how much distances do.
        """
        needed = 5 * 8 * len(prototypes) ** 2
        if needed > _MUCH_MEMORY:
            print(
                f"discriminants of {len(prototypes)} known classes need about {needed / 1e9:.0f} "
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
        by_score = made.evidence(some, made.mixtures(prototypes)).std(axis=1).mean()
        return made._replace(weight=float(strength * by_distance / max(by_score, EPSILON)))

    def mixtures(self, prototypes: np.ndarray, excess: np.ndarray | float = 0.0) -> np.ndarray:
        """Classes as mixtures of the known ones, float32 [C, E] -> float32 [C, K].

        Args:
          excess: float [C], what is known to be too much in their squared distances: the mean of
            few captions lies farther from everything than that of many.
        """
        squares = np.square(pairwise_distances_numpy(prototypes, self.prototypes))
        squares = np.maximum(squares - np.reshape(excess, (-1, 1)), 0.0)
        return (np.exp(-squares / self.width) @ self.solver).astype(np.float32)

    def evidence(self, images: np.ndarray, mixtures: np.ndarray) -> np.ndarray:
        """What speaks for a class, in units of distance: [N, E], [C, K] -> [N, C]."""
        return self.weight * (self._of_known(images) @ mixtures.T - self.halves(mixtures))

    def evidence_of_pairs(self, images: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
        """The same for image i and class i alone: [N, E], [N, E] -> [N]."""
        mixtures = self.mixtures(prototypes)
        scores = np.einsum("nk,nk->n", self._of_known(images), mixtures)
        return self.weight * (scores - self.halves(mixtures))

    def _of_known(self, images: np.ndarray) -> np.ndarray:
        """(z - mean) S^-1 M' of each image, [N, E] -> [N, K], without a copy of the images."""
        return images @ self.directions - self.mean @ self.directions

    def halves(self, mixtures: np.ndarray) -> np.ndarray:
        """What is taken off the scores of each class, a' M S^-1 M' a / 2: [C, K] -> [C]."""
        return 0.5 * np.einsum("ck,ck->c", mixtures @ self.products, mixtures)


def class_statistics(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean images of K classes, and how the images scatter around them.

    The covariance is drawn towards a multiple of the identity, as far as Ledoit and Wolf (2004)
    show to be best for as few images as there are.

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
