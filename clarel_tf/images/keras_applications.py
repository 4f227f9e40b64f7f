"""Backbones of keras.applications, by name, each with the preprocessing of its module."""

import hashlib
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from clarel_tf.errors import ClarelError, brief
from clarel_tf.images.backbones import Backbone, Views
from clarel_tf.storage import files

# Input sizes other than 224.
_NATIVE = {
    **{
        f"EfficientNetB{n}": size for n, size in enumerate((224, 240, 260, 300, 380, 456, 528, 600))
    },
    **{f"EfficientNetV2B{n}": size for n, size in enumerate((224, 240, 260, 300))},
    **{"EfficientNetV2S": 384, "EfficientNetV2M": 480, "EfficientNetV2L": 480},
    **{"InceptionResNetV2": 299, "InceptionV3": 299, "Xception": 299, "NASNetLarge": 331},
}


def model_names() -> list[str]:
    """All models of keras.applications."""
    return [name for name in dir(keras.applications) if name[0].isupper()]


def load_application(
    name: str, input_size: int | None = None, weights: Path | None = None, views: Views = Views()
) -> Backbone:
    """The backbone of a model of keras.applications.

    Args:
      weights: a file of its weights, with or without the classifier; None lets Keras fetch those of
        ImageNet.
    """
    make = getattr(keras.applications, name)
    module = make.__module__.rpartition(".")[2]
    preprocess = getattr(keras.applications, module).preprocess_input
    size = input_size or _NATIVE.get(name, 224)
    network = _make(make, size, "imagenet" if weights is None else None, name)
    if weights is not None:
        _read_weights(network, make, weights)
    network.trainable = False

    def features(pixels: tf.Tensor) -> tf.Tensor:
        return network(preprocess(pixels), training=False)

    preprocessing = f"keras.applications.{module}.preprocess_input"
    return Backbone(name, _hash_of(network), size, preprocessing, features, views)


def _make(make: Any, size: int, weights: str | None, name: str) -> keras.Model:
    try:
        return make(include_top=False, weights=weights, pooling="avg", input_shape=(size, size, 3))
    except Exception as error:  # no network, a size that is too small, ...
        hint = "; give a file of weights with --weights" if weights else ""
        raise ClarelError(
            f"cannot make backbone {name} at {size} pixels ({brief(error)}){hint}"
        ) from error


def _read_weights(network: keras.Model, make: Any, path: Path) -> None:
    """Reads a file of weights that Keras wrote, with or without the classifier."""
    try:
        files.open_regular(path).close()
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    try:
        network.load_weights(path)
        return
    except Exception as error:  # of a whole network, or damaged
        without_classifier = error
    try:
        whole = make(include_top=True, weights=None)
        whole.load_weights(path)
    except Exception as error:
        raise ClarelError(
            f"{path} does not hold weights of {network.name} ({brief(without_classifier)})"
        ) from error
    # The classifier comes last, so the other layers are in the same order.
    mine, its = ([layer for layer in model.layers if layer.weights] for model in (network, whole))
    for layer, source in zip(mine, its[: len(mine)], strict=True):
        layer.set_weights(source.get_weights())


def _hash_of(network: keras.Model) -> str:
    """The SHA-256 of all weights in order, whatever kind of file they came in."""
    digest = hashlib.sha256()
    for array in network.get_weights():
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
