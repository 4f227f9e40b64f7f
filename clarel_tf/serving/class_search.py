"""`ClassSearch`: the nearest of the stored classes, and distances to those of a request."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from clarel_tf.decision.rule import DecisionRule, Images, rescaled
from clarel_tf.decision.selected import Selected
from clarel_tf.serving.described import Described
from clarel_tf.serving.nearest import Nearest, add_candidates, nearest_in_blocks
from clarel_tf.serving.offers import Offers
from clarel_tf.serving.refusals import refuse_unless
from clarel_tf.serving.stored_names import Relations, StoredNames


class ClassSearch:
    """Stored classes, seen ones first, and the decision rule.

    Stored tensors are variables: they are written once for all signatures, and a loader does not
    copy them with the graph, as it does with constants.

    Attributes:
      rule: the decision rule.
      names: of the stored classes.
    """

    def __init__(
        self,
        prototypes: np.ndarray,
        class_names: Sequence[str],
        is_seen: np.ndarray,
        selected: Selected,
        rule: DecisionRule,
        k: int,
        block: int,
        counts: np.ndarray | None,
    ):
        """The arguments are those of `PrototypeClassifier`."""
        self._selected, self._k, self._block = selected, k, block
        # Of equally near classes the first one wins, so seen classes come first.
        order = np.argsort(~is_seen, kind="stable")
        self.rule = rule.as_variables()
        self._classes = rule.describe(prototypes[order], is_seen[order]).as_variables()
        counts = np.ones(len(order)) if counts is None else counts
        self.names = StoredNames([class_names[row] for row in order])
        self._counts = tf.Variable(counts[order].astype(np.float32), trainable=False)
        self._columns = tf.Variable(order.astype(np.int32), trainable=False)
        self._offers = Offers(
            *(self.rule, self.names, self._classes, self._columns, selected.alpha, block)
        )

    def among_stored(
        self,
        images: Images,
        alpha: tf.Tensor,
        k: tf.Tensor | int | None = None,
        offered: tf.Tensor | None = None,
        watched: tf.Tensor | None = None,
    ) -> Nearest:
        """The stored classes by d_alpha, for B images.

        Args:
          alpha: float32 [B].
          offered: int32 [n], rows of the classes on offer; all by default.
          watched: see `nearest_in_blocks`.
        """
        is_valid = tf.reduce_all(tf.math.is_finite(alpha) & (alpha > -1.0))
        # At -1 all seen classes are at distance 0, and below it the farthest is the nearest.
        checks = [
            refuse_unless(is_valid, "alpha must be a finite number above -1"),
            refuse_unless(
                tf.equal(tf.size(alpha), tf.shape(images.embeddings)[0]),
                "one alpha is needed for each image",
            ),
        ]
        with tf.control_dependencies(checks):
            alpha = tf.identity(alpha)[:, tf.newaxis]
        classes = self._classes.read()

        def distances_to(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            if offered is None:
                part = classes.part(first, end)
            else:
                part = classes.select(offered[first:end])
            return rescaled(self.rule.distances(images, part), part.is_seen, alpha)

        found = nearest_in_blocks(
            images.embeddings,
            self.names.names.shape[0] if offered is None else tf.size(offered),
            self._block,
            distances_to,
            tf.maximum(2, self._k if k is None else k),  # rejection looks at the second
            self._selected.temperatures,
            watched,
        )
        if offered is None:
            return found
        return found._replace(rows=tf.gather(offered, found.rows))

    def add(
        self,
        found: Nearest,
        distances: tf.Tensor,
        first_row: tf.Tensor | int,
        k: tf.Tensor | int | None = None,
    ) -> Nearest:
        """The nearest of those that were found and of further classes, at these distances [B, N].

        Args:
          first_row: the row of the first of them.
        """
        k = tf.maximum(2, self._k if k is None else k)
        return add_candidates(found, distances, first_row, k, self._selected.temperatures)

    def distances_to(
        self,
        new: Described,
        relations: Relations,
        images: Images,
        alpha: tf.Tensor,
        among: tf.Tensor,
    ) -> tf.Tensor:
        """d_alpha of B images to N classes of the request, float32 [B, N]."""
        is_replaced = relations.replaced >= 0
        columns = tf.gather(self._columns, tf.maximum(relations.replaced, 0))
        replaced = tf.where(is_replaced, columns, -1)
        offer = self._offers.of_request(among, relations)
        described = self.rule.describe_new(new.means, new.counts, replaced, offer)
        distances = self.rule.distances(images, described)
        # An extended class is the stored class with another prototype.
        rows = tf.maximum(relations.extended, 0)
        classes = self._classes.read().select(rows)
        before, added = tf.gather(self._counts, rows), tf.cast(new.counts, tf.float32)
        share = (added / (before + added))[:, tf.newaxis]
        prototypes = (1.0 - share) * classes.prototypes + share * new.means
        moved = self.rule.move(classes, prototypes)
        extended = rescaled(self.rule.distances(images, moved), moved.is_seen, alpha[:, tf.newaxis])
        distances = tf.where(relations.extended >= 0, extended, distances)
        return tf.debugging.check_numerics(distances, "a distance is not a finite number")
