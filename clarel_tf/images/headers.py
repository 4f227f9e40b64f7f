"""Headers of encoded pictures, read by TensorFlow operations before anything is decoded.

A few bytes can claim any number of pixels, which a decoder would allocate. So size and kind are
read first. This runs inside exported graphs, so it never raises, whatever the bytes are: it says
what is wrong. All numbers of a header are read through `RawBytes`, which gives zeros beyond the
end.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from clarel_tf.images.orientation import exif_orientation
from clarel_tf.images.raw_bytes import RawBytes, either

MAX_PIXELS = 64_000_000
MAX_SIDE = 65_535  # as in JPEG
JPEG, GIF, BMP, PNG, WEBP, UNKNOWN = range(6)

NO_PICTURE = "is not a JPEG, PNG, GIF, BMP or WebP picture"
DAMAGED = "is damaged or cut off"
NO_MEMORY = "is not decoded, because memory ran out; end other programs, or make it smaller"
BMP_KIND = "is a BMP file with a palette or compression, which is not decoded; save it as PNG"
ANIMATED = "is an animated WebP picture, which is not decoded; save one frame of it"


_MOST_CHUNKS = 4096  # of a PNG or WebP, up to its EXIF data


class Header(NamedTuple):
    """What is known of a picture before it is decoded; all scalars.

    Attributes:
      kind: int32, one of the constants of this module.
      height, width: int64, before the picture is turned.
      orientation: int64, as EXIF counts, 1 to 8.
      end: int64, where the first picture ends; what follows need not be decoded.
      problem: string, why the picture must not be decoded, or empty.
    """

    kind: tf.Tensor
    height: tf.Tensor
    width: tf.Tensor
    orientation: tf.Tensor
    end: tf.Tensor
    problem: tf.Tensor


def read_header(image_bytes: tf.Tensor) -> Header:
    """The header of an encoded picture, string []."""
    data = RawBytes(image_bytes)
    kind = _kind(data)
    branches = [_jpeg, _gif, _bmp, _png, _webp, _unknown]
    height, width, orientation, end, problem = tf.switch_case(
        kind, [lambda read=read: read(data) for read in branches]
    )
    is_huge = height * width > MAX_PIXELS
    is_long = tf.maximum(height, width) > MAX_SIDE
    size = ["has ", tf.strings.as_string(width), " x ", tf.strings.as_string(height), " pixels; "]
    huge = tf.strings.join([*size, f"at most {MAX_PIXELS // 10**6} million are decoded"])
    long = tf.strings.join([*size, f"at most {MAX_SIDE} in a row or column are decoded"])
    none = tf.logical_or(height < 1, width < 1)
    problem = tf.where(tf.logical_and(problem == "", none), DAMAGED, problem)
    problem = tf.where(tf.logical_and(problem == "", is_huge), huge, problem)
    problem = tf.where(tf.logical_and(problem == "", is_long), long, problem)
    problem = tf.where(data.length == 0, "is empty (0 bytes)", problem)
    return Header(kind, height, width, orientation, end, problem)


def _kind(data: RawBytes) -> tf.Tensor:
    is_webp = tf.logical_and(data.starts_with(b"RIFF"), data.starts_with(b"WEBP", 8))
    is_gif = tf.logical_or(data.starts_with(b"GIF87a"), data.starts_with(b"GIF89a"))
    found = {
        JPEG: data.starts_with(b"\xff\xd8\xff"),
        GIF: is_gif,
        BMP: data.starts_with(b"BM"),
        PNG: data.starts_with(b"\x89PNG\r\n\x1a\n"),
        WEBP: is_webp,
        UNKNOWN: True,
    }
    matches = tf.stack([found[kind] for kind in range(len(found))])
    return tf.argmax(tf.cast(matches, tf.int32), output_type=tf.int32)  # the first of them


Parts = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]


def _parts(
    data: RawBytes,
    height: tf.Tensor,
    width: tf.Tensor,
    problem: tf.Tensor,
    orientation: tf.Tensor | int = 1,
    end: tf.Tensor | None = None,
) -> Parts:
    end = data.length if end is None else end
    return height, width, tf.cast(orientation, tf.int64), end, problem


def _orientation(data: RawBytes, start: tf.Tensor, is_there: tf.Tensor) -> tf.Tensor:
    one = tf.constant(1, tf.int64)
    return tf.cond(is_there, lambda: exif_orientation(data, start), lambda: one)


def _chunk(
    data: RawBytes,
    name: bytes,
    first: int,
    name_at: int,
    length: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Where the content of the first chunk of this name begins, int64 []; 0 if there is none.

    Args:
      first: position of the first chunk.
      name_at: position of the name in a chunk; the content begins with its ninth byte.
      length: gives the length of the chunk at a position.
    """

    def walk() -> tf.Tensor:
        [at] = tf.while_loop(
            lambda at: tf.logical_and(~data.starts_with(name, at + name_at), at < data.length),
            lambda at: [at + length(at)],
            [tf.constant(first, tf.int64)],
            maximum_iterations=_MOST_CHUNKS,
        )
        return either(data.starts_with(name, at + name_at), at + 8, 0)

    # Most pictures have none, and need no walk.
    return tf.cond(data.find(name) > 0, walk, lambda: tf.constant(0, tf.int64))


def _unless(condition: tf.Tensor, problem: str) -> tf.Tensor:
    return tf.where(condition, "", problem)


def _unknown(data: RawBytes) -> Parts:
    zero = tf.constant(0, tf.int64)
    return _parts(data, zero, zero, tf.constant(NO_PICTURE))


def _png(data: RawBytes) -> Parts:
    is_whole = tf.logical_and(data.starts_with(b"IHDR", 12), data.find(b"IEND") > 0)
    exif = _chunk(data, b"eXIf", 8, 4, lambda at: 12 + data.big(at, 4))
    orientation = _orientation(data, exif, exif > 0)
    height, width = data.big(20, 4), data.big(16, 4)
    return _parts(data, height, width, _unless(is_whole, DAMAGED), orientation)


def _bmp(data: RawBytes) -> Parts:
    width, height = data.little(18, 4), data.little(22, 4)
    height = either(height >= 1 << 31, (1 << 32) - height, height)  # the first row is on top
    bits, start = data.little(28, 2), data.little(10, 4)
    is_plain = tf.logical_and(data.little(14, 4) >= 40, data.little(30, 4) == 0)
    is_plain = tf.logical_and(is_plain, tf.logical_or(bits == 24, bits == 32))
    row = (width * bits + 31) // 32 * 4
    is_whole = start + row * height <= data.length
    problem = tf.where(is_plain, _unless(is_whole, DAMAGED), BMP_KIND)
    return _parts(data, height, width, problem)


def _webp(data: RawBytes) -> Parts:
    """Three kinds: lossy, lossless, and one with further chunks."""
    bits = data.little(21, 4)
    mask = (1 << 14) - 1
    is_lossless, is_extended = data.starts_with(b"VP8L", 12), data.starts_with(b"VP8X", 12)
    width, height = data.little(26, 2) & mask, data.little(28, 2) & mask
    width = either(is_lossless, (bits & mask) + 1, width)
    height = either(is_lossless, (bits // (1 << 14) & mask) + 1, height)
    width = either(is_extended, data.little(24, 3) + 1, width)
    height = either(is_extended, data.little(27, 3) + 1, height)
    is_known = tf.reduce_any([data.starts_with(b"VP8 ", 12), is_lossless, is_extended])
    is_whole = tf.logical_and(is_known, data.little(4, 4) + 8 <= data.length)
    is_animated = tf.logical_and(is_extended, data.little(20, 1) & 2 > 0)
    problem = tf.where(is_animated, ANIMATED, _unless(is_whole, DAMAGED))
    exif = _chunk(data, b"EXIF", 12, 0, lambda at: 8 + (data.little(at + 4, 4) + 1) // 2 * 2)
    orientation = _orientation(data, exif, tf.logical_and(is_extended, exif > 0))
    return _parts(data, height, width, problem, orientation)


_OTHER, _SEGMENT, _FILL, _FRAME = range(4)
_MOST_SEGMENTS = 4096  # with fill bytes; cameras write about 20, and 64 kB fit into one


def _jpeg_markers() -> list[int]:
    """What the second byte of a marker means before the first scan.

    Only what encoders write there counts. libjpeg skips bytes that mean nothing, so a walk that
    guesses their length could find another frame header than libjpeg.
    """
    kinds = [_OTHER] * 256
    kinds[0xFF] = _FILL
    for code in (0xC4, 0xCC, 0xDB, 0xDD, *range(0xE0, 0xF0), 0xFE):  # tables, APPn, comments
        kinds[code] = _SEGMENT
    for code in (0xC0, 0xC1, 0xC2, 0xC9, 0xCA):  # all that libjpeg decodes
        kinds[code] = _FRAME
    return kinds


def _jpeg(data: RawBytes) -> Parts:
    """Walks over the segments up to the frame header, past the EXIF segment."""

    markers = tf.constant(_jpeg_markers(), tf.int64)

    def kind_at(here: tf.Tensor) -> tf.Tensor:
        return either(here[0] == 0xFF, tf.gather(markers, here[1]), _OTHER)

    def step(at: tf.Tensor, exif: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
        here = data.window(at, 10)
        size = here[2] * 256 + here[3]
        is_segment = tf.logical_and(kind_at(here) == _SEGMENT, size >= 2)
        is_fill = kind_at(here) == _FILL
        is_exif = tf.reduce_all(here[4:] == list(b"Exif\0\0"))
        is_first = tf.reduce_all([is_exif, here[1] == 0xE1, exif == 0])
        length = either(is_segment, 2 + size, either(is_fill, 1, 0))
        return [at + length, either(is_first, at + 10, exif), length == 0]

    at, exif, _ = tf.while_loop(
        lambda at, _, is_done: tf.logical_and(~is_done, at < data.length),
        step,
        [tf.constant(2, tf.int64), tf.constant(0, tf.int64), tf.constant(False)],
        maximum_iterations=_MOST_SEGMENTS,
    )
    orientation = _orientation(data, exif, exif > 0)
    is_frame = kind_at(data.window(at, 2)) == _FRAME
    is_whole = tf.logical_and(is_frame, data.find(b"\xff\xd9", at) > 0)
    height, width = data.big(at + 5, 2), data.big(at + 7, 2)
    return _parts(data, height, width, _unless(is_whole, DAMAGED), orientation)


_SOME_PIECES = 5000
_SHORT_PIECE = 128  # many pieces are longer on average; encoders write 254 or 255 bytes


def _gif(data: RawBytes) -> Parts:
    """Walks over the blocks to the end of the first frame; the frames that follow are cut off."""
    flags = data.little(10, 1)
    first = 13 + _palette_size(flags)

    def step(
        at: tf.Tensor, frame: tf.Tensor, is_inside: tf.Tensor, _: tf.Tensor
    ) -> list[tf.Tensor]:
        code = data.little(at, 1)
        # Inside of a block: pieces with their lengths, and a length of 0 at the end.
        is_last = tf.logical_and(is_inside, code == 0)
        is_frame = tf.logical_and(~is_inside, code == 0x2C)
        is_extension = tf.logical_and(~is_inside, code == 0x21)
        palette = _palette_size(data.little(at + 9, 1))
        length = either(is_frame, 11 + palette, either(is_extension, 2, 1 + code))
        is_trailer = ~tf.reduce_any([is_inside, is_frame, is_extension])
        return [
            at + length,
            either(is_frame, at, frame),
            tf.logical_and(~is_last, tf.reduce_any([is_inside, is_frame, is_extension])),
            tf.logical_or(is_trailer, tf.logical_and(is_last, frame > 0)),
        ]

    end, frame, _, is_done = tf.while_loop(
        lambda at, _, __, is_done: tf.logical_and(~is_done, at < data.length),
        step,
        [first, tf.constant(0, tf.int64), tf.constant(False), tf.constant(False)],
        maximum_iterations=tf.cast(_SOME_PIECES + data.length // _SHORT_PIECE, tf.int32),
    )
    is_whole = tf.reduce_all([is_done, frame > 0, end <= data.length])
    # A frame may be larger than the screen.
    width = tf.maximum(data.little(6, 2), data.little(frame + 5, 2))
    height = tf.maximum(data.little(8, 2), data.little(frame + 7, 2))
    return _parts(data, height, width, _unless(is_whole, DAMAGED), end=end)


def _palette_size(flags: tf.Tensor) -> tf.Tensor:
    """Bytes of the palette that the flags of a GIF announce, int64 []."""
    sizes = tf.constant([3 << (n + 1) for n in range(8)], tf.int64)
    return either(flags & 0x80 > 0, tf.gather(sizes, flags & 7), 0)
