"""A backbone of a few weights, whose features tell pictures apart."""

import keras
import numpy as np

from clarel_tf.images.backbones import Backbone


def tiny_backbone(width: int = 12, size: int = 32) -> Backbone:
    """Mean values of coloured patches through fixed weights, float32 [B, width]."""
    pixels = keras.Input((size, size, 3))
    layer = keras.layers.Conv2D(width, 8, strides=8, activation="relu")
    network = keras.Model(pixels, layer(pixels))
    rng = np.random.default_rng(0)
    layer.set_weights([rng.normal(size=(8, 8, 3, width)) / 14, rng.normal(size=width)])
    return Backbone(
        f"tiny_{width}", "0" * 64, size, "pixels / 127.5 - 1", lambda x: network(x / 127.5 - 1)
    )
