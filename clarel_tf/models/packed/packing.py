"""The packed layout of a batch of captions: one long sequence with hardly any padding.

Each caption is followed by one empty slot, so that a convolution of width 3 never sees a neighbour:

    a small bird with a red head . it is blue . ...        ('.' is an empty slot)

A max-pool of 2 halves the captions and again puts an empty slot after each. The second max-pool
arranges the rows for the recurrent layer, which reads step by step: captions are sorted by length,
and each step has only the captions that still have a token.
"""

from typing import NamedTuple

import tensorflow as tf


class Pooling(NamedTuple):
    """A max-pool of 2 from S slots to R rows, by index.

    Attributes:
      first, second: int32 [R], the two slots of each row; the second may be an empty one.
      origin: int32 [S], index of each occupied slot in the concatenation of `first` and `second`,
        for the gradient. Undefined for an empty slot.
    """

    first: tf.Tensor
    second: tf.Tensor
    origin: tf.Tensor


class RecurrentSteps(NamedTuple):
    """The order in time of M rows of N captions, longest caption first.

    Attributes:
      sizes: int32 [steps], captions that are still running at each step; sums to M.
      reverse: int32 [M], permutation of the rows that reverses every caption; applied twice, it is
        the identity.
      rank: int32 [M], the caption of each row, in the sorted order.
      lengths: int32 [N], steps of each caption, sorted.
      unsort: int32 [N], row of each original caption in the sorted order.
    """

    sizes: tf.Tensor
    reverse: tf.Tensor
    rank: tf.Tensor
    lengths: tf.Tensor
    unsort: tf.Tensor


class PackedCaptions(NamedTuple):
    """A batch of N captions of at most T tokens.

    Attributes:
      token_ids: int32 [S], 0 in empty slots.
      masks: float32 [S, 1] and [R, 1]: 1 for occupied slots, before the first max-pool and between
        the two.
      pools: S slots -> R slots -> M rows, step after step.
      steps: the order of those M rows.
    """

    token_ids: tf.Tensor
    masks: tuple[tf.Tensor, tf.Tensor]
    pools: tuple[Pooling, Pooling]
    steps: RecurrentSteps


def pack_captions(token_ids: tf.Tensor) -> PackedCaptions:
    """The packed layout of a batch of captions.

    Args:
      token_ids: int32 [N, T], T known, each row filled from the left and padded with 0. A row
        of zeros takes no space.
    """
    limit = token_ids.shape[1]
    lengths = tf.math.count_nonzero(token_ids, axis=1, dtype=tf.int32)
    wide, halved = _Level(lengths, limit), _Level(_half(lengths), _half(limit))
    packed = wide.pack(tf.pad(token_ids, [[0, 0], [0, 1]]))
    mask = tf.cast(packed[:, tf.newaxis] != 0, tf.float32)

    first = wide.slots_at(2 * halved.position)
    first_pool = Pooling(
        first=halved.pack(first, at_end=wide.total),
        second=halved.pack(wide.slots_at(2 * halved.position + 1), at_end=wide.total),
        origin=wide.pack(
            halved.first + wide.position // 2 + wide.position % 2 * (halved.total + 1)
        ),
    )
    second_pool, steps = _recurrent_layout(halved, _half(halved.lengths), _half(_half(limit)))
    masks = (mask, tf.gather(mask, first_pool.first))
    return PackedCaptions(packed, masks, (first_pool, second_pool), steps)


class _Chosen:
    """Elements of grids, [A, B], where a mask of that shape is true; row by row.

    For several grids and one mask this is less work than `tf.boolean_mask`.
    """

    def __init__(self, mask: tf.Tensor):
        self._places = tf.squeeze(tf.where(tf.reshape(mask, [-1])), axis=1)

    def of(self, grid: tf.Tensor) -> tf.Tensor:
        """[A, B] -> [elements that are chosen]."""
        return tf.gather(tf.reshape(grid, [-1]), self._places)


class _Level:
    """Concatenated captions with an empty slot after each, and one more at the very end.

    The last slot exists because TensorFlow's convolution does not accept an empty sequence.
    """

    def __init__(self, lengths: tf.Tensor, limit: int):
        self.lengths = lengths
        slots = tf.where(lengths > 0, lengths + 1, 0)
        self.first = tf.cumsum(slots, exclusive=True)[:, tf.newaxis]
        self.total = tf.reduce_sum(slots)
        self.position = tf.range(limit + 1)
        self._occupied = _Chosen(self.position < slots[:, tf.newaxis])  # of [N, limit + 1]

    def pack(self, grid: tf.Tensor, at_end: tf.Tensor | int = 0) -> tf.Tensor:
        """int32 [N, limit + 1] -> [total + 1]."""
        return tf.concat([self._occupied.of(grid), [at_end]], axis=0)

    def slots_at(self, position: tf.Tensor) -> tf.Tensor:
        """The slot at `position`, [P], of each caption: [N, P]; its empty slot beyond the end."""
        return self.first + tf.minimum(position, self.lengths[:, tf.newaxis])


def _recurrent_layout(
    level: _Level, lengths: tf.Tensor, limit: int
) -> tuple[Pooling, RecurrentSteps]:
    """Pooling from the slots of `level` to steps; `lengths`: int32 [N], steps of each caption."""
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    unsort = tf.math.invert_permutation(order)
    sorted_lengths = tf.gather(lengths, order)
    step = tf.range(limit)[:, tf.newaxis]
    is_running = step < sorted_lengths  # [limit, N]
    running = _Chosen(is_running)
    sizes = tf.math.count_nonzero(is_running, axis=1, dtype=tf.int32)
    first_row = tf.cumsum(sizes, exclusive=True)  # of each step
    total = tf.reduce_sum(sizes)

    def by_step(of_step: tf.Tensor) -> tf.Tensor:  # [N, limit] in the original order -> [M]
        return running.of(tf.transpose(tf.gather(of_step, order)))

    steps = tf.range(limit)
    row = tf.gather(first_row, tf.minimum(level.position // 2, limit - 1)) + unsort[:, tf.newaxis]
    pooling = Pooling(
        first=by_step(level.slots_at(2 * steps)),
        second=by_step(level.slots_at(2 * steps + 1)),
        # An empty slot may point beyond the end.
        origin=tf.minimum(level.pack(row + level.position % 2 * total), 2 * total - 1),
    )
    from_end = tf.maximum(sorted_lengths - 1 - step, 0)
    captions = tf.range(tf.size(order))
    reverse = running.of(tf.gather(first_row, from_end) + captions)
    rank = running.of(tf.broadcast_to(captions, tf.shape(is_running)))
    return pooling, RecurrentSteps(sizes, reverse, rank, sorted_lengths, unsort)


def _half(length: tf.Tensor) -> tf.Tensor:
    return (length + 1) // 2
