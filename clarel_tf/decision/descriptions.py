"""Corrects distances to a class of a request, which few sentences describe.

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

Where a request offers only n of the C stored classes, only these are rivals, and reference images
without a rival do not count. More images fall to each of few classes. A class that says as much as
a typical one (v = 1) may take as many times an even part as with all classes on offer, others less:

    v^2 * share + v^8 * extra,  with extra = min(1, share * (C + 1) / (n + 1)) - share
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.decision.discriminants import stored
from clarel_tf.decision.prototypes import Prototypes

MOST_REFERENCES = 1000
# The largest share that is ever selected; see `evaluation/description_fit.py`.
MOST_SHARE = 0.1
_POWER = 8.0  # of v, where few classes are on offer; see docs/lab_notes.md
_NO_GAIN = -1e30  # of a reference image without a rival; finite, because it is interpolated


class ReferenceRivals(NamedTuple):
    """The stored classes that compete for R reference images; an image's own class does not.

    Attributes:
      nearest: float32 [R], d_alpha of the nearest of them; infinite if there is none.
      second: float32 [R], d_alpha of the second, for requests that replace the nearest.
      columns: int32 [R], number of the nearest.
    """

    nearest: Any
    second: Any
    columns: Any

    @classmethod
    def none(cls, count: Any) -> "ReferenceRivals":
        """Before any class is on offer: rivals at an infinite distance."""
        infinite = tf.fill([count], np.float32(np.inf))
        return cls(infinite, infinite, tf.fill([count], -1))

    def among_more(self, distances: Any, columns: Any, own: Any) -> "ReferenceRivals":
        """The rivals with C more stored classes on offer.

        Args:
          distances: float32 [R, C], d_alpha of the reference images to them.
          columns: int32 [C], their numbers.
          own: int32 [R], the number of each image's own class.
        """
        columns, own = tf.cast(columns, tf.int32), tf.cast(own, tf.int32)
        is_own = tf.equal(own[:, tf.newaxis], columns[tf.newaxis])
        others = tf.where(is_own, np.float32(np.inf), distances)
        together = tf.concat([tf.stack([self.nearest, self.second], 1), others], axis=1)
        best = tf.math.top_k(-together, 2)
        second = tf.fill([tf.size(own), 1], -1)  # its number is not kept, and never asked for
        numbers = tf.concat(
            [self.columns[:, tf.newaxis], second, tf.broadcast_to(columns, tf.shape(others))], 1
        )
        nearest = tf.gather(numbers, best.indices[:, 0], batch_dims=1)
        return ReferenceRivals(-best.values[:, 0], -best.values[:, 1], nearest)


class Offer(NamedTuple):
    """What is on offer besides the classes of a request.

    Attributes:
      rivals: of the reference images among the stored classes on offer.
      extra: the share of reference images that a class with v = 1 may take besides `share`.
    """

    rivals: ReferenceRivals
    extra: Any


class DescriptionModel(NamedTuple):
    """The inputs of the rule for classes of a request.

    Attributes:
      center: float32 [E], q.
      references: float32 [R, E], embedded reference images.
      rivals: of the reference images.
      typical: a.
      scatter: w.
      share: the share of reference images that a class with v = 1 may take.
      own: int32 [R], number of the class of each reference image; -1 if it is not known.
    """

    center: Any
    references: Any
    rivals: ReferenceRivals
    typical: float
    scatter: float
    share: float
    own: Any

    def as_variables(self) -> "DescriptionModel":
        """A copy for an exported graph; the rule has the references, with their scores."""
        return self._replace(
            center=stored(self.center, "mean_prototype"),
            references=None,
            rivals=ReferenceRivals(*map(stored, self.rivals, self.rivals._fields)),
            own=stored(self.own, "reference_classes"),
        )

    def specificity(self, means: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        """v of classes with these means, float32 [C, E], of `counts` sentences, float32 [C]."""
        squares = tf.reduce_sum(tf.square(means - self.center), axis=1)
        return tf.minimum(1.0, squares / tf.maximum(self.typical + self.scatter / counts, 1e-12))

    def offer(self, rivals: ReferenceRivals, offered: Any, stored_classes: int) -> Offer:
        """The offer of n (`offered`) of the C stored classes, with their rivals."""
        scaled = self.share * (stored_classes + 1.0) / (tf.cast(offered, tf.float32) + 1.0)
        return Offer(rivals, tf.minimum(1.0, scaled) - self.share)

    def offsets(
        self,
        distances: tf.Tensor,
        specificity: tf.Tensor,
        replaced: tf.Tensor | None = None,
        offer: Offer | None = None,
    ) -> tf.Tensor:
        """What is added to the distances of C classes, float32 [C].

        Args:
          distances: float32 [R, C], d of the reference images to the classes, without offset.
          specificity: float32 [C], v.
          replaced: int32 [C], the stored class that each class takes the place of.
          offer: by default all stored classes.
        """
        rivals, extra = offer or Offer(self.rivals, 0.0)
        allowed = tf.square(specificity) * self.share + specificity**_POWER * extra
        nearest = rivals.nearest[:, tf.newaxis]
        if replaced is not None:
            is_gone = tf.equal(rivals.columns[:, tf.newaxis], replaced[tf.newaxis])
            nearest = tf.where(is_gone, rivals.second[:, tf.newaxis], nearest)
        counts = tf.math.is_finite(nearest)
        gains = tf.transpose(tf.where(counts, nearest - distances, _NO_GAIN))
        count = tf.reduce_sum(tf.cast(counts, tf.float32), axis=0)
        # Between the two gains that the allowed number of images lies between.
        place = allowed * count - 0.5
        place = tf.maximum(0.0, tf.minimum(place, count - 1.0))
        low, last = tf.cast(tf.floor(place), tf.int32), tf.shape(gains)[1] - 1
        largest = tf.math.top_k(gains, tf.minimum(last, tf.reduce_max(low) + 1) + 1).values
        high = tf.minimum(low + 1, tf.shape(largest)[1] - 1)
        below = tf.gather(largest, low, batch_dims=1)
        above = tf.gather(largest, high, batch_dims=1)
        return tf.maximum(0.0, below + (place - tf.cast(low, tf.float32)) * (above - below))


def description_energies(prototypes: Prototypes, is_seen: np.ndarray, scatter: float) -> np.ndarray:
    """|p - q|^2 of each class without the noise of its mean, float64 [C]."""
    means = prototypes.sums / prototypes.counts[:, np.newaxis]
    center = means[is_seen].mean(axis=0)
    return np.square(means - center).sum(axis=1) - scatter / prototypes.counts
