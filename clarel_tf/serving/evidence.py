"""`HeadEvidence` and `Discriminants` in the exported graph."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from clarel_tf.decision.discriminants import Discriminants
from clarel_tf.models.distances import pairwise_distances
from clarel_tf.models.embedder import Embedder


class ServedEvidence:
    """What speaks for classes besides their distances, in units of distance."""

    def __init__(
        self,
        model: Embedder,
        prototypes: np.ndarray,
        is_seen: np.ndarray,
        head_weight: float,
        discriminants: Discriminants | None,
    ):
        """Takes the C stored classes: prototypes, float32 [C, E], and is_seen, bool [C]."""
        self._model, self._head_weight, self._discriminants = model, head_weight, discriminants
        if head_weight:
            # The head's class of each stored one; the new ones share the column behind the last.
            known = np.where(is_seen, np.cumsum(is_seen) - 1, np.count_nonzero(is_seen))
            self._head_columns = _stored(known.astype(np.int32), "known")
        if discriminants:
            self._mean = _stored(discriminants.mean, "discriminant_mean")
            self._directions = _stored(discriminants.directions, "discriminant_directions")
            self._products = _stored(discriminants.products, "discriminant_products")
            self._known = _stored(discriminants.prototypes, "discriminant_prototypes")
            self._solver = _stored(discriminants.solver, "discriminant_solver")
            mixtures = discriminants.mixtures(prototypes)
            self._mixtures = _stored(mixtures, "mixtures")
            self._halves = _stored(discriminants.halves(mixtures), "mixture_halves")

    @property
    def is_asked(self) -> bool:
        """False if captions alone decide: the evidence is 0 then."""
        return bool(self._head_weight or self._discriminants)

    def of_stored(self, images: tf.Tensor) -> Callable[..., tf.Tensor]:
        """For images, float32 [B, E]: a function (first, end) -> float32 [B, end - first]."""
        if self._head_weight:
            log_probabilities = tf.nn.log_softmax(self._model.image_classifier(images))
            by_head = tf.pad(self._head_weight * log_probabilities, [[0, 0], [0, 1]])
        if self._discriminants:
            known = self._scores_of_known(images)
            # Read once, not in every block.
            mixtures = tf.convert_to_tensor(self._mixtures)
            halves = tf.convert_to_tensor(self._halves)

        def evidence(first, end) -> tf.Tensor:
            total = tf.zeros([])
            if self._head_weight:
                total += tf.gather(by_head, self._head_columns[first:end], axis=1)
            if self._discriminants:
                total += self._scores(known, mixtures[first:end], halves[first:end])
            return total

        return evidence

    def of_classes(
        self, images: tf.Tensor, prototypes: tf.Tensor, excess: tf.Tensor | float = 0.0
    ) -> tf.Tensor:
        """For classes that come with a request; the head does not know them.

        Args:
          images: float32 [B, E].
          prototypes: float32 [N, E].
          excess: float32 [N], as for `Discriminants.mixtures`.

        Returns:
          float32 [B, N], or 0 if nothing is asked.
        """
        if not self._discriminants:
            return tf.zeros([])
        squares = tf.square(pairwise_distances(prototypes, self._known))
        squares = tf.maximum(squares - tf.reshape(excess, [-1, 1]), 0.0)
        mixtures = tf.matmul(tf.exp(-squares / self._discriminants.width), self._solver)
        halves = 0.5 * tf.reduce_sum(tf.matmul(mixtures, self._products) * mixtures, axis=1)
        return self._scores(self._scores_of_known(images), mixtures, halves)

    def _scores_of_known(self, images: tf.Tensor) -> tf.Tensor:
        """float32 [B, E] -> float32 [B, K]."""
        return tf.matmul(images - self._mean, self._directions)

    def _scores(self, known: tf.Tensor, mixtures: tf.Tensor, halves: tf.Tensor) -> tf.Tensor:
        """float32 [B, K], [N, K], [N] -> float32 [B, N]."""
        return self._discriminants.weight * (tf.matmul(known, mixtures, transpose_b=True) - halves)


def _stored(value: np.ndarray, name: str) -> tf.Variable:
    return tf.Variable(value, trainable=False, name=name)
