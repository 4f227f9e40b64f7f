"""Layers that read the packed layout: masked batch norm, residual block, bidirectional LSTM."""

import keras
import tensorflow as tf

from clarel_tf.packing import RecurrentSteps


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
        if training:
            share = mask / tf.maximum(tf.reduce_sum(mask), 1.0)
            mean = tf.reduce_sum(x * share, axis=0)
            variance = tf.reduce_sum(tf.square(x - mean) * share, axis=0)
            keep = self.momentum
            self.moving_mean.assign(keep * self.moving_mean + (1 - keep) * mean)
            self.moving_variance.assign(keep * self.moving_variance + (1 - keep) * variance)
        else:
            mean = tf.convert_to_tensor(self.moving_mean)
            variance = tf.convert_to_tensor(self.moving_variance)
        scale = tf.math.rsqrt(variance + self.epsilon) * self.gamma
        return x * scale + (self.beta - mean * scale)

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

    def call(self, x: tf.Tensor, mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """float32 [S, C], zero where mask [S, 1] is 0 -> float32 [S/2, filters], likewise."""
        shortcut = tf.matmul(x, self.shortcut_kernel[0])
        shortcut = self.shortcut_norm(shortcut, mask, training=training)
        for i, (kernel, norm) in enumerate(zip(self.kernels, self.norms, strict=True)):
            x = tf.nn.conv1d(x[tf.newaxis], kernel, stride=1, padding="SAME")[0]
            x = norm(x, mask, training=training)
            if i == len(self.kernels) - 1:
                x += shortcut
            # Empty slots must be zero again before the next convolution looks at them.
            x = tf.nn.relu(x) * mask
        return tf.reduce_max(tf.reshape(x, [-1, 2, self.filters]), axis=1)

    def get_config(self):
        own = {"filters": self.filters, "momentum": self.momentum}
        return {**super().get_config(), **own, "epsilon": self.epsilon, "l2": self.l2}


@keras.saving.register_keras_serializable(package="clarel_tf")
class PackedBiLSTM(keras.layers.Layer):
    """Bidirectional LSTM over packed sequences, then the mean of its outputs over time.

    Weights are those of two Keras LSTMs, stacked: index 0 reads forward, 1 backward.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        width, units = input_shape[-1], self.units
        self.kernel = self._add_pair("kernel", (width, 4 * units), "glorot_uniform")
        self.recurrent_kernel = self._add_pair("recurrent_kernel", (units, 4 * units), "orthogonal")
        # Gates are in the order input, forget, cell, output; the forget bias starts at 1.
        self.bias = self.add_weight(
            name="bias",
            shape=(2, 1, 4 * units),
            initializer=lambda shape, dtype: tf.concat(
                [tf.zeros([2, 1, units]), tf.ones([2, 1, units]), tf.zeros([2, 1, 2 * units])],
                axis=2,
            ),
        )

    def _add_pair(self, name: str, shape: tuple[int, int], initializer: str):
        one_direction = keras.initializers.get(initializer)

        def both_directions(shape, dtype):
            # Two seeds drawn from the global generator: the directions must not start alike.
            pair = [one_direction.clone()(shape[1:], dtype) for _ in range(2)]
            return tf.stack(pair)

        return self.add_weight(name=name, shape=(2, *shape), initializer=both_directions)

    def call(self, x: tf.Tensor, steps: RecurrentSteps) -> tf.Tensor:
        """float32 [S/4, C] -> float32 [N, 2 * units], in the original order of the N captions."""
        number_of_steps = steps.sizes.shape[0]
        inputs = tf.stack([tf.gather(x, steps.forward), tf.gather(x, steps.backward)])
        # One product for all tokens; what is left for each step is the recurrent one.
        gates = tf.matmul(inputs, self.kernel) + self.bias
        # The gradient of a split is a concat; that of slices, a sum of padded tensors.
        gates = tf.split(gates, steps.sizes, axis=1, num=number_of_steps)
        outputs, hidden, cell = [], None, None
        for step, gate in enumerate(gates):
            if hidden is not None:
                still = [steps.sizes[step], steps.sizes[step - 1] - steps.sizes[step]]
                hidden, _ = tf.split(hidden, still, axis=1)
                cell, _ = tf.split(cell, still, axis=1)
                gate += tf.matmul(hidden, self.recurrent_kernel)
            hidden, cell = _lstm_cell(gate, cell)
            outputs.append(hidden)
        outputs = tf.concat(tf.unstack(tf.concat(outputs, axis=1)), axis=1)  # [M, 2 * units]
        sums = tf.math.unsorted_segment_sum(outputs, steps.rank, tf.size(steps.lengths))
        means = sums / tf.maximum(tf.cast(steps.lengths, tf.float32), 1.0)[:, tf.newaxis]
        return tf.gather(means, steps.unsort)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def _lstm_cell(gate: tf.Tensor, cell: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """One step: gates [2, n, 4 * units] and the cell state before it -> (hidden, cell)."""
    input_gate, forget_gate, candidate, output_gate = tf.split(gate, 4, axis=2)
    update = tf.sigmoid(input_gate) * tf.tanh(candidate)
    cell = update if cell is None else tf.sigmoid(forget_gate) * cell + update
    return tf.sigmoid(output_gate) * tf.tanh(cell), cell


def half_l2(l2: float) -> keras.regularizers.Regularizer | None:
    """l2 * sum(w^2) / 2, the form of the authors' code."""
    return keras.regularizers.L2(l2 / 2) if l2 else None
