"""The packed layout of a batch of captions: end to end in one long sequence, hardly any padding.

Each caption starts at a multiple of 4 and has at least two empty slots behind it:

    a small bird with a red head . . . . . | it is blue . . . . . | ...    ('.' is an empty slot)

so a convolution of width 3 never sees a neighbouring caption, neither here nor after one max-pool
of 2 (one empty slot is left then), and that max-pool is a reshape. After the second max-pool the
recurrent layer reads the captions step by step, sorted by length, each step holding only the
captions that still have a token.
"""

from typing import NamedTuple

import tensorflow as tf

# Two max-pools of 2 turn this many slots into one recurrent step.
SLOTS_PER_STEP = 4


class PackedCaptions(NamedTuple):
    """A batch of N captions of at most T tokens in S slots.

    Attributes:
      token_ids: int32 [S], 0 in empty slots.
      masks: float32 [S, 1] and [S/2, 1]: 1 where a slot holds something, before the first
        max-pool and between the two.
      steps: how the recurrent layer walks over the S/4 pooled slots.
    """

    token_ids: tf.Tensor
    masks: tuple[tf.Tensor, tf.Tensor]
    steps: "RecurrentSteps"


class RecurrentSteps(NamedTuple):
    """The order in which M pooled slots of N captions are read, longest caption first.

    Attributes:
      sizes: int32 [ceil(T/4)], captions that are still running at each step; sums to M.
      forward: int32 [M], the slot that each running caption reads, step after step.
      backward: int32 [M], the same for the direction that starts at the last token.
      rank: int32 [M], which caption it is, counted in the sorted order.
      lengths: int32 [N], steps of each caption, sorted.
      unsort: int32 [N], row of each original caption in the sorted order.
    """

    sizes: tf.Tensor
    forward: tf.Tensor
    backward: tf.Tensor
    rank: tf.Tensor
    lengths: tf.Tensor
    unsort: tf.Tensor


def pack_captions(token_ids: tf.Tensor) -> PackedCaptions:
    """Packs captions.

    Args:
      token_ids: int32 [N, T], T known, each row filled from the left and padded with 0. A row of
        zeros takes no room.
    """
    limit = token_ids.shape[1]
    lengths = tf.math.count_nonzero(token_ids, axis=1, dtype=tf.int32)
    slots = tf.where(lengths > 0, SLOTS_PER_STEP * _ceil_divide(lengths + 2), 0)
    widest = SLOTS_PER_STEP * _ceil_divide(limit + 2)
    padded = tf.pad(token_ids, [[0, 0], [0, widest - limit]])
    packed = tf.boolean_mask(padded, tf.range(widest) < slots[:, tf.newaxis])
    # Four more empty slots: TensorFlow's convolution cannot take a sequence without any.
    packed = tf.pad(packed, [[0, SLOTS_PER_STEP]])

    mask = tf.cast(packed[:, tf.newaxis] != 0, tf.float32)
    half = tf.reduce_max(tf.reshape(mask, [-1, 2, 1]), axis=1)

    first_slots = tf.cumsum(slots, exclusive=True) // SLOTS_PER_STEP
    steps = _recurrent_steps(first_slots, _ceil_divide(lengths), _ceil_divide(limit))
    return PackedCaptions(packed, (mask, half), steps)


def _ceil_divide(length):
    return (length + SLOTS_PER_STEP - 1) // SLOTS_PER_STEP


def _recurrent_steps(first: tf.Tensor, lengths: tf.Tensor, limit: int) -> RecurrentSteps:
    """`first` and `lengths`: int32 [N], first pooled slot and number of steps of each caption."""
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    first, lengths = tf.gather(first, order), tf.gather(lengths, order)
    step = tf.range(limit)[:, tf.newaxis]
    is_running = step < lengths  # [limit, N]
    rank = tf.broadcast_to(tf.range(tf.size(order)), tf.shape(is_running))
    return RecurrentSteps(
        sizes=tf.math.count_nonzero(is_running, axis=1, dtype=tf.int32),
        forward=tf.boolean_mask(first + step, is_running),
        backward=tf.boolean_mask(first + lengths - 1 - step, is_running),
        rank=tf.boolean_mask(rank, is_running),
        lengths=lengths,
        unsort=tf.math.invert_permutation(order),
    )
