"""The stored classes that the new classes of a request compete with for the reference images."""

import tensorflow as tf

from clarel_tf.decision.descriptions import Offer, ReferenceRivals
from clarel_tf.decision.rule import Classes, DecisionRule
from clarel_tf.serving.stored_names import Relations, StoredNames


class Offers:
    """Finds the offer of a request; see `decision/descriptions.py` for its effect."""

    def __init__(
        self,
        rule: DecisionRule,
        names: StoredNames,
        classes: Classes,
        columns: tf.Variable,
        alpha: float,
        block: int,
    ):
        """Takes the stored classes.

        Args:
          columns: int32 [C], the number of each class in the order of labels.
          alpha: that was selected.
          block: classes processed together.
        """
        self._rule, self._names, self._classes = rule, names, classes
        self._columns, self._alpha, self._block = columns, alpha, block

    def of_request(self, among: tf.Tensor, relations: Relations) -> Offer | None:
        """The offer of a request; None if the rule takes descriptions as they are.

        Classes that are replaced or extended are on offer too, with their stored prototypes.

        Args:
          among: string [M], the stored classes on offer; if it is empty, all are.
        """
        model = self._rule.descriptions
        if model is None:
            return None
        stored = ReferenceRivals(*map(tf.convert_to_tensor, model.rivals))
        everything = Offer(stored, tf.constant(0.0))
        rows = self._names.named(among, relations)
        count = self._names.names.shape[0]
        return tf.cond(
            tf.size(among) > 0,
            lambda: model.offer(self._rivals(rows, tf.size(stored.nearest)), tf.size(rows), count),
            lambda: everything,
        )

    def _rivals(self, rows: tf.Tensor, references: tf.Tensor) -> ReferenceRivals:
        """The rivals of so many reference images among the stored classes in `rows`, int32 [n]."""
        classes, count = self._classes.read(), tf.size(rows)

        def with_block(first: tf.Tensor, *rivals: tf.Tensor) -> tuple[tf.Tensor, ...]:
            end = tf.minimum(first + self._block, count)
            block, columns = rows[first:end], tf.gather(self._columns, rows[first:end])
            more = self._rule.with_rivals(
                ReferenceRivals(*rivals), classes.select(block), columns, self._alpha
            )
            return end, *more

        _, *rivals = tf.while_loop(
            lambda first, *_: first < count,
            with_block,
            (tf.constant(0), *ReferenceRivals.none(references)),
            parallel_iterations=1,  # otherwise several blocks would be in memory at once
        )
        return ReferenceRivals(*rivals)
