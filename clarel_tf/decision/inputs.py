"""What the decision rule is given: the inputs for classes and those for images."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.decision.discriminants import stored


class Classes(NamedTuple):
    """The inputs of the rule for C classes; None for terms that a rule does not have.

    Attributes:
      prototypes: float32 [C, E].
      squares: float32 [C], squared lengths of the prototypes.
      is_seen: float32 [C], 1 for the classes of the training split.
      head_columns: int32 [C], index of each class among the K outputs of the image head; K for a
        class without an output.
      excess: float32 [C], expected excess of squared distances to a mean of few sentences.
      mixtures: float32 [C, K], each class as a mixture of the K seen classes.
      halves: float32 [C], the term that LDA subtracts from the scores of a class.
      offset: float32 [C], added to the distances of a class of few or empty sentences.
    """

    prototypes: Any
    squares: Any
    is_seen: Any
    head_columns: Any = None
    excess: Any = None
    mixtures: Any = None
    halves: Any = None
    offset: Any = None

    def part(self, first: Any, end: Any) -> "Classes":
        """Classes `first` to `end` - 1."""
        return Classes(*(None if field is None else field[first:end] for field in self))

    def select(self, rows: np.ndarray) -> "Classes":
        """The classes in these rows, int [M]."""
        return Classes(*(None if field is None else tf.gather(field, rows) for field in self))

    def as_variables(self) -> "Classes":
        """A copy with variables, which an export stores once for all signatures."""
        return Classes(*map(stored, self, self._fields))

    def read(self) -> "Classes":
        """A copy with tensors, so that a loop over blocks reads no variable in every turn."""
        return Classes(*(None if field is None else tf.convert_to_tensor(field) for field in self))


class Images(NamedTuple):
    """The inputs of the rule for B images, computed once for all classes.

    Attributes:
      embeddings: float32 [B, E].
      by_head: float32 [B, K + 1], the head's term for each of its K classes, and 0 for others.
      scores: float32 [B, K], LDA scores of the seen classes.
    """

    embeddings: tf.Tensor
    by_head: tf.Tensor | None
    scores: tf.Tensor | None
