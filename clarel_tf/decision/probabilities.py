"""Probabilities: the softmax of -d_alpha / temperature over the classes on offer.

The temperature depends on the answer: one for images whose nearest class is a seen one, one for all
others. A model is usually too sure of one kind and not sure enough of the other. The temperature is
the same for all classes of an image, so its probabilities sum to 1 and are in the order of the
distances.

Sums are relative to the smallest distance, because for huge distances the logarithm of the plain
sum has no precision left to count equally near classes. They can be made block by block.
"""

from typing import Any

import tensorflow as tf

Temperatures = tuple[float, float]  # nearest class is seen; it is not


def exponential_sums(distances: Any, smallest: Any, temperatures: Temperatures) -> tf.Tensor:
    """sum of exp((smallest - distance) / temperature), [B, 2], for both temperatures.

    Args:
      distances: d_alpha, float [B, N].
      smallest: float [B, 1], of these and possibly of further classes.
    """
    below = smallest - distances
    one, *other = (
        tf.reduce_sum(tf.exp(below / temperature), axis=1, keepdims=True)
        for temperature in dict.fromkeys(temperatures)
    )
    return tf.concat([one, *(other or [one])], axis=1)


def moved_sums(sums: Any, before: Any, smallest: Any, temperatures: Temperatures) -> tf.Tensor:
    """Sums relative to `before`, [B, 1], made relative to `smallest`, [B, 1]."""
    return sums * tf.exp((smallest - before) / tf.constant([temperatures], before.dtype))


def probabilities(
    distances: Any, smallest: Any, sums: Any, nearest_is_seen: Any, temperatures: Temperatures
) -> tf.Tensor:
    """Probabilities of n of the classes on offer, [B, n].

    Args:
      distances: d_alpha of these classes, float [B, n].
      smallest: [B, 1], d_alpha of the nearest class.
      sums: [B, 2], over all classes on offer, as `exponential_sums` gives them.
      nearest_is_seen: bool [B, 1].
    """
    seen, other = (tf.cast(temperature, distances.dtype) for temperature in temperatures)
    temperature = tf.where(nearest_is_seen, seen, other)
    total = tf.where(nearest_is_seen, sums[:, :1], sums[:, 1:])
    return tf.exp((smallest - distances) / temperature) / total
