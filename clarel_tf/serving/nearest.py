"""The nearest of very many classes, found block by block: no table of all distances is made."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class Nearest(NamedTuple):
    """What is known of B queries after some candidates.

    Attributes:
      distances: float32 [B, n], the n smallest so far, nearest first.
      rows: int32 [B, n], the candidates that they belong to.
      total: float32 [B, 1], the sum of exp((smallest - distance) / temperature) over all so far.
        Beside the smallest one, because the logarithm of a sum has no digits left for the number
        of equally near candidates once distances are huge.
    """

    distances: tf.Tensor
    rows: tf.Tensor
    total: tf.Tensor


def no_candidates(queries: tf.Tensor) -> Nearest:
    """The state before any candidate; `queries`: [B, E]."""
    count = tf.shape(queries)[0]
    return Nearest(tf.zeros([count, 0]), tf.zeros([count, 0], tf.int32), tf.zeros([count, 1]))


def add_candidates(
    found: Nearest, distances: tf.Tensor, first_row: tf.Tensor | int, k: int, temperature: float
) -> Nearest:
    """Takes N more candidates into account.

    Args:
      distances: float32 [B, N].
      first_row: the number of the first of them; the others follow.
      k: how many are kept. Of equal distances the lower row comes first.
    """
    # Infinity where there is none, which is farther than anything.
    before, of_block = (
        tf.reduce_min(known, axis=1, keepdims=True) for known in (found.distances, distances)
    )
    smallest = tf.minimum(before, of_block)
    total = found.total * tf.exp((smallest - before) / temperature)
    total += tf.reduce_sum(tf.exp((smallest - distances) / temperature), axis=1, keepdims=True)
    block = tf.math.top_k(-distances, tf.minimum(k, tf.shape(distances)[1]))
    values = tf.concat([-found.distances, block.values], axis=1)
    rows = tf.concat([found.rows, first_row + block.indices], axis=1)
    best = tf.math.top_k(values, tf.minimum(k, tf.shape(values)[1]))
    return Nearest(-best.values, tf.gather(rows, best.indices, batch_dims=1), total)


def nearest_in_blocks(
    queries: tf.Tensor,
    candidates: int,
    block: int,
    distances_to: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    k: int,
    temperature: float,
) -> Nearest:
    """The nearest of `candidates`, looking at `block` of them at a time.

    Args:
      queries: float32 [B, E].
      distances_to: (first, end) -> float32 [B, end - first], the distances to those candidates.
    """
    found = no_candidates(queries)
    if candidates <= block:
        return add_candidates(found, distances_to(0, candidates), 0, k, temperature)

    def look_at_block(first: tf.Tensor, *found: tf.Tensor) -> tuple[tf.Tensor, ...]:
        end = tf.minimum(first + block, candidates)
        distances = distances_to(first, end)
        return end, *add_candidates(Nearest(*found), distances, first, k, temperature)

    unknown = tf.TensorShape([None, None])
    _, *found = tf.while_loop(
        lambda first, *_: first < candidates,
        look_at_block,
        (tf.constant(0), *found),
        shape_invariants=(tf.TensorShape([]), unknown, unknown, tf.TensorShape([None, 1])),
        parallel_iterations=1,  # or several blocks would be in memory at a time
    )
    return Nearest(*found)
