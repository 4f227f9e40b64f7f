"""A bidirectional LSTM over packed captions, with a gradient of its own for training."""

import keras
import tensorflow as tf

from clarel_tf.packed_operations import turn_round
from clarel_tf.packing import RecurrentSteps


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

    def call(self, x: tf.Tensor, steps: RecurrentSteps, training: bool = False) -> tf.Tensor:
        """float32 [M, C] -> float32 [N, 2 * units], in the original order of the N captions."""
        summed = _summed_with_gradient if training else _summed_outputs
        # `unstack`, not an index: the gradient of that writes a tensor of zeros for the other.
        weights = [tf.unstack(w) for w in (self.kernel, self.recurrent_kernel, self.bias)]
        directions = (x, turn_round(x, steps.reverse))
        sums = [
            summed(inputs, *of_direction, steps.sizes)
            for inputs, *of_direction in zip(directions, *weights, strict=True)
        ]
        # Rows without a caption have no step at all; they come last in the sorted order.
        without = tf.size(steps.lengths) - steps.sizes[0]
        sums = tf.pad(tf.concat(sums, axis=1), [[0, without], [0, 0]])
        means = sums / tf.maximum(tf.cast(steps.lengths, tf.float32), 1.0)[:, tf.newaxis]
        return tf.gather(means, steps.unsort)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def _summed_outputs(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor, sizes: tf.Tensor
) -> tf.Tensor:
    """The sum over time of the hidden states of each caption.

    Args:
      inputs: float32 [M, C], step after step.
      kernel, recurrent, bias: float32 [C, 4U], [U, 4U], [1, 4U], of one direction.
      sizes: int32 [steps], rows of each step; they never grow and sum to M.

    Returns:
      float32 [sizes[0], U].
    """
    return _sum_over_steps(_run(inputs, kernel, recurrent, bias, sizes), sizes)


def _run(inputs, kernel, recurrent, bias, sizes) -> list[dict[str, tf.Tensor]]:
    """The tensors of every step, [rows of the step, U] each."""
    # One product for all tokens; what is left for each step is the recurrent one.
    gates = tf.matmul(inputs, kernel) + bias
    # The gradient of a split is a concat; that of slices, a sum of padded tensors.
    gates = tf.split(gates, sizes, axis=0, num=sizes.shape[0])
    states: list[dict[str, tf.Tensor]] = []
    for step, gate in enumerate(gates):
        state: dict[str, tf.Tensor] = {}
        if step:
            still = [sizes[step], sizes[step - 1] - sizes[step]]
            state["hidden_before"], _ = tf.split(states[-1]["hidden"], still, axis=0)
            state["cell_before"], _ = tf.split(states[-1]["cell"], still, axis=0)
            gate += tf.matmul(state["hidden_before"], recurrent)
        in_, forget, candidate, out = tf.split(gate, 4, axis=1)
        state["in"], state["candidate"] = tf.sigmoid(in_), tf.tanh(candidate)
        state["cell"] = state["in"] * state["candidate"]
        state["forget"] = tf.sigmoid(forget)
        if step:
            state["cell"] += state["forget"] * state["cell_before"]
        state["out"], state["tanh"] = tf.sigmoid(out), tf.tanh(state["cell"])
        state["hidden"] = state["out"] * state["tanh"]
        states.append(state)
    return states


def _sum_over_steps(states: list[dict[str, tf.Tensor]], sizes: tf.Tensor) -> tf.Tensor:
    """Captions are sorted by length, so those still running are always the first rows."""
    sums = states[-1]["hidden"]
    for step in reversed(range(len(states) - 1)):
        sums = _add_to_first_rows(states[step]["hidden"], sums, sizes[step], sizes[step + 1])
    return sums


def _add_to_first_rows(whole, part, rows, part_rows) -> tf.Tensor:
    """`whole`, [rows, U], with `part`, [part_rows, U], added to its first rows."""
    first, rest = tf.split(whole, [part_rows, rows - part_rows], axis=0)
    return tf.concat([first + part, rest], axis=0)


@tf.custom_gradient
def _summed_with_gradient(inputs, kernel, recurrent, bias, sizes):
    """`_summed_outputs` whose weight gradients are one product over all steps, not one a step."""
    states = _run(inputs, kernel, recurrent, bias, sizes)

    def gradient(of_sums: tf.Tensor):
        of_gates: list[tf.Tensor] = []
        of_hidden = of_cell = None
        for step in reversed(range(len(states))):
            state = states[step]
            from_sums = of_sums[: sizes[step]]
            if of_hidden is None:
                of_hidden = from_sums
            else:
                both = (sizes[step], sizes[step + 1])
                of_hidden = _add_to_first_rows(from_sums, of_hidden, *both)
            through_tanh = _tanh_gradient(state["tanh"], of_hidden * state["out"])
            if of_cell is None:
                of_cell = through_tanh
            else:
                of_cell = _add_to_first_rows(through_tanh, of_cell, *both)
            of_forget = (
                _sigmoid_gradient(state["forget"], of_cell * state["cell_before"])
                if step
                else tf.zeros_like(of_cell)
            )
            of_gate = tf.concat(
                [
                    _sigmoid_gradient(state["in"], of_cell * state["candidate"]),
                    of_forget,
                    _tanh_gradient(state["candidate"], of_cell * state["in"]),
                    _sigmoid_gradient(state["out"], of_hidden * state["tanh"]),
                ],
                axis=1,
            )
            of_gates.append(of_gate)
            if step:
                of_hidden = _times_transposed(of_gate, recurrent)
                of_cell = of_cell * state["forget"]
        of_gates = tf.concat(of_gates[::-1], axis=0)
        hidden_before = tf.concat([state["hidden_before"] for state in states[1:]], axis=0)
        return (
            _times_transposed(of_gates, kernel),
            tf.matmul(inputs, of_gates, transpose_a=True),
            tf.matmul(hidden_before, of_gates[sizes[0] :], transpose_a=True),
            tf.reduce_sum(of_gates, axis=0, keepdims=True),
            None,
        )

    return _sum_over_steps(states, sizes), gradient


def _times_transposed(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """a @ b^T, as a batch of one: TensorFlow's kernel for batches is a third faster here."""
    product = tf.matmul(a[tf.newaxis], b[tf.newaxis], transpose_b=True)
    return tf.squeeze(product, axis=0)


def _sigmoid_gradient(value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.SigmoidGrad(y=value, dy=gradient)


def _tanh_gradient(value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TanhGrad(y=value, dy=gradient)
