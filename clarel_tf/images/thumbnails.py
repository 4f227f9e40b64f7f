"""A small JPEG of a picture, from the pixels that the network gets, by TensorFlow operations."""

import functools
from collections.abc import Callable

import tensorflow as tf

from clarel_tf.images.headers import read_header

LONGEST_SIDE = 160
_QUALITY = 85
_ON_ITS_SIDE = 5  # EXIF orientations from here on swap height and width


def small_jpeg(contents: bytes, pixels: tf.Tensor) -> bytes:
    """A picture in its own proportions as JPEG, upright, its longest side at most `LONGEST_SIDE`.

    Args:
      contents: of the file; only its header is read.
      pixels: the whole picture squeezed to a square, float32 [S, S, 3] from 0 to 255. The JPEG is
        not larger than this either.
    """
    return _shrinker(pixels.shape[0])(contents, pixels).numpy()


@functools.cache
def _shrinker(size: int) -> Callable[[bytes, tf.Tensor], tf.Tensor]:
    def shrink(contents: tf.Tensor, pixels: tf.Tensor) -> tf.Tensor:
        header = read_header(contents)
        sides = tf.maximum(tf.cast(tf.stack([header.height, header.width]), tf.float32), 1.0)
        sides = tf.where(header.orientation >= _ON_ITS_SIDE, sides[::-1], sides)
        scale = tf.minimum(1.0, min(size, LONGEST_SIDE) / tf.reduce_max(sides))
        shape = tf.maximum(tf.cast(tf.round(sides * scale), tf.int32), 1)
        small = tf.image.resize(pixels, shape, "bilinear", antialias=True)
        small = tf.cast(tf.clip_by_value(tf.round(small), 0.0, 255.0), tf.uint8)
        return tf.io.encode_jpeg(small, "rgb", _QUALITY)

    signature = [tf.TensorSpec([], tf.string), tf.TensorSpec([size, size, 3], tf.float32)]
    return tf.function(shrink, input_signature=signature, autograph=False)
