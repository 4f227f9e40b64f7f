"""Layers that read the packed layout: masked batch norm and the residual block."""

from collections.abc import Callable

import keras
import tensorflow as tf

from clarel_tf.packed_operations import convolve, masked_relu, max_pool, normalize_by_moments
from clarel_tf.packing import Pooling

# A convolution or another product of a layer's input with the kernel it is given.
Product = Callable[[tf.Tensor], tf.Tensor]


@keras.saving.register_keras_serializable(package="clarel_tf")
class PackedBatchNorm(keras.layers.Layer):
    """Batch normalisation whose statistics count the occupied slots only.

    So the result does not depend on how much padding a batch happens to have.
    """

    def __init__(self, momentum: float, epsilon: float, l2: float, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.epsilon, self.l2 = momentum, epsilon, l2

    def build(self, input_shape):
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
        if not training:
            scale, shift = self.scale_and_shift()
            return x * scale + shift
        share = mask / tf.maximum(tf.reduce_sum(mask), 1.0)
        x, mean, variance = normalize_by_moments(x, self.gamma, self.beta, share, self.epsilon)
        keep = self.momentum
        self.moving_mean.assign(keep * self.moving_mean + (1 - keep) * mean)
        self.moving_variance.assign(keep * self.moving_variance + (1 - keep) * variance)
        return x

    def scale_and_shift(self) -> tuple[tf.Tensor, tf.Tensor]:
        """What it amounts to outside of training, float32 [C] each: x * scale + shift."""
        scale = tf.math.rsqrt(self.moving_variance + self.epsilon) * self.gamma
        return scale, self.beta - self.moving_mean * scale

    def get_config(self):
        own = {"momentum": self.momentum, "epsilon": self.epsilon, "l2": self.l2}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="clarel_tf")
class PackedResidualBlock(keras.layers.Layer):
    """Three convolutions of width 3 beside a 1x1 shortcut, with batch norms; then max-pool 2."""

    def __init__(self, filters: int, momentum: float, epsilon: float, l2: float, **kwargs):
        super().__init__(**kwargs)
        self.filters, self.momentum, self.epsilon, self.l2 = filters, momentum, epsilon, l2
        self.norms = [PackedBatchNorm(momentum, epsilon, l2, name=f"norm_{i}") for i in range(3)]
        self.shortcut_norm = PackedBatchNorm(momentum, epsilon, l2, name="shortcut_norm")

    def build(self, input_shape):
        width = input_shape[-1]
        self.kernels = [
            self._add_kernel(f"kernel_{i}", 3, width if i == 0 else self.filters) for i in range(3)
        ]
        self.shortcut_kernel = self._add_kernel("shortcut_kernel", 1, width)
        for norm in [*self.norms, self.shortcut_norm]:
            norm.build((None, self.filters))

    def _add_kernel(self, name: str, size: int, width: int):
        # Normal with variance 0.2 / (filters * size): "fan_out" is that product.
        initializer = keras.initializers.VarianceScaling(0.2, "fan_out", "untruncated_normal")
        return self.add_weight(
            name=name,
            shape=(size, width, self.filters),
            initializer=initializer,
            regularizer=half_l2(self.l2),
        )

    def call(
        self, x: tf.Tensor, mask: tf.Tensor, pooling: Pooling, training: bool = False
    ) -> tf.Tensor:
        """float32 [S, C], zero where mask [S, 1] is 0 -> float32 [R, filters], likewise."""
        first = self._normalized(0, lambda kernel: convolve(x, kernel, training), mask, training)
        shortcut = self._normalized_shortcut(lambda kernel: tf.matmul(x, kernel), mask, training)
        return self._finish(first, shortcut, mask, pooling, training)

    def _normalized(self, layer: int, product: Product, mask: tf.Tensor, training: bool):
        """The product with the kernel of a layer, then its batch norm: float32 [S, filters]."""
        kernel = tf.convert_to_tensor(self.kernels[layer])
        return _normalized(self.norms[layer], kernel, product, mask, training)

    def _normalized_shortcut(self, product: Product, mask: tf.Tensor, training: bool):
        # `squeeze`, not an index: the gradient of that writes a whole tensor of zeros first.
        kernel = tf.squeeze(self.shortcut_kernel, axis=0)
        return _normalized(self.shortcut_norm, kernel, product, mask, training)

    def _finish(
        self, x: tf.Tensor, shortcut: tf.Tensor, mask: tf.Tensor, pooling: Pooling, training: bool
    ) -> tf.Tensor:
        """The rest of the block, from what the first layer and the shortcut gave."""
        for layer in range(1, len(self.kernels)):
            # Empty slots must be zero again before the next convolution looks at them.
            x = masked_relu(x, mask)
            x = self._normalized(
                layer, lambda kernel, x=x: convolve(x, kernel, training), mask, training
            )
        return max_pool(masked_relu(x + shortcut, mask), pooling)

    def get_config(self):
        own = {"filters": self.filters, "momentum": self.momentum}
        return {**super().get_config(), **own, "epsilon": self.epsilon, "l2": self.l2}


@keras.saving.register_keras_serializable(package="clarel_tf")
class WordResidualBlock(PackedResidualBlock):
    """The first block: its input are words, and a batch repeats few words many times.

    So its first products are taken once for each different word, then laid out by slot.
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
        first = self._normalized(
            0, lambda kernel: _convolve_words(vectors, rows, kernel), mask, training
        )
        shortcut = self._normalized_shortcut(
            lambda kernel: tf.gather(tf.matmul(vectors, kernel), rows), mask, training
        )
        return self._finish(first, shortcut, mask, pooling, training)


def _convolve_words(vectors: tf.Tensor, rows: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """The convolution of words [U, C] laid out by rows [S] with a kernel [3, C, F]: [S, F]."""
    before, here, behind = (tf.matmul(vectors, tap) for tap in tf.unstack(kernel))
    # It adds what the slot before, the slot itself and the slot behind give. The last slot of all
    # is empty, so it does no harm that it counts as the one before the first.
    return tf.add_n(
        [
            tf.gather(before, tf.roll(rows, 1, axis=0)),
            tf.gather(here, rows),
            tf.gather(behind, tf.roll(rows, -1, axis=0)),
        ]
    )


def _normalized(
    norm: PackedBatchNorm, kernel: tf.Tensor, product: Product, mask: tf.Tensor, training: bool
) -> tf.Tensor:
    if training:
        return norm(product(kernel), mask, training=True)
    # Outside of training the scale goes into the kernel, which is smaller than the batch.
    scale, shift = norm.scale_and_shift()
    return tf.nn.bias_add(product(kernel * scale), shift)


def half_l2(l2: float) -> keras.regularizers.Regularizer | None:
    """l2 * sum(w^2) / 2, the form of the authors' code."""
    return keras.regularizers.L2(l2 / 2) if l2 else None
