"""Distances of new classes, drawn apart to be compared with those of known ones.

Training pulls images towards the captions of their own class, so distances to known classes say
much: they vary widely from image to image. What a model knows of new classes is less definite, and
distances to them vary less. So a new class neither loses clearly enough against the best known one
where it is wrong, nor wins clearly enough where it is right.

    d(z, y) = level + factor * (d(z, y) - level)    for a new class y, before alpha

Alpha moves all known classes against all new ones; this turns the line between them. New classes
stay in the same order among themselves, so zero-shot accuracy does not change. The level is the
mean distance of training images from their own classes, so that one factor suits a model whose
distances are all longer by the same length.
"""

from typing import Any, NamedTuple


class Stretch(NamedTuple):
    """Works on NumPy arrays and on tensors.

    Attributes:
      factor: 1 changes nothing.
      level: the distance that stays as it is.
    """

    factor: float
    level: float

    def __call__(self, distances: Any) -> Any:
        """Distances of new classes, of any shape; short ones may come out below 0."""
        return self.factor * distances + (1.0 - self.factor) * self.level
