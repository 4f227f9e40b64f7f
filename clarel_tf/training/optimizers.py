"""Optimisers and learning-rate schedules.

The update of a variable, with clipping, is one TensorFlow operation. Keras needs a dozen passes
over the memory of each variable for the same arithmetic.
"""

from typing import Any

import keras
import tensorflow as tf

from clarel_tf.config_sections import TrainingConfig


@keras.saving.register_keras_serializable(package="clarel_tf")
class FusedSGD(keras.optimizers.SGD):
    """SGD with momentum; each variable's gradient is clipped to `max_norm` separately."""

    def __init__(
        self, learning_rate: Any, momentum: float = 0.0, max_norm: float = 0.0, **kwargs: Any
    ):
        """`max_norm` 0 means no clipping."""
        super().__init__(learning_rate, momentum=momentum, **kwargs)
        self.max_norm = max_norm

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor) -> None:
        """momentum <- momentum * m - rate * gradient; variable <- variable + momentum."""
        gradient = tf.convert_to_tensor(gradient)
        rate = tf.cast(learning_rate, gradient.dtype)
        if self.max_norm:
            # The update is linear in the gradient, so scaling the rate saves a pass over it.
            rate *= _clip_factor(gradient, self.max_norm)
        var = variable.handle
        if not self.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(var=var, alpha=rate, delta=gradient)
            return
        momentum = self.momentums[self._get_variable_index(variable)]
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=var,
            accum=momentum.value.handle,
            lr=rate,
            grad=gradient,
            momentum=tf.cast(self.momentum, gradient.dtype),
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_norm": self.max_norm}


@keras.saving.register_keras_serializable(package="clarel_tf")
class FusedAdam(keras.optimizers.Adam):
    """Adam; each variable's gradient is clipped to `max_norm` separately."""

    def __init__(self, learning_rate: Any, max_norm: float = 0.0, **kwargs: Any):
        """`max_norm` 0 means no clipping."""
        super().__init__(learning_rate, **kwargs)
        self.max_norm = max_norm
        self._of_step: dict[str, tf.Tensor] = {}

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        self._of_step = {}
        super().apply(grads, trainable_variables)
        self._of_step = {}

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor) -> None:
        gradient = tf.convert_to_tensor(gradient)
        if not self._of_step:
            self._of_step = self._scalars(learning_rate)
        if self.max_norm:
            gradient *= _clip_factor(gradient, self.max_norm)
        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            grad=gradient,
            **self._of_step,
        )

    def _scalars(self, learning_rate: tf.Tensor) -> dict[str, tf.Tensor]:
        """What the update of every variable takes; made once for all variables of a step."""
        beta1, beta2 = tf.constant(self.beta_1), tf.constant(self.beta_2)
        step = tf.cast(self.iterations + 1, tf.float32)
        return {
            "beta1_power": tf.pow(beta1, step),
            "beta2_power": tf.pow(beta2, step),
            "lr": tf.cast(learning_rate, tf.float32),
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": tf.constant(self.epsilon),
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_norm": self.max_norm}


def _clip_factor(gradient: tf.Tensor, max_norm: float) -> tf.Tensor:
    """The factor that reduces the norm of a gradient to at most `max_norm`; a scalar."""
    norm = tf.sqrt(2.0 * tf.nn.l2_loss(gradient))
    return max_norm / tf.maximum(norm, max_norm)


def make_schedule(
    settings: TrainingConfig,
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate as a function of the step."""
    peak = settings.learning_rate
    if settings.schedule == "staircase":
        return keras.optimizers.schedules.ExponentialDecay(
            peak, settings.decay_every, settings.decay_factor, staircase=True
        )
    if settings.schedule == "cosine":
        warmup = settings.warmup_steps
        return keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup else peak,
            decay_steps=settings.steps - warmup,
            warmup_target=peak if warmup else None,
            warmup_steps=warmup,
        )
    return peak


def make_optimizer(settings: TrainingConfig) -> keras.optimizers.Optimizer:
    """SGD with momentum or Adam, with the gradient of each variable clipped separately."""
    schedule = make_schedule(settings)
    if settings.optimizer == "sgd":
        return FusedSGD(schedule, momentum=settings.momentum, max_norm=settings.clip_norm)
    return FusedAdam(schedule, max_norm=settings.clip_norm)


def schedule_value(
    schedule: float | keras.optimizers.schedules.LearningRateSchedule, step: int
) -> float:
    """The learning rate of step number `step` (from 0)."""
    return float(schedule(step)) if callable(schedule) else schedule
