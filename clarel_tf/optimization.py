"""Optimisers and learning-rate schedules by their settings."""

import keras

from clarel_tf.config import TrainingConfig
from clarel_tf.fused_optimizers import FusedAdam, FusedSGD


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
    """SGD with momentum or Adam, each variable's gradient clipped by itself."""
    schedule = make_schedule(settings)
    if settings.optimizer == "sgd":
        return FusedSGD(schedule, momentum=settings.momentum, max_norm=settings.clip_norm)
    return FusedAdam(schedule, max_norm=settings.clip_norm)


def schedule_value(
    schedule: float | keras.optimizers.schedules.LearningRateSchedule, step: int
) -> float:
    """The learning rate that step number `step` (from 0) is taken with."""
    return float(schedule(step)) if callable(schedule) else schedule
