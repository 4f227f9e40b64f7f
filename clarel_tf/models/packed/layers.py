"""Layers that read the packed layout: masked batch norm and the residual block."""

from typing import Any

import keras
import tensorflow as tf

from clarel_tf.models.packed.operations import convolve, masked_relu, max_pool, normalize_by_moments
from clarel_tf.models.packed.packing import Pooling
from clarel_tf.models.replicas import sum_over_replicas


@keras.saving.register_keras_serializable(package="clarel_tf")
class PackedBatchNorm(keras.layers.Layer):
    """Batch normalisation whose statistics count the occupied slots only.

    So the result does not depend on the padding of a batch.
    """

    def __init__(self, momentum: float, epsilon: float, l2: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.momentum, self.epsilon, self.l2 = momentum, epsilon, l2

    def build(self, input_shape: Any) -> None:
        shape = (input_shape[-1],)
        penalty = half_l2(self.l2)
        self.gamma = self.add_weight(
            name="gamma", shape=shape, initializer="ones", regularizer=penalty
        )
        self.beta = self.add_weight(
            name="beta", shape=shape, initializer="zeros", regularizer=penalty
        )
        self.moving_mean = self.add_weight(
            name="moving_mean", shape=shape, initializer="zeros", trainable=False
        )
        self.moving_variance = self.add_weight(
            name="moving_variance", shape=shape, initializer="ones", trainable=False
        )

    def call(self, x: tf.Tensor, mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalises x, float32 [S, C], by its moments where mask, float32 [S, 1], is 1."""
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        if training:
            share = mask / tf.maximum(sum_over_replicas(tf.reduce_sum(mask)), 1.0)
            x, mean, variance = normalize_by_moments(x, gamma, beta, share, self.epsilon)
            keep = self.momentum
            self.moving_mean.assign(keep * self.moving_mean + (1 - keep) * mean)
            self.moving_variance.assign(keep * self.moving_variance + (1 - keep) * variance)
            return x
        scale = tf.math.rsqrt(self.moving_variance + self.epsilon) * gamma
        return x * scale + (beta - self.moving_mean * scale)

    def get_config(self) -> dict[str, Any]:
        own = {"momentum": self.momentum, "epsilon": self.epsilon, "l2": self.l2}
        return {**super().get_config(), **own}


class ResidualBlock(keras.layers.Layer):
    """Three convolutions of width 3 with a 1x1 shortcut and batch norms, then max-pool 2.

    Subclasses define the input.
    """

    def __init__(self, filters: int, momentum: float, epsilon: float, l2: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.filters, self.momentum, self.epsilon, self.l2 = filters, momentum, epsilon, l2
        self.norms = [PackedBatchNorm(momentum, epsilon, l2, name=f"norm_{i}") for i in range(3)]
        self.shortcut_norm = PackedBatchNorm(momentum, epsilon, l2, name="shortcut_norm")

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        self.kernels = [
            self._add_kernel(f"kernel_{i}", 3, width if i == 0 else self.filters) for i in range(3)
        ]
        self.shortcut_kernel = self._add_kernel("shortcut_kernel", 1, width)
        for norm in [*self.norms, self.shortcut_norm]:
            norm.build((None, self.filters))

    def _add_kernel(self, name: str, size: int, width: int) -> keras.Variable:
        # Normal with variance 0.2 / (filters * size): "fan_out" is that product.
        initializer = keras.initializers.VarianceScaling(0.2, "fan_out", "untruncated_normal")
        return self.add_weight(
            name=name,
            shape=(size, width, self.filters),
            initializer=initializer,
            regularizer=half_l2(self.l2),
        )

    def _finish(
        self, x: tf.Tensor, shortcut: tf.Tensor, mask: tf.Tensor, pooling: Pooling, training: bool
    ) -> tf.Tensor:
        """The rest of the block, after the first convolution and the shortcut."""
        shortcut = self.shortcut_norm(shortcut, mask, training=training)
        for i, norm in enumerate(self.norms):
            if i > 0:
                x = convolve(x, tf.convert_to_tensor(self.kernels[i]), training)
            x = norm(x, mask, training=training)
            if i == len(self.norms) - 1:
                x += shortcut
            # Empty slots must be zero again before the next convolution reads them.
            x = masked_relu(x, mask, training)
        return max_pool(x, pooling, training)

    def get_config(self) -> dict[str, Any]:
        own = {"filters": self.filters, "momentum": self.momentum}
        return {**super().get_config(), **own, "epsilon": self.epsilon, "l2": self.l2}


@keras.saving.register_keras_serializable(package="clarel_tf")
class PackedResidualBlock(ResidualBlock):
    """A block on the output of another block."""

    def call(
        self, x: tf.Tensor, mask: tf.Tensor, pooling: Pooling, training: bool = False
    ) -> tf.Tensor:
        """float32 [S, C], zero where mask [S, 1] is 0 -> float32 [R, filters], likewise."""
        first = convolve(x, tf.convert_to_tensor(self.kernels[0]), training)
        shortcut = tf.matmul(x, tf.squeeze(self.shortcut_kernel, axis=0))
        return self._finish(first, shortcut, mask, pooling, training)


@keras.saving.register_keras_serializable(package="clarel_tf")
class WordResidualBlock(ResidualBlock):
    """The first block. Its input is words, and a batch repeats few words many times.

    So its first matrix products run once for each different word, then spread to the slots.
    """

    def call(
        self,
        vectors: tf.Tensor,
        rows: tf.Tensor,
        mask: tf.Tensor,
        pooling: Pooling,
        training: bool = False,
    ) -> tf.Tensor:
        """Words of S slots -> float32 [R, filters].

        Args:
          vectors: float32 [U, C], the different words; an empty slot is a vector of zeros.
          rows: int32 [S], the word of each slot.
          mask: float32 [S, 1].
        """
        kernels = [*tf.unstack(self.kernels[0]), *tf.unstack(self.shortcut_kernel)]
        before, here, behind, shortcut = (tf.matmul(vectors, kernel) for kernel in kernels)
        # A convolution sums contributions of the slot before, the slot itself and the slot after.
        # Wrapping around (`roll`) is harmless, because the last slot is empty.
        x = tf.add_n(
            [
                tf.gather(before, tf.roll(rows, 1, axis=0)),
                tf.gather(here, rows),
                tf.gather(behind, tf.roll(rows, -1, axis=0)),
            ]
        )
        return self._finish(x, tf.gather(shortcut, rows), mask, pooling, training)


class HalfL2(keras.regularizers.Regularizer):
    """l2 * sum(w^2) / 2, the form of the authors' code."""

    def __init__(self, l2: float):
        self.l2 = l2

    def __call__(self, x: Any) -> tf.Tensor:
        # One operation, and one for its gradient; that of Keras takes a dozen.
        return self.l2 * tf.nn.l2_loss(tf.convert_to_tensor(x))

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


def half_l2(l2: float) -> HalfL2 | None:
    """The penalty of a weight, or None where it has none."""
    return HalfL2(l2) if l2 else None
