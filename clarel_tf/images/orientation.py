"""The EXIF orientation of a picture: read from its header, and applied to its pixels."""

import tensorflow as tf

from clarel_tf.images.raw_bytes import RawBytes, either

_TAG = 0x0112
_SHORT, _LONG = 3, 4  # types of a value
_MOST_ENTRIES = 200  # cameras write about 20


def exif_orientation(data: RawBytes, start: tf.Tensor) -> tf.Tensor:
    """The orientation in the EXIF data at a position, int64 [], 1 (upright) to 8.

    EXIF data begin with a TIFF header; their first directory has the orientation.
    """
    is_big = data.starts_with(b"MM", start)
    directory = start + either(is_big, data.big(start + 4, 4), data.little(start + 4, 4))
    count = either(is_big, data.big(directory, 2), data.little(directory, 2))
    entries = data.rows(directory + 2, tf.minimum(count, _MOST_ENTRIES), 12)

    def short(column: int) -> tf.Tensor:
        first, second = entries[:, column], entries[:, column + 1]
        return tf.where(is_big, first * 256 + second, second * 256 + first)

    # The low bytes of a big-endian LONG are the last ones.
    value = tf.where(tf.logical_and(is_big, short(2) == _LONG), short(10), short(8))
    is_number = tf.logical_or(short(2) == _SHORT, short(2) == _LONG)
    is_orientation = tf.logical_and(short(0) == _TAG, is_number)
    found = tf.reduce_max(tf.concat([either(is_orientation, value, 0), [0]], 0))
    return either(tf.logical_and(found >= 1, found <= 8), found, 1)


def upright(square: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """A square picture [S, S, C] of an EXIF orientation, turned upright."""
    is_any = [tf.constant(codes, tf.int64) for codes in ([5, 6, 7, 8], [2, 3, 6, 7], [3, 4, 7, 8])]
    turn, left_right, up_down = (tf.reduce_any(orientation == codes) for codes in is_any)

    def turned() -> tf.Tensor:
        picture = tf.where(turn, tf.transpose(square, [1, 0, 2]), square)
        picture = tf.where(left_right, tf.reverse(picture, [1]), picture)
        return tf.where(up_down, tf.reverse(picture, [0]), picture)

    return tf.cond(orientation == 1, lambda: tf.identity(square), turned)
