"""Networks of one's own in exported graphs: the C++ loader finds every variable, stored once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.images.extractor import Extractor
from clarel_tf.images.loading import load_backbone
from clarel_tf.serving.export import write_saved_model
from clarel_tf.serving.picture_graph import picture_graph
from tests.helpers import pictures
from tests.helpers.cpp_calls import ask_cpp

CONTENTS = [pictures.many_kinds()[name] for name in ("jpeg", "grey png", "gif")]


def own_network() -> keras.Model:
    """With batch norm and integer pixels, 40 x 40, and more weights than the graph is large."""
    pixels = keras.Input((40, 40, 3), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255)(pixels)
    x = keras.layers.Conv2D(64, 3, strides=2, activation="relu")(x)
    x = keras.layers.BatchNormalization()(x)
    return keras.Model(pixels, keras.layers.Conv2D(300, 5, activation="relu")(x))


@pytest.mark.parametrize(
    ("kind", "mirrored"),
    [pytest.param("keras", False, marks=pytest.mark.slow), ("saved_model", True)],
)
def test_an_own_network_in_the_graph(tmp_path, kind, mirrored):
    network, path = own_network(), tmp_path / ("own.keras" if kind == "keras" else "own")
    if kind == "keras":
        network.save(path)
    else:
        network.export(path, verbose=False)
    backbone = load_backbone(str(path), mirrored=mirrored)
    graph = picture_graph(backbone)
    spec = [tf.TensorSpec([None], tf.string, "image_bytes")]
    endpoint = (lambda image_bytes: {"features": graph(image_bytes)}, spec)
    write_saved_model(
        tmp_path / "e", {"serving_default": endpoint, "two": endpoint}, None, backbone
    )
    calls = [(name, {"image_bytes": CONTENTS}) for name in ("serving_default", "two")]
    extractor = Extractor(backbone)
    pixels = tf.stack([extractor.pixels_of(data, "it") for data in CONTENTS])
    for answer in ask_cpp(tmp_path / "e", tmp_path, calls):
        assert "error" not in answer, answer
        np.testing.assert_allclose(answer["features"], extractor.embed(pixels), atol=1e-4)
    weights = 4 * network.count_params()
    stored = sum(path.stat().st_size for path in (tmp_path / "e" / "variables").iterdir())
    assert weights < stored < 1.1 * weights
