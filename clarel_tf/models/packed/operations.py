"""Operations on the packed layout, with gradients that move little memory.

The results equal those of TensorFlow's own operations. A gradient is written out if the automatic
one needs more passes over the batch or a slower kernel. Only training uses these gradients:
TensorFlow keeps every graph that has one for as long as the process runs.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from clarel_tf.models.packed.packing import Pooling
from clarel_tf.models.replicas import sum_over_replicas

# The type of a gradient function under `tf.custom_gradient`.
WithGradient = tuple[Any, Callable[..., Any]]
Gradients = tuple[tf.Tensor | None, ...]


def convolve(x: tf.Tensor, kernel: tf.Tensor, training: bool) -> tf.Tensor:
    """Convolution: float32 [S, C] and [3, C, F] -> [S, F], zeros beyond both ends."""
    if training:
        return _convolve_in_training(x, kernel)
    # One product of three neighbours with the kernel. TensorFlow's convolution is no faster on
    # many captions and slower on one, the usual request to a server.
    padded = tf.pad(x, [[1, 1], [0, 0]])
    neighbours = tf.concat([padded[:-2], x, padded[2:]], axis=1)
    return tf.matmul(neighbours, tf.reshape(kernel, [-1, kernel.shape[2]]))


@tf.custom_gradient
def _convolve_in_training(x: tf.Tensor, kernel: tf.Tensor) -> WithGradient:
    """The same by TensorFlow's convolution, with a faster gradient of the kernel."""

    def gradient(of_y: tf.Tensor) -> Gradients:
        of_x = tf.raw_ops.Conv2DBackpropInput(
            input_sizes=tf.concat([[1, 1], tf.shape(x)], axis=0),
            filter=kernel[tf.newaxis],
            out_backprop=of_y[tf.newaxis, tf.newaxis],
            strides=[1, 1, 1, 1],
            padding="SAME",
        )
        # Three plain products: slices of rows are views, and TensorFlow's own kernel for this is
        # a third slower.
        of_kernel = [
            tf.matmul(x[:-1], of_y[1:], transpose_a=True),
            tf.matmul(x, of_y, transpose_a=True),
            tf.matmul(x[1:], of_y[:-1], transpose_a=True),
        ]
        return tf.squeeze(of_x, axis=[0, 1]), tf.stack(of_kernel)

    y = tf.nn.conv1d(x[tf.newaxis], kernel, stride=1, padding="SAME")
    return tf.squeeze(y, axis=0), gradient


def masked_relu(x: tf.Tensor, mask: tf.Tensor, training: bool) -> tf.Tensor:
    """max(x, 0) where the mask is 1, else 0: float32 [S, C] and [S, 1] -> [S, C]."""
    return _masked_relu_in_training(x, mask) if training else tf.nn.relu(x) * mask


@tf.custom_gradient
def _masked_relu_in_training(x: tf.Tensor, mask: tf.Tensor) -> WithGradient:
    y = tf.nn.relu(x) * mask

    def gradient(of_y: tf.Tensor) -> Gradients:
        # y is 0 in an empty slot too, so it alone determines where the gradient passes.
        return tf.raw_ops.ReluGrad(gradients=of_y, features=y), None

    return y, gradient


def max_pool(x: tf.Tensor, pooling: Pooling, training: bool) -> tf.Tensor:
    """Max-pool of 2 into another layout: float32 [S, C], none below 0 -> [R, C]."""
    if not training:
        return tf.maximum(tf.gather(x, pooling.first), tf.gather(x, pooling.second))

    @tf.custom_gradient
    def pool(x: tf.Tensor) -> WithGradient:
        first, second = tf.gather(x, pooling.first), tf.gather(x, pooling.second)

        def gradient(of_y: tf.Tensor) -> tf.Tensor:
            of_first = of_y * tf.cast(first >= second, of_y.dtype)
            both = tf.concat([of_first, of_y - of_first], axis=0)
            return tf.gather(both, pooling.origin)

        return tf.maximum(first, second), gradient

    return pool(x)


def turn_round(x: tf.Tensor, reverse: tf.Tensor, training: bool) -> tf.Tensor:
    """Reverses every caption: float32 [M, C] and int32 [M] -> [M, C]."""
    if not training:
        return tf.gather(x, reverse)

    @tf.custom_gradient
    def turn(x: tf.Tensor) -> WithGradient:
        return tf.gather(x, reverse), lambda of_y: tf.gather(of_y, reverse)

    return turn(x)


def normalize_by_moments(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, share: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Batch norm with a gradient that needs few passes over the batch.

    Args:
      x: float32 [S, C].
      gamma, beta: float32 [C].
      share: float32 [S, 1], weight of each row in the moments; they sum to 1 over all replicas.

    Returns:
      (normalised x, mean, variance); no gradient flows through the moments themselves.
    """

    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> WithGradient:
        # A matrix product with the weights is one pass; multiply and sum would be two.
        mean = sum_over_replicas(tf.matmul(share, x, transpose_a=True))
        squares = tf.math.squared_difference(x, mean)
        variance = sum_over_replicas(tf.matmul(share, squares, transpose_a=True))
        root = tf.math.rsqrt(variance + epsilon)
        scale = root * gamma

        def gradient(of_y: tf.Tensor, *_: tf.Tensor) -> Gradients:
            total = tf.reduce_sum(of_y, axis=0, keepdims=True)
            with_x = tf.reduce_sum(of_y * x, axis=0, keepdims=True)
            of_gamma = (with_x - mean * total) * root
            # The gradient through the moments comes from the rows of all replicas.
            all_total, all_of_gamma = sum_over_replicas([total, of_gamma])
            # of_x = scale * (of_y - share * (total + x_normalised * of_gamma))
            slope = scale * root * all_of_gamma
            of_x = of_y * scale - (x * slope + (scale * all_total - mean * slope)) * share
            return of_x, tf.squeeze(of_gamma, axis=0), tf.squeeze(total, axis=0)

        y = x * scale + (beta - mean * scale)
        return (y, tf.squeeze(mean, axis=0), tf.squeeze(variance, axis=0)), gradient

    return normalize(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))
