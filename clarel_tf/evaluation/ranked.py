"""Images with their distances d_alpha to all classes, for probabilities and for rejection."""

from typing import NamedTuple

import numpy as np

from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.rule import rescaled
from clarel_tf.decision.strangers import doubt_in
from clarel_tf.evaluation.trust_records import DistanceScale
from clarel_tf.evaluation.zero_shot import EmbeddedQueries

# More distances than this are not needed to fit a few numbers.
_MOST_DISTANCES = 50_000_000
_MOST_TRAINING_IMAGES = 5_000


class RankedImages(NamedTuple):
    """N images and C classes; seen classes come first, as in the rule.

    Attributes:
      embeddings: float32 [N, E].
      distances: float32 [N, C], d_alpha.
      own: int [N], column of each image's true class.
      is_seen: bool [C], of the columns.
      doubts: float32 [N, K], of the image head in the K seen classes; None without a head.
    """

    embeddings: np.ndarray
    distances: np.ndarray
    own: np.ndarray
    is_seen: np.ndarray
    doubts: np.ndarray | None = None

    @classmethod
    def of_queries(
        cls, queries: EmbeddedQueries, alpha: float, most: int | None = None, seed: int = 0
    ) -> "RankedImages":
        """The query images of both kinds, or as many of them, drawn by seed, as are ever needed."""
        images = np.concatenate([queries.seen.images, queries.unseen.images])
        labels = np.concatenate([queries.seen.labels, queries.unseen.labels])
        fit_in = max(1, _MOST_DISTANCES // len(queries.prototypes.classes))
        return _ranked(queries, images, labels, alpha, min(most or fit_in, fit_in), seed)

    @classmethod
    def of_images(
        cls, queries: EmbeddedQueries, images: np.ndarray, labels: np.ndarray, alpha: float
    ) -> "RankedImages":
        """These images, float32 [N, E], of these classes, int [N]."""
        return _ranked(queries, images, labels, alpha, len(images), seed=0)

    def two_nearest(self) -> np.ndarray:
        """d_alpha of the two nearest classes, float32 [N, 2]; [N, 1] if only one is on offer."""
        if np.isfinite(self.distances[:1]).sum() < 2:
            return self.distances.min(axis=1, keepdims=True)
        return np.sort(np.partition(self.distances, 1, axis=1)[:, :2], axis=1)

    def doubt(self) -> np.ndarray | None:
        """Of the image head in the nearest class, float32 [N, 1]; None without a head."""
        if self.doubts is None:
            return None
        return doubt_in(self.doubts, self.distances.argmin(axis=1)).numpy()

    def is_correct(self) -> np.ndarray:
        """bool [N], true if the nearest class is the image's own."""
        return self.distances.argmin(axis=1) == self.own

    def nearest_is_seen(self) -> np.ndarray:
        """bool [N], true if the nearest class is a seen one."""
        return self.is_seen[self.distances.argmin(axis=1)]


def distances_of(queries: EmbeddedQueries, images: np.ndarray, alpha: float) -> np.ndarray:
    """d_alpha of images, float32 [N, E], to all classes, seen ones first, float32 [N, C]."""
    blocks = [block for _, block in queries.distance_blocks(images)]
    distances = np.concatenate([np.zeros((0, len(queries.is_seen)), np.float32), *blocks])
    by_alpha = rescaled(distances, queries.is_seen.astype(np.float32), np.float32(alpha))
    return by_alpha[:, np.argsort(~queries.is_seen, kind="stable")]


def distance_scale(
    queries: EmbeddedQueries, training: EmbeddedSplit, alpha: float, seed: int = 0
) -> DistanceScale:
    """The scale of distances of a model's training images, for `carry_over_probabilities`."""
    ranked = _ranked(queries, training.images, training.labels, alpha, _MOST_TRAINING_IMAGES, seed)
    rows = np.arange(len(ranked.own))
    others = ranked.distances.astype(np.float64)
    own = float(others[rows, ranked.own].mean())
    others[rows, ranked.own] = np.inf
    length = float(np.linalg.norm(ranked.embeddings, axis=1).mean())
    classes = int(np.count_nonzero(ranked.is_seen))
    if others.shape[1] < 2:  # a single class has no rivals
        return DistanceScale(own, own, 0.0, length, classes)
    first, second = np.partition(others, 1, axis=1)[:, :2].T
    gap = float(np.mean(second - first)) if others.shape[1] > 2 else 0.0
    return DistanceScale(own, float(first.mean()), gap, length, classes)


def _ranked(
    queries: EmbeddedQueries,
    images: np.ndarray,
    labels: np.ndarray,
    alpha: float,
    most: int,
    seed: int,
) -> RankedImages:
    if len(images) > most:
        chosen = np.random.default_rng(seed).permutation(len(images))[:most]
        images, labels = images[chosen], labels[chosen]
    columns = np.argsort(np.argsort(~queries.is_seen, kind="stable"))
    return RankedImages(
        images,
        distances_of(queries, images, alpha),
        columns[queries.prototypes.rows(labels)],
        np.sort(queries.is_seen)[::-1],
    )
