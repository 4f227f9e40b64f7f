"""The definition of distance, in TensorFlow (loss, decision rule) and in NumPy."""

import numpy as np
import tensorflow as tf

# Keeps the gradient of the root finite where two embeddings coincide.
EPSILON = 1e-12


def pairwise_distances(a: tf.Tensor, b: tf.Tensor, b_squares: tf.Tensor | None = None) -> tf.Tensor:
    """Euclidean distances by one matrix product.

    Args:
      a: float32 [N, E].
      b: float32 [M, E].
      b_squares: float32 [M], squared lengths of b, if already computed.

    Returns:
      float32 [N, M].
    """
    if b_squares is None:
        b_squares = tf.reduce_sum(tf.square(b), axis=1)
    a_squares = tf.reduce_sum(tf.square(a), axis=1)[:, tf.newaxis]
    squares = a_squares + b_squares - 2.0 * tf.matmul(a, b, transpose_b=True)
    return tf.sqrt(tf.maximum(squares, EPSILON))


def distances_to_true_means(distances: tf.Tensor, excess: tf.Tensor) -> tf.Tensor:
    """Distances to means of few points, corrected to distances to the true means.

    The mean of n points lies at an expected squared distance of scatter / n from the true mean, in
    a direction that is independent of the query. This adds to its squared distance from every
    query, so next to means of hundreds of points it would hardly ever be the nearest.

    Args:
      distances: float32 [N, M].
      excess: float32 [M], scatter / n of each mean, where scatter is the mean squared distance of a
        point from the true mean of its kind.

    Returns:
      float32 [N, M].
    """
    return tf.sqrt(tf.maximum(tf.square(distances) - excess, EPSILON))


def pairwise_distances_numpy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same on arrays: [N, E], [M, E] -> [N, M].

    Example:

    >>> clarel_tf.pairwise_distances_numpy(np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([[5.]])
    """
    distances = a @ b.T
    # In place, because memory traffic takes most of the time besides the product.
    distances *= -2.0
    distances += np.einsum("ij,ij->i", a, a)[:, np.newaxis]
    distances += np.einsum("ij,ij->i", b, b)
    np.maximum(distances, EPSILON, out=distances)
    return np.sqrt(distances, out=distances)
