"""Decodes and resizes pictures by core TensorFlow operations, the same in extraction and serving.

The whole picture is squeezed to a square, bicubic and antialiased. It is turned upright as its EXIF
data say. Grey and CMYK become RGB; transparency is dropped; of an animated GIF the first frame
counts.
"""

import tensorflow as tf

from clarel_tf.images.headers import BMP, DAMAGED, GIF, JPEG, PNG, UNKNOWN, WEBP, read_header
from clarel_tf.images.orientation import upright

_AT_ONCE = 4  # pictures of a request; each may take 200 MB, or 500 MB if it is transparent
_WIDE = 16_384  # columns, of which at most 3,906 rows are decoded


def decode_pictures(image_bytes: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Pixels of encoded pictures, and what is wrong with each of them.

    It never raises: the pixels of what is no picture are zero.

    Args:
      image_bytes: string [B].

    Returns:
      Pixels, float32 [B, size, size, 3] from 0 to 255, and problems, string [B]: empty, or a text
      that can follow the name of a picture, such as "is empty (0 bytes)".
    """
    count = tf.size(image_bytes, tf.int64)
    # No operation can catch the error of a decoder, but a dataset can leave its element out.
    pictures = tf.data.Dataset.from_tensor_slices((tf.range(count), image_bytes))
    pictures = pictures.map(
        lambda row, one: (row, *decode_picture(one, size)), num_parallel_calls=_AT_ONCE
    )
    pictures = pictures.ignore_errors()
    # At least one element, because one batch is expected.
    start = (tf.constant([-1], tf.int64), tf.zeros([1, size, size, 3]), tf.constant([""]))
    start = tf.data.Dataset.from_tensor_slices(start)
    batch = start.concatenate(pictures).batch(count + 1).with_options(_plainly())
    rows, pixels, problems = (part[1:] for part in batch.get_single_element())
    places = rows[:, tf.newaxis]
    pixels = tf.scatter_nd(places, pixels, tf.stack([count, size, size, 3]))
    lost = tf.fill([count], DAMAGED)
    return pixels, tf.tensor_scatter_nd_update(lost, places, problems)


def _plainly() -> tf.data.Options:
    """Options for a dataset of a few elements: rewriting its graph takes longer than running it."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return options


def decode_picture(image_bytes: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """As `decode_pictures`, for one picture, string [].

    Damage that shows only in decoding raises InvalidArgumentError.
    """
    header = read_header(image_bytes)
    kind = tf.where(header.problem == "", header.kind, UNKNOWN)
    picture = _decoded(image_bytes, kind, header.end)
    pixels = upright(squeeze(picture, size), header.orientation)
    return tf.ensure_shape(pixels, [size, size, 3]), header.problem


def squeeze(picture: tf.Tensor, size: int) -> tf.Tensor:
    """A picture, uint8 [H, W, 3], as float32 [size, size, 3] from 0 to 255.

    Gives what `tf.image.resize(picture, [size, size], "bicubic", antialias=True)` gives in half of
    its time: that is slow along rows, where a step has three numbers. So both axes are resized
    along columns, with a transposition between.

    The first step keeps all columns, which takes half a gigabyte for a flat picture. So a very wide
    picture is first resized along its rows, slowly but in little memory: there are few of them.
    """

    def by_columns() -> tf.Tensor:
        narrow = tf.transpose(_shorter(picture, size), [1, 0, 2])
        return tf.transpose(_shorter(narrow, size), [1, 0, 2])

    def by_rows() -> tf.Tensor:
        return _shorter(_narrower(picture, size), size)

    pixels = tf.cond(tf.shape(picture)[1] > _WIDE, by_rows, by_columns)
    return tf.clip_by_value(pixels, 0.0, 255.0)


def _shorter(picture: tf.Tensor, size: int) -> tf.Tensor:
    """A picture [H, W, 3] resized to [size, W, 3]."""
    height, width = tf.shape(picture)[0], tf.shape(picture)[1]
    columns = tf.reshape(picture, [1, height, 1, width * 3])
    return tf.reshape(_resized(columns, size), [size, width, 3])


def _narrower(picture: tf.Tensor, size: int) -> tf.Tensor:
    """A picture [H, W, 3] resized to [H, size, 3]."""
    rows = tf.expand_dims(picture, 2)
    return tf.reshape(_resized(rows, size), [-1, size, 3])


def _resized(lines: tf.Tensor, size: int) -> tf.Tensor:
    """Lines [N, L, 1, C] resized to [N, size, 1, C]."""
    length = tf.cast(tf.shape(lines)[1], tf.float32)
    return tf.raw_ops.ScaleAndTranslate(
        images=lines,
        size=[size, 1],
        scale=tf.stack([size / length, 1.0]),
        translation=[0.0, 0.0],
        kernel_type="keyscubic",
        antialias=True,
    )


def _decoded(image_bytes: tf.Tensor, kind: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """The pixels of a picture, uint8 [H, W, 3]; one black pixel if the kind is unknown."""

    def jpeg() -> tf.Tensor:
        return tf.io.decode_jpeg(image_bytes, channels=3, dct_method="INTEGER_ACCURATE")

    def gif() -> tf.Tensor:
        # The decoder would read all frames; after the first one it gets the trailer.
        first = tf.strings.substr(image_bytes, tf.zeros_like(end), end)
        return any_kind(tf.strings.join([first, b";"]))

    def bmp() -> tf.Tensor:
        return tf.io.decode_bmp(image_bytes)[:, :, :3]

    def any_kind(contents: tf.Tensor) -> tf.Tensor:
        picture = tf.io.decode_image(contents, channels=3, expand_animations=False)
        return tf.ensure_shape(picture, [None, None, 3])

    def nothing() -> tf.Tensor:
        return tf.zeros([1, 1, 3], tf.uint8)

    def webp() -> tf.Tensor:
        # As many channels as it has: the decoder does not drop transparency.
        picture = tf.io.decode_image(image_bytes, channels=0, expand_animations=False)
        picture = tf.ensure_shape(picture, [None, None, None])[:, :, :3]
        return tf.ensure_shape(picture, [None, None, 3])

    def other() -> tf.Tensor:
        return any_kind(image_bytes)

    branches = {JPEG: jpeg, GIF: gif, BMP: bmp, PNG: other, WEBP: webp}
    return tf.switch_case(kind, branches, default=nothing)
