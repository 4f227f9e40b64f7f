"""Pictures become the pixels that Pillow gives; what is no picture is told by its header."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

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
