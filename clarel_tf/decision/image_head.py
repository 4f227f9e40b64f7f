"""What the image head has learned of the known classes, as part of their distances.

Training fits a softmax over the known classes on the embedded images. The decision rule of the
paper does not ask it: all classes are compared by their captions alone. Asked as well, it tells
known classes apart far better than captions do, and doubts images of classes that it does not know:

    d(z, y) = d(z, p(y)) - weight * log P(y | z)    for a known class y, before alpha

The losses multiply distances by `distance_scale` to make logits of them, so a weight of
1 / distance_scale counts both kinds of evidence alike. The head leaves new classes as they are.
"""

from typing import NamedTuple

import numpy as np
import scipy.special

from clarel_tf.models.embedder import Embedder


class HeadEvidence(NamedTuple):
    """The image head of a model.

    Attributes:
      kernel: float32 [E, K], for K known classes in the order of their labels.
      bias: float32 [K].
      weight: of a log-probability, in units of distance.
    """

    kernel: np.ndarray
    bias: np.ndarray
    weight: float

    @classmethod
    def of(cls, model: Embedder, weight: float) -> "HeadEvidence":
        """That of a trained model."""
        head = model.image_classifier
        return cls(head.kernel.numpy(), head.bias.numpy(), weight)

    def log_probabilities(self, images: np.ndarray) -> np.ndarray:
        """Embedded images, float32 [N, E] -> float32 [N, K]."""
        return scipy.special.log_softmax(images @ self.kernel + self.bias, axis=1)

    def add_to(self, distances: np.ndarray, images: np.ndarray) -> None:
        """Changes the distances of images, [N, E], to the known classes, [N, K], in place."""
        distances -= self.weight * self.log_probabilities(images)
