"""A bidirectional LSTM over packed captions, with a custom gradient for training."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from clarel_tf.models.packed.operations import Gradients, WithGradient, turn_round
from clarel_tf.models.packed.packing import RecurrentSteps


@keras.saving.register_keras_serializable(package="clarel_tf")
class PackedBiLSTM(keras.layers.Layer):
    """Bidirectional LSTM over packed sequences, with its outputs pooled over time.

    In the mean, a detail that a long caption mentions once has little weight. The maximum over time
    keeps it; "mean_max" pooling adds it to the mean.

    Weights are those of two Keras LSTMs, stacked: index 0 reads forward, 1 backward.
    """

    def __init__(self, units: int, pooling: str = "mean", **kwargs: Any):
        """`pooling`: "mean", or "mean_max" for mean and maximum concatenated."""
        super().__init__(**kwargs)
        self.units, self.pooling = units, pooling

    @property
    def output_width(self) -> int:
        """W: 2 * units for each kind of pooling."""
        return 2 * self.units * (2 if self.pooling == "mean_max" else 1)

    def build(self, input_shape: Any) -> None:
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

    def _add_pair(self, name: str, shape: tuple[int, int], initializer: str) -> keras.Variable:
        one_direction = keras.initializers.get(initializer)

        def both_directions(shape: tuple[int, ...], dtype: Any) -> tf.Tensor:
            # Two seeds from the global generator, so that the directions start differently.
            pair = [one_direction.clone()(shape[1:], dtype) for _ in range(2)]
            return tf.stack(pair)

        return self.add_weight(name=name, shape=(2, *shape), initializer=both_directions)

    def call(self, x: tf.Tensor, steps: RecurrentSteps, training: bool = False) -> tf.Tensor:
        """float32 [M, C] -> float32 [N, W], in the original order of the N captions."""
        run: Callable[..., tf.Tensor] = _outputs_with_gradient if training else _outputs
        # `unstack`, because the gradient of an index writes a tensor of zeros for the other.
        weights = [tf.unstack(w) for w in (self.kernel, self.recurrent_kernel, self.bias)]
        directions = (x, turn_round(x, steps.reverse, training))
        outputs = [
            run(inputs, *of_direction, steps.sizes)
            for inputs, *of_direction in zip(directions, *weights, strict=True)
        ]
        captions = tf.size(steps.lengths)
        counts = tf.maximum(tf.cast(steps.lengths, tf.float32), 1.0)[:, tf.newaxis]
        pooled = [
            tf.math.unsorted_segment_sum(output, steps.rank, captions) / counts
            for output in outputs
        ]
        if self.pooling == "mean_max":
            # Outputs are at least -1; only the maximum over no step is lower (the lowest number).
            pooled += [
                tf.maximum(tf.math.unsorted_segment_max(output, steps.rank, captions), -1.0)
                for output in outputs
            ]
        return tf.gather(tf.concat(pooled, axis=1), steps.unsort)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "pooling": self.pooling}


def _outputs(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor, sizes: tf.Tensor
) -> tf.Tensor:
    """The hidden states of an LSTM that starts from zeros.

    Args:
      inputs: float32 [M, C], step after step.
      kernel, recurrent, bias: float32 [C, 4U], [U, 4U], [1, 4U], of one direction.
      sizes: int32 [steps], rows of each step; they never grow and sum to M.

    Returns:
      float32 [M, U].
    """
    states = _run(inputs, kernel, recurrent, bias, sizes)
    return tf.concat([state["hidden"] for state in states], axis=0)


def _run(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor, sizes: tf.Tensor
) -> list[dict[str, tf.Tensor]]:
    """The tensors of every step, [rows of the step, U] each.

    Captions are sorted by length: those still running are the first rows of the step before.
    """
    # One product for all tokens; each step then needs only the recurrent product.
    gates = tf.split(tf.matmul(inputs, kernel) + bias, sizes, num=sizes.shape[0])
    states: list[dict[str, tf.Tensor]] = []
    for step, gate in enumerate(gates):
        state: dict[str, tf.Tensor] = {}
        if step:
            state["hidden_before"] = states[-1]["hidden"][: sizes[step]]
            state["cell_before"] = states[-1]["cell"][: sizes[step]]
            gate += tf.matmul(state["hidden_before"], recurrent)
        in_, forget, candidate, out = tf.split(gate, 4, axis=1)
        state["in"], state["candidate"] = tf.sigmoid(in_), tf.tanh(candidate)
        state["cell"] = state["in"] * state["candidate"]
        if step:
            state["forget"] = tf.sigmoid(forget)
            state["cell"] += state["forget"] * state["cell_before"]
        state["out"], state["tanh"] = tf.sigmoid(out), tf.tanh(state["cell"])
        state["hidden"] = state["out"] * state["tanh"]
        states.append(state)
    return states


def _add_to_first_rows(whole: tf.Tensor, part: tf.Tensor, part_rows: tf.Tensor) -> tf.Tensor:
    """`whole`, [rows, U], with `part`, [part_rows, U], added to its first rows."""
    return tf.concat([whole[:part_rows] + part, whole[part_rows:]], axis=0)


@tf.custom_gradient
def _outputs_with_gradient(
    inputs: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor, bias: tf.Tensor, sizes: tf.Tensor
) -> WithGradient:
    """`_outputs` with weight gradients by one product over all steps instead of one per step."""
    states = _run(inputs, kernel, recurrent, bias, sizes)

    def gradient(of_outputs: tf.Tensor) -> Gradients:
        of_outputs = tf.split(of_outputs, sizes, num=sizes.shape[0])
        of_gates: list[tf.Tensor] = []
        of_hidden = of_cell = None
        for step in reversed(range(len(states))):
            state = states[step]
            if of_hidden is None:
                of_hidden = of_outputs[step]
                of_cell = _tanh_gradient(state["tanh"], of_hidden * state["out"])
            else:
                still = sizes[step + 1]
                of_hidden = _add_to_first_rows(of_outputs[step], of_hidden, still)
                through_tanh = _tanh_gradient(state["tanh"], of_hidden * state["out"])
                of_cell = _add_to_first_rows(through_tanh, of_cell, still)
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
        # The first step has no previous state: its rows are left out of the product.
        before = [tf.zeros([0, recurrent.shape[0]])] + [s["hidden_before"] for s in states[1:]]
        return (
            _times_transposed(of_gates, kernel),
            tf.matmul(inputs, of_gates, transpose_a=True),
            tf.matmul(tf.concat(before, axis=0), of_gates[sizes[0] :], transpose_a=True),
            tf.reduce_sum(of_gates, axis=0, keepdims=True),
            None,
        )

    return tf.concat([state["hidden"] for state in states], axis=0), gradient


def _times_transposed(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """a @ b^T, as a batch of one: TensorFlow's kernel for batches is a third faster here."""
    product = tf.matmul(a[tf.newaxis], b[tf.newaxis], transpose_b=True)
    return tf.squeeze(product, axis=0)


def _sigmoid_gradient(value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.SigmoidGrad(y=value, dy=gradient)


def _tanh_gradient(value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TanhGrad(y=value, dy=gradient)
