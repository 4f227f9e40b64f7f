"""The k nearest of very many classes, block by block, without a table of all distances."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from clarel_tf.decision.probabilities import Temperatures, exponential_sums, moved_sums


class Nearest(NamedTuple):
    """Running state of a search for B queries.

    Attributes:
      distances: float32 [B, n], the n smallest so far, nearest first.
      rows: int32 [B, n], the candidates that they belong to.
      sums: float32 [B, 2], `exponential_sums` of all so far.
      before: int32 [B, W], how many candidates come before each of W watched distances.
    """

    distances: tf.Tensor
    rows: tf.Tensor
    sums: tf.Tensor
    before: tf.Tensor


def no_candidates(queries: tf.Tensor, watched: tf.Tensor | None = None) -> Nearest:
    """The state before any candidate; `queries`: [B, E]; `watched`: [B, W]."""
    count = tf.shape(queries)[0]
    no_rows = tf.zeros([count, 0], tf.int32)
    before = no_rows if watched is None else tf.zeros_like(watched, tf.int32)
    return Nearest(tf.zeros([count, 0]), no_rows, tf.zeros([count, 2]), before)


def add_candidates(
    found: Nearest,
    distances: tf.Tensor,
    first_row: tf.Tensor | int,
    k: tf.Tensor | int,
    temperatures: Temperatures,
    watched: tf.Tensor | None = None,
) -> Nearest:
    """The state after N more candidates.

    Args:
      distances: float32 [B, N].
      first_row: row of the first of them; the others follow.
      k: number of candidates kept. Of equal distances the lower row comes first.
      watched: float32 [B, W]; candidates at an equal distance come before it.
    """
    # Infinity if there is no candidate yet.
    smallest_before, of_block = (
        tf.reduce_min(known, axis=1, keepdims=True) for known in (found.distances, distances)
    )
    smallest = tf.minimum(smallest_before, of_block)
    sums = moved_sums(found.sums, smallest_before, smallest, temperatures)
    sums += exponential_sums(distances, smallest, temperatures)
    block = tf.math.top_k(-distances, tf.minimum(k, tf.shape(distances)[1]))
    values = tf.concat([-found.distances, block.values], axis=1)
    rows = tf.concat([found.rows, first_row + block.indices], axis=1)
    best = tf.math.top_k(values, tf.minimum(k, tf.shape(values)[1]))
    before = found.before
    if watched is not None:
        before = tf.cond(
            tf.size(watched) > 0,
            lambda: before + tf.searchsorted(tf.sort(distances), watched, side="right"),
            lambda: before,
        )
    return Nearest(-best.values, tf.gather(rows, best.indices, batch_dims=1), sums, before)


def nearest_in_blocks(
    queries: tf.Tensor,
    candidates: tf.Tensor | int,
    block: int,
    distances_to: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    k: tf.Tensor | int,
    temperatures: Temperatures,
    watched: tf.Tensor | None = None,
) -> Nearest:
    """The k nearest of `candidates`, computed `block` at a time.

    Args:
      queries: float32 [B, E].
      distances_to: (first, end) -> float32 [B, end - first], the distances to those candidates.
      watched: float32 [B, W], distances whose place among the candidates is counted.
    """
    found = no_candidates(queries, watched)
    if isinstance(candidates, int) and candidates <= block:
        return add_candidates(found, distances_to(0, candidates), 0, k, temperatures, watched)

    def look_at_block(first: tf.Tensor, *found: tf.Tensor) -> tuple[tf.Tensor, ...]:
        end = tf.minimum(first + block, candidates)
        distances = distances_to(first, end)
        return end, *add_candidates(Nearest(*found), distances, first, k, temperatures, watched)

    unknown = tf.TensorShape([None, None])
    _, *found = tf.while_loop(
        lambda first, *_: first < candidates,
        look_at_block,
        (tf.constant(0), *found),
        shape_invariants=(
            *(tf.TensorShape([]), unknown, unknown, tf.TensorShape([None, 2])),
            found[-1].shape,
        ),
        parallel_iterations=1,  # otherwise several blocks would be in memory at once
    )
    return Nearest(*found)
