"""A backbone of a few weights, whose features tell pictures apart."""

import keras
import numpy as np

from clarel_tf.images.backbones import Backbone


def tiny_network(width: int = 12, size: int = 32, seed: int = 0) -> keras.Model:
    """Patches through fixed weights: pixels from 0 to 255 to a map of `width` numbers."""
    pixels = keras.Input((size, size, 3))
    layer = keras.layers.Conv2D(width, 8, strides=8, activation="relu")
    network = keras.Model(pixels, layer(keras.layers.Rescaling(1 / 127.5, -1)(pixels)))
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=(8, 8, 3, width)) / 14, rng.normal(size=width)])
    return network


def tiny_backbone(width: int = 12) -> Backbone:
    network = tiny_network(width)
    return Backbone(f"tiny_{width}", "0" * 64, 32, "inside the network", network)
