"""Pictures become the pixels that Pillow gives; what is no picture is told by its header."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps, PngImagePlugin

from clarel_tf.images.decoding import decode_picture, decode_pictures, squeeze
from tests.helpers import memory, pictures

SIZE = 48
BROKEN = pictures.broken()
KINDS = pictures.many_kinds()


@pytest.fixture(scope="module")
def decode():
    signature = [tf.TensorSpec([], tf.string)]
    return tf.function(lambda data: decode_picture(data, SIZE), signature, autograph=False)


def by_pillow(data: bytes) -> np.ndarray:
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    resized = tf.image.resize(np.asarray(image), [SIZE, SIZE], "bicubic", antialias=True)
    return np.clip(resized, 0, 255)


@pytest.mark.parametrize("name", KINDS)
def test_pixels_are_those_of_pillow(decode, name):
    pixels, problem = decode(KINDS[name])
    assert problem.numpy() == b""
    np.testing.assert_allclose(pixels, by_pillow(KINDS[name]), atol=1e-3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(9))
def test_pictures_are_turned_as_exif_says(decode, kind, orientation):
    data = pictures.turned(orientation, kind)
    pixels, problem = decode(data)
    assert problem.numpy() == b""
    np.testing.assert_allclose(pixels, by_pillow(data), atol=1e-3)


def test_big_endian_exif_with_other_entries(decode):
    exif = Image.Exif()
    exif.endian = ">"
    exif[0x010F], exif[pictures.ORIENTATION], exif[0x0131] = "a maker", 6, "a program"
    data = pictures.encoded(pictures.picture(), "JPEG", exif=exif)
    np.testing.assert_allclose(decode(data)[0], by_pillow(data), atol=1e-3)


@pytest.mark.parametrize("kind,turns", [(1, False), (3, True), (4, True)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_type_of_an_orientation(decode, order, kind, turns):
    """EXIF writes a SHORT, 3; some programs a LONG, 4. Pillow agrees."""
    value = struct.pack(f"{order}I", 6) if kind == 4 else struct.pack(f"{order}HH", 6, 0)
    start = struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 8)
    entry = struct.pack(order + "HHHI", 1, pictures.ORIENTATION, kind, 1) + value
    exif = b"Exif\0\0" + start + entry + bytes(4)
    data = KINDS["jpeg"]
    data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
    turned = not np.allclose(decode(data)[0], decode(KINDS["jpeg"])[0], atol=1)
    assert turned == turns
    np.testing.assert_allclose(decode(data)[0], by_pillow(data), atol=1e-3)


def test_exif_is_a_chunk_of_its_own(decode):
    """Not what a text says about it."""
    exif = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, pictures.ORIENTATION, 3, 1, 6, 0, 0)
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "about eXIf" + exif.decode("latin-1"))
    for options in ({}, {"exif": pictures.exif(3)}):
        data = pictures.encoded(pictures.picture(), "PNG", pnginfo=text, **options)
        np.testing.assert_allclose(decode(data)[0], by_pillow(data), atol=1e-3)
    data = pictures.encoded(
        pictures.picture(), "WEBP", icc_profile=b"EXIF....Exif\0\0" + exif, exif=pictures.exif(3)
    )
    np.testing.assert_allclose(decode(data)[0], by_pillow(data), atol=1e-3)


def test_sixteen_bits(decode):
    values = np.asarray(pictures.picture().convert("L"))
    data = pictures.encoded(Image.fromarray(values.astype(np.uint16) * 257), "PNG")
    expected = by_pillow(pictures.encoded(Image.fromarray(values), "PNG"))
    np.testing.assert_allclose(decode(data)[0], expected, atol=1e-3)


@pytest.mark.parametrize("shape", [(7, 400), (333, 90), (48, 48), (1, 1)])
def test_resizing_is_that_of_tensorflow(shape):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    expected = tf.image.resize(image, [SIZE, SIZE], "bicubic", antialias=True)
    np.testing.assert_allclose(squeeze(tf.constant(image), SIZE), np.clip(expected, 0, 255))


def test_flat_pictures_are_resized_as_well():
    """Otherwise than usual: along the rows first."""
    image = np.random.default_rng(0).integers(0, 256, (60, 20_000, 3), np.uint8)
    expected = tf.image.resize(image, [SIZE, SIZE], "bicubic", antialias=True)
    np.testing.assert_allclose(squeeze(tf.constant(image), SIZE), expected, atol=1e-3)


def test_a_flat_picture_takes_little_memory():
    """320 rows of its width would be a gigabyte."""
    before = memory.kilobytes("VmRSS")
    memory.forget_the_peak()
    squeeze(tf.zeros([1, 300_000, 3], tf.uint8), 320)
    assert memory.kilobytes("VmHWM") - before < 200_000


def test_very_long_pictures_are_refused(decode):
    for width, height in ((65_536, 1), (1, 65_536)):
        data = pictures.encoded(Image.new("L", (width, height), 200), "PNG")
        expected = f"has {width} x {height} pixels; at most 65535 in a row or column are decoded"
        assert decode(data)[1].numpy().decode() == expected
    pixels, problem = decode(pictures.encoded(Image.new("L", (65_535, 1), 200), "PNG"))
    assert problem == b""
    np.testing.assert_allclose(pixels, 200, atol=1e-2)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_picture_is_told(decode, name):
    data, message = BROKEN[name]
    pixels, problem = decode(data)
    assert problem.numpy().decode() == message
    assert not pixels.numpy().any()


def test_kinds_for_pillow_are_told(decode):
    problems = {name: decode(data)[1].numpy() for name, data in pictures.only_pillow().items()}
    assert b"BMP file with a palette" in problems["palette bmp"]
    assert b"animated WebP" in problems["animated webp"]


def test_frames_after_the_first_are_not_read(decode):
    """A frame of 65535 x 65535 behind the first one would take 4 GB."""
    data = bytearray(KINDS["animated gif"])
    second = data.index(b"\x21\xf9", data.index(b"\x2c") + 20)
    at = data.index(b"\x2c", second)
    data[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    pixels, problem = decode(bytes(data))
    assert problem.numpy() == b""
    np.testing.assert_allclose(pixels, by_pillow(KINDS["animated gif"]), atol=1e-3)


# What stands between the segments of a JPEG, and is not what encoders write there.
STRAY = {
    "a stuffed zero": b"\xff\x00",
    "a stuffed zero with a length": b"\xff\x00\x00\x04ab",
    "a marker without meaning": b"\xff\x01",
    "a restart": b"\xff\xd0",
    "another beginning": b"\xff\xd8",
    "an end": b"\xff\xd9",
    "a reserved marker": b"\xff\x02\x00\x02",
    "a number of lines": b"\xff\xdc\x00\x04\x00\x05",
    "a segment of no length": b"\xff\xfe\x00\x00",
    "a segment of length 1": b"\xff\xfe\x00\x01",
}


@pytest.mark.parametrize("name", STRAY)
def test_a_jpeg_is_damaged_if_its_segments_can_be_read_in_two_ways(decode, name):
    data = pictures.turned(1)
    after = 4 + int.from_bytes(data[4:6], "big")
    for at in (2, after):
        assert decode(data[:at] + STRAY[name] + data[at:])[1] == b"is damaged or cut off"
    assert decode(data[:after] + b"x" + data[after:])[1] == b"is damaged or cut off"


def test_a_frame_behind_a_stuffed_zero_is_not_overlooked(decode):
    """libjpeg skips FF 00, and would decode a frame of another size."""
    data = KINDS["jpeg"]
    at = data.index(b"\xff\xc0")
    end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    frame = data[at:end]
    fake = frame[:5] + b"\0\x0a\0\x0a" + frame[9:]
    comment = b"\xff\xfe" + (2 + len(fake)).to_bytes(2, "big") + fake
    skipped = b"\xff\0" + (2 + len(frame) + 4).to_bytes(2, "big")
    _, problem = decode(data[:at] + skipped + frame + comment + data[end:])
    assert problem == b"is damaged or cut off"


def test_fill_bytes_and_many_segments_are_allowed(decode):
    data = KINDS["jpeg"]
    for more in (b"\xff" * 10, b"\xff\xfe\x00\x05abc" * 1000):
        pixels, problem = decode(data[:2] + more + data[2:])
        assert problem == b""
        np.testing.assert_allclose(pixels, by_pillow(data), atol=1e-3)


def test_headers_that_would_take_long_are_damaged(decode):
    """Each step of a walk takes 40 microseconds."""
    jpeg, gif = KINDS["jpeg"], KINDS["gif"]
    at = gif.index(b"\x2c", 13 + 768)
    comment = b"\x21\xfe" + b"\x01a" * 20_000 + b"\0"
    for data in (
        jpeg[:2] + b"\xff" * 20_000 + jpeg[3:],
        jpeg[:2] + b"\xff\xfe\x00\x02" * 20_000 + jpeg[2:],
        gif[:at] + comment + gif[at:],
    ):
        assert decode(data)[1] == b"is damaged or cut off"


def test_a_large_gif_is_decoded(decode):
    """It has 7000 pieces of 255 bytes."""
    noise = np.random.default_rng(0).integers(0, 256, (1100, 1200), np.uint8)
    data = pictures.encoded(Image.fromarray(noise), "GIF")
    pixels, problem = decode(data)
    assert problem == b"" and len(data) > 1_700_000
    np.testing.assert_allclose(pixels, by_pillow(data), atol=1e-2)


def test_a_webp_begins_with_a_chunk_that_has_its_size(decode):
    """libwebp takes what else is there for a picture without a header."""
    data = KINDS["lossless webp"]
    bare = data[20:]
    bare = b"RIFF" + (4 + len(bare)).to_bytes(4, "little") + b"WEBP" + bare
    assert decode(bare)[1] == b"is damaged or cut off"


@pytest.fixture(scope="module")
def decode_batch():
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(lambda data: decode_pictures(data, SIZE), signature, autograph=False)


@pytest.mark.parametrize("name", ["jpeg", "png", "animated gif", "bmp", "lossless webp"])
def test_damage_gives_pixels_a_problem_or_an_error_of_the_decoder(decode, name):
    exif = pictures.turned(6) if name == "jpeg" else KINDS[name]
    for data in pictures.damaged(exif, 60):
        try:
            pixels, problem = decode(data)
        except tf.errors.InvalidArgumentError:
            continue
        assert np.isfinite(pixels).all() and (problem == b"" or not pixels.numpy().any())


def test_a_batch_says_what_is_wrong_with_each(decode_batch):
    """Also where only the decoder notices it: nothing is raised."""
    flipped = bytearray(KINDS["png"])
    flipped[60] ^= 255
    given = [KINDS["jpeg"], b"", KINDS["png"], bytes(flipped), KINDS["gif"]]
    pixels, problems = decode_batch(tf.constant(given))
    expected = [b"", b"is empty (0 bytes)", b"", b"is damaged or cut off", b""]
    assert problems.numpy().tolist() == expected
    for row, data in enumerate(given):
        if expected[row]:
            assert not pixels.numpy()[row].any()
        else:
            np.testing.assert_allclose(pixels[row], by_pillow(data), atol=1e-3)
    assert [part.shape[0] for part in decode_batch(tf.zeros([0], tf.string))] == [0, 0]
    assert decode_batch(tf.constant(given[3:4]))[1].numpy() == [b"is damaged or cut off"]


def test_no_damage_raises_in_a_batch(decode, decode_batch):
    """Each row is as if it were alone, or damaged if it would raise alone."""
    for name in ("jpeg", "png", "animated gif", "bmp", "lossless webp"):
        given = list(pictures.damaged(KINDS[name], 40, seed=1))
        pixels, problems = decode_batch(tf.constant(given))
        raised = 0
        for row, data in enumerate(given):
            try:
                expected, problem = decode(data)
            except tf.errors.InvalidArgumentError:
                expected, problem = np.zeros([SIZE, SIZE, 3]), tf.constant("is damaged or cut off")
                raised += 1
            assert problems.numpy()[row] == problem.numpy()
            np.testing.assert_array_equal(pixels[row], expected)
        assert raised or name in ("animated gif", "bmp"), name  # or it would prove little
