"""How far a class can be trusted that a request describes by a few sentences.

The mean of few sentences lies farther from every image than the mean of many. And sentences that
say nothing lie near the mean of all classes, where they would be the nearest class of many images.
With p the mean of n sentences, q the mean prototype of the seen classes, w the mean squared
distance of a caption from its class mean, and a the typical |p - q|^2 of a class without noise:

    v      = min(1, |p - q|^2 / (a + w / n))     specificity: how much the sentences say
    excess = v * w / n                           taken off the squared distance, and used by LDA
    offset = the least addition to d, at least 0, with which the class takes at most a share
             v^2 * share of the reference images

The reference images are a sample of the training images. None of them belongs to the new class. A
reference image counts as taken if the class is nearer than every stored class but the image's own.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.decision.prototypes import Prototypes

MOST_REFERENCES = 1000
# The largest share that is ever selected; see `evaluation/description_fit.py`.
MOST_SHARE = 0.1


class ReferenceRivals(NamedTuple):
    """The stored classes that compete for R reference images; an image's own class does not.

    Attributes:
      nearest: float32 [R], d_alpha of the nearest of them.
      second: float32 [R], d_alpha of the second, for requests that replace the nearest.
      columns: int32 [R], number of the nearest.
    """

    nearest: Any
    second: Any
    columns: Any


def reference_rivals(distances: np.ndarray, own: np.ndarray) -> ReferenceRivals:
    """The rivals in distances d_alpha, float32 [R, C], of images whose own columns are `own`."""
    rows = np.arange(len(distances))
    others = distances.copy()
    others[rows, own] = np.inf
    columns = others.argmin(axis=1)
    nearest = others[rows, columns]
    others[rows, columns] = np.inf
    return ReferenceRivals(nearest, others.min(axis=1), columns.astype(np.int32))


class DescriptionModel(NamedTuple):
    """The inputs of the rule for classes of a request.

    Attributes:
      center: float32 [E], q.
      references: float32 [R, E], embedded reference images.
      rivals: of the reference images.
      typical: a.
      scatter: w.
      share: the share of reference images that a class with v = 1 may take.
    """

    center: Any
    references: Any
    rivals: ReferenceRivals
    typical: float
    scatter: float
    share: float

    def specificity(self, means: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """v of classes with these means, float32 [C, E], of `counts` sentences, float32 [C]."""
        squares = tf.reduce_sum(tf.square(means - self.center), axis=1)
        return tf.minimum(1.0, squares / tf.maximum(self.typical + self.scatter / counts, 1e-12))

    def offsets(
        self, distances: tf.Tensor, specificity: tf.Tensor, replaced: tf.Tensor | None = None
    ) -> tf.Tensor:
        """What is added to the distances of C classes, float32 [C].

        Args:
          distances: float32 [R, C], d of the reference images to the classes, without offset.
          specificity: float32 [C], v.
          replaced: int32 [C], the stored class that each class takes the place of.
        """
        rivals = self.rivals.nearest[:, tf.newaxis]
        if replaced is not None:
            is_gone = tf.equal(self.rivals.columns[:, tf.newaxis], replaced[tf.newaxis])
            rivals = tf.where(is_gone, self.rivals.second[:, tf.newaxis], rivals)
        gains = tf.transpose(rivals - distances)
        count = tf.shape(gains)[1]
        # Between the two gains that the allowed number of images lies between.
        place = tf.square(specificity) * self.share * tf.cast(count, tf.float32) - 0.5
        place = tf.clip_by_value(place, 0.0, tf.cast(count - 1, tf.float32))
        low = tf.cast(tf.floor(place), tf.int32)
        largest = tf.math.top_k(gains, tf.minimum(count, tf.reduce_max(low) + 2)).values
        high = tf.minimum(low + 1, tf.shape(largest)[1] - 1)
        below = tf.gather(largest, low, batch_dims=1)
        above = tf.gather(largest, high, batch_dims=1)
        return tf.maximum(0.0, below + (place - tf.cast(low, tf.float32)) * (above - below))


def description_energies(prototypes: Prototypes, is_seen: np.ndarray, scatter: float) -> np.ndarray:
    """|p - q|^2 of each class without the noise of its mean, float64 [C]."""
    means = prototypes.sums / prototypes.counts[:, np.newaxis]
    center = means[is_seen].mean(axis=0)
    return np.square(means - center).sum(axis=1) - scatter / prototypes.counts
