"""`RawBytes`, numbers and texts of a file as TensorFlow operations that never fail."""

import tensorflow as tf

_PADDING = 64  # more than any access reads at once


def either(condition: tf.Tensor, yes: tf.Tensor | int, no: tf.Tensor | int) -> tf.Tensor:
    """`yes` or `no`, int64 []."""
    return tf.where(condition, tf.cast(yes, tf.int64), tf.cast(no, tf.int64))


class RawBytes:
    """The bytes of a string tensor, zeros beyond its end; all numbers and positions are int64 [].

    Attributes:
      length: number of bytes.
    """

    def __init__(self, contents: tf.Tensor):
        padded = tf.strings.join([contents, b"\0" * _PADDING])
        self._values = tf.io.decode_raw(padded, tf.uint8)
        self.length = tf.cast(tf.strings.length(contents), tf.int64)

    def big(self, at: tf.Tensor | int, count: int) -> tf.Tensor:
        """The big-endian number in `count` bytes."""
        weights = tf.constant([1 << 8 * (count - 1 - i) for i in range(count)], tf.int64)
        return tf.reduce_sum(self.window(at, count) * weights)

    def little(self, at: tf.Tensor | int, count: int) -> tf.Tensor:
        """The little-endian number in `count` bytes."""
        weights = tf.constant([1 << 8 * i for i in range(count)], tf.int64)
        return tf.reduce_sum(self.window(at, count) * weights)

    def starts_with(self, text: bytes, at: tf.Tensor | int = 0) -> tf.Tensor:
        """True if `text` stands at a position, bool []."""
        wanted = tf.constant(list(text), tf.int64)
        return tf.reduce_all(self.window(at, len(text)) == wanted)

    def find(self, text: bytes, start: tf.Tensor | int = 0) -> tf.Tensor:
        """The first position of `text` at or after `start`; -1 if there is none."""
        start = tf.minimum(tf.cast(start, tf.int64), self.length)
        values = self._values[start:]
        last = tf.shape(values, tf.int64)[0] - len(text)
        matches = tf.fill([last], True)
        for offset, value in enumerate(text):
            matches = tf.logical_and(matches, values[offset : last + offset] == value)
        places = tf.where(matches)[:1, 0] + start
        return tf.concat([places, [-1]], 0)[0]

    def rows(self, at: tf.Tensor, count: tf.Tensor, width: int) -> tf.Tensor:
        """`count` rows of `width` bytes that follow each other, int64 [count, width]."""
        places = tf.clip_by_value(at + tf.range(count * width), 0, self.length)
        return tf.cast(tf.reshape(tf.gather(self._values, places), [-1, width]), tf.int64)

    def window(self, at: tf.Tensor | int, count: int) -> tf.Tensor:
        """`count` bytes from a position, int64 [count]."""
        at = tf.clip_by_value(tf.cast(at, tf.int64), 0, self.length)
        return tf.cast(tf.ensure_shape(self._values[at : at + count], [count]), tf.int64)
