"""How strange an image is: whether it belongs to any of the classes on offer.

With d1 and d2 the distances d_alpha of the nearest and the second class, z the embedded image, u(z)
its Mahalanobis distance from the training images (one Gaussian for all of them), and P the image
head's probability of the nearest class (1 if that is no seen class):

    strangeness = d1 - lead * (d2 - d1) - length * |z| - doubt * log P
                  + unlikeliness * max(0, u(z) - usual)

An image is accepted if its strangeness is at most a threshold. The terms of the first line find
images whose class is not on offer: their nearest class is farther, it has a rival, they have fewer
of the strong features that make an embedding long, and the head does not recognise them. The last
one finds images of other things; `usual` is so high that it does not touch images of the kind that
the model was trained on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.decision.discriminants import class_statistics, stored
from clarel_tf.decision.selected import NoneThreshold


class ImageDensity(NamedTuple):
    """A Gaussian of embedded training images.

    Attributes:
      mean: float32 [E].
      whitener: float32 [E, E]; deviations times it have unit covariance.
    """

    mean: Any
    whitener: Any

    @classmethod
    def fit(cls, images: np.ndarray) -> "ImageDensity":
        """The Gaussian of N embedded images, float32 [N, E]; its covariance is shrunk."""
        means, covariance = class_statistics(images, np.zeros(len(images), np.int64))
        whitener = np.linalg.cholesky(np.linalg.inv(covariance))
        return cls(means[0].astype(np.float32), whitener.astype(np.float32))

    def unlikeliness(self, embeddings: Any) -> tf.Tensor:
        """The Mahalanobis distance of B images, float32 [B, E] -> float32 [B, 1]."""
        return tf.norm(tf.matmul(embeddings - self.mean, self.whitener), axis=1, keepdims=True)

    def as_variables(self) -> "ImageDensity":
        """A copy with variables, for an exported graph."""
        return ImageDensity(stored(self.mean, "image_mean"), stored(self.whitener, "whitener"))


def doubts(head: Callable[[Any], tf.Tensor], embeddings: Any) -> tf.Tensor:
    """-log P of the K seen classes by the image head, float32 [B, E] -> float32 [B, K]."""
    return -tf.nn.log_softmax(head(embeddings))


def doubt_in(doubts: tf.Tensor, columns: Any) -> tf.Tensor:
    """The doubt in one class for each image, float32 [B, 1]; 0 if it is no seen class.

    Args:
      doubts: float32 [B, K].
      columns: int [B], the class among the seen ones; K or more for any other.
    """
    padded = tf.pad(doubts, [[0, 0], [0, 1]])
    columns = tf.minimum(tf.cast(columns, tf.int32), tf.shape(doubts)[1])
    return tf.gather(padded, columns[:, tf.newaxis], batch_dims=1)


def strangeness(
    none: NoneThreshold,
    density: ImageDensity | None,
    embeddings: Any,
    nearest: Any,
    doubt: Any = None,
) -> tf.Tensor:
    """The strangeness of B images, float32 [B, 1].

    Args:
      none: the weights of the terms.
      density: of the training images; without it the last term is left out, as for older runs.
      embeddings: float32 [B, E].
      nearest: float32 [B, n], d_alpha of the nearest classes in ascending order. With a single
        class on offer there is no lead.
      doubt: in the nearest class, [B, 1], as `doubt_in` gives it; 0 by default.
    """
    nearest = tf.convert_to_tensor(nearest)
    value = nearest[:, :1]
    if none.lead:
        second = nearest[:, 1:2]
        lead = tf.reduce_sum(second, axis=1, keepdims=True) - value
        value -= tf.where(tf.shape(second)[1] > 0, none.lead * lead, tf.zeros_like(value))
    if none.length:
        value -= none.length * tf.norm(embeddings, axis=1, keepdims=True)
    if none.doubt and doubt is not None:
        value += none.doubt * doubt
    if none.unlikeliness and density is not None:
        beyond = density.unlikeliness(embeddings) - none.usual
        value += none.unlikeliness * tf.maximum(beyond, 0.0)
    return value


def at_selected_alpha(distances: Any, is_seen: Any, alpha: Any, selected: float) -> Any:
    """d_alpha as it were with the selected alpha, for distances with the alpha of a request.

    The threshold belongs to the selected alpha, and an image does not get stranger by another one.

    Args:
      distances: float32 [B, n].
      is_seen: 1 or 0, [B, n], whether the classes are seen ones.
      alpha: of the request, [B, 1].
    """
    return distances * (1.0 + selected * is_seen) / (1.0 + alpha * is_seen)
