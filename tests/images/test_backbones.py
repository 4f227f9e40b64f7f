"""Backbones: the default equals the original, others by name or file; records keep them apart."""

import os
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.images import efficientnet_lite2
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.images.loading import load_backbone

DATA = os.environ.get("CLAREL_DATA")
# Features 0 to 5 of `waves(260)`, then mean, deviation and maximum of all.
WAVES = [0.000000, 0.387679, 1.320495, 0.000000, 0.000000, 0.000000, 0.174547, 0.469927, 4.495875]


@pytest.fixture(scope="module")
def lite2():
    """As it was made: 260 pixels, one view."""
    return load_backbone(input_size=260, mirrored=False)


def waves(size: int) -> np.ndarray:
    """A picture of coloured waves, float32 [1, size, size, 3] from 0 to 255."""
    x, y = np.meshgrid(np.linspace(0, 20, size), np.linspace(0, 12, size))
    channels = [np.sin(x + y), np.cos(x - y), np.sin(x * y / 9)]
    return (np.stack(channels, -1)[None] * 127 + 127).astype(np.float32)


@pytest.mark.skipif(not DATA, reason="needs CLAREL_DATA with backbone/")
def test_the_default_network_equals_the_original(lite2):
    reference = np.load(
        Path(DATA, "backbone", "efficientnet_lite2_reference.npz"), allow_pickle=False
    )
    found = lite2.features(tf.constant(reference["pixels"], tf.float32)).numpy()
    np.testing.assert_allclose(found, reference["features"], atol=1e-5)


def test_the_default_network_is_what_it_was(lite2):
    """Figures of the network that equals the original."""
    found = lite2.features(tf.constant(waves(260))).numpy()[0]
    assert (lite2.input_size, lite2.feature_width) == (260, 1280)
    np.testing.assert_allclose(found[:6], WAVES[:6], atol=1e-4)
    np.testing.assert_allclose([found.mean(), found.std(), found.max()], WAVES[6:], atol=1e-4)


def test_another_size_mirroring_and_cropping():
    plain, mirrored = load_backbone(input_size=128, mirrored=False), load_backbone(input_size=128)
    picture = tf.constant(waves(128))
    turned = tf.reverse(picture, [2])
    mean = (plain.features(picture) + plain.features(turned)) / 2
    np.testing.assert_allclose(mirrored.features(picture), mean, atol=1e-5)
    np.testing.assert_allclose(mirrored.features(turned), mean, atol=1e-5)
    assert np.abs(plain.features(picture) - mean).max() > 0.01
    with pytest.raises(ClarelError, match="mirrored False and True"):
        plain.record.check_same(mirrored.record, "a.npz", "b.npz")
    cropped = load_backbone(input_size=128, cropped=True)
    assert cropped.input_size == 146  # 128 is seven eighths of it
    wide = tf.random.stateless_uniform([1, 146, 146, 3], [1, 2], maxval=255.0)
    wide = tf.concat(
        [
            wide[:, :9],
            tf.concat([wide[:, 9:137, :9], picture, wide[:, 9:137, 137:]], 2),
            wide[:, 137:],
        ],
        1,
    )
    np.testing.assert_allclose(cropped.features(wide), mean, atol=1e-5)
    assert (cropped.record.input_size, cropped.record.cropped) == (128, True)
    assert str(cropped.record) == "efficientnet_lite2 at 128 pixels, cropped, mirrored"
    with pytest.raises(ClarelError, match="cropped False and True"):
        mirrored.record.check_same(cropped.record, "a.npz", "b.npz")
    with pytest.raises(ClarelError, match="input_size 9 is not between"):
        load_backbone(input_size=9)


def test_a_record_survives_its_file(lite2):
    record = lite2.record
    assert BackboneRecord.from_json(record.to_json(), "f.npz") == record
    record.check_same(record, "a", "b")
    for text in ("[]", "{", "{}", '{"name": 1}'):
        with pytest.raises(ClarelError, match=r"f\.npz"):
            BackboneRecord.from_json(text, "f.npz")


def test_damaged_weights_are_refused(tmp_path):
    changed = bytearray(efficientnet_lite2.weights_path().read_bytes())
    changed[-1] ^= 1
    (tmp_path / "w.pth").write_bytes(changed)
    with pytest.raises(ClarelError, match=r"w\.pth does not hold the expected weights"):
        efficientnet_lite2.build_network(260, tmp_path / "w.pth")


@pytest.mark.parametrize("with_classifier", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_model_of_keras_applications_with_weights_of_a_file(tmp_path, with_classifier):
    """Its own preprocessing, and the weights whether or not the classifier is in the file."""
    keras.utils.set_random_seed(with_classifier)
    original = keras.applications.MobileNetV2(weights=None, include_top=with_classifier)
    path = tmp_path / "mobilenet.weights.h5"
    original.save_weights(path)
    backbone = load_backbone("MobileNetV2", input_size=96, weights=path, mirrored=False)
    assert backbone.record.preprocessing == "keras.applications.mobilenet_v2.preprocess_input"
    body = keras.Model(original.input, original.get_layer("out_relu").output)
    picture = tf.constant(waves(96))
    smaller = keras.applications.MobileNetV2(
        weights=None, include_top=False, input_shape=(96, 96, 3)
    )
    smaller.set_weights(body.get_weights())
    expected = tf.reduce_mean(smaller(picture / 127.5 - 1), [1, 2])
    np.testing.assert_allclose(backbone.features(picture), expected, atol=1e-5)
    (tmp_path / "mobilenet.weights.h5").write_bytes(b"text")
    with pytest.raises(ClarelError, match=r"weights\.h5 does not hold weights of"):
        load_backbone("MobileNetV2", input_size=96, weights=path)


def test_every_application_has_preprocessing_and_a_size():
    from clarel_tf.images import keras_applications

    names = keras_applications.model_names()
    assert {"ResNet101", "ResNet50", "ConvNeXtTiny"} <= set(names)
    assert set(keras_applications._NATIVE) <= set(names)
    for name in names:
        module = getattr(keras.applications, name).__module__.rpartition(".")[2]
        assert callable(getattr(keras.applications, module).preprocess_input)


def own_network(size=40) -> keras.Model:
    pixels = keras.Input((size, size, 3))
    x = keras.layers.Rescaling(1 / 255)(pixels)
    return keras.Model(pixels, keras.layers.Conv2D(5, 3, activation="relu")(x))


def test_own_networks(tmp_path):
    """A .keras file and a SavedModel of the same network give the same features."""
    network = own_network()
    network.save(tmp_path / "own.keras")
    network.export(tmp_path / "own", verbose=False)
    picture = tf.constant(waves(40))
    expected = tf.reduce_mean(network(picture), [1, 2])
    for name in ("own.keras", "own"):
        backbone = load_backbone(str(tmp_path / name), mirrored=False)
        assert (backbone.record.name, backbone.feature_width) == (name, 5)
        np.testing.assert_allclose(backbone.features(picture), expected, atol=1e-5)
        with pytest.raises(ClarelError, match="takes pictures of 40 pixels, not of 64"):
            load_backbone(str(tmp_path / name), input_size=64)


def test_code_in_a_keras_file_is_refused(tmp_path):
    pixels = keras.Input((40, 40, 3))
    keras.Model(pixels, keras.layers.Lambda(lambda x: x + 1)(pixels)).save(tmp_path / "evil.keras")
    with pytest.raises(ClarelError, match=r"evil\.keras is refused.*[Ll]ambda"):
        load_backbone(str(tmp_path / "evil.keras"))


def test_what_is_no_backbone_is_refused(tmp_path):
    (tmp_path / "text.keras").write_text("text")
    with pytest.warns(UserWarning, match="not yet been built"):
        keras.Sequential([keras.layers.Conv2D(5, 3)]).save(tmp_path / "unbuilt.keras")
    (tmp_path / "folder").mkdir()
    pixels = keras.Input((40, 30, 3))
    keras.Model(pixels, keras.layers.Flatten()(pixels)).save(tmp_path / "oblong.keras")
    any_size = keras.Input((None, None, 3))
    keras.Model(any_size, any_size * 2).save(tmp_path / "any.keras")
    for name, options, message in (
        (tmp_path / "unbuilt.keras", {}, r"unbuilt\.keras does not say what it takes"),
        (tmp_path / "text.keras", {}, r"text\.keras is refused, or damaged"),
        (tmp_path / "absent.keras", {}, r"cannot read .*absent\.keras: No such file"),
        (tmp_path / "folder", {}, r"folder is no SavedModel"),
        (tmp_path / "oblong.keras", {}, "not square pictures"),
        (tmp_path / "any.keras", {}, "pictures of any size; give one with --input_size"),
        ("Resnet101", {}, "unknown backbone 'Resnet101': is it ResNet101 or "),
        ("efficientnet_lite2", {"weights": "w.h5"}, "has its own weights"),
        ("ResNet50", {"weights": tmp_path / "absent.h5"}, r"cannot read .*absent\.h5"),
    ):
        with pytest.raises(ClarelError, match=message):
            load_backbone(str(name), **options)
