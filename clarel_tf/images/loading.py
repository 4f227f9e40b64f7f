"""Makes a backbone by name: the default, a model of keras.applications, or a file of one's own."""

import difflib
from pathlib import Path

import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.images import efficientnet_lite2
from clarel_tf.images.backbones import Backbone, Views
from clarel_tf.images.keras_applications import load_application, model_names
from clarel_tf.images.own_networks import load_keras_file, load_saved_model

DEFAULT = "efficientnet_lite2"


def load_backbone(
    name: str = DEFAULT,
    input_size: int | None = None,
    weights: str | Path | None = None,
    mirrored: bool = True,
    cropped: bool = False,
) -> Backbone:
    """A backbone, ready to use.

    Args:
      name: `efficientnet_lite2`, a model of keras.applications such as `ResNet101`, or the path of
        a `.keras` file or of a SavedModel.
      input_size: height and width of the pixels; None is 320 for `efficientnet_lite2`, and for
        others the size that they were made for.
      weights: a file of weights for a model of keras.applications; None lets Keras fetch those of
        ImageNet.
      mirrored: takes the mean over the features of a picture and of its mirror image, in twice
        the time.
      cropped: shows the network only the middle of a picture, seven eighths of height and width.
    """
    if input_size is not None and not 32 <= input_size <= 2048:
        raise ClarelError(f"input_size {input_size} is not between 32 and 2048")
    views = Views(mirrored, cropped)
    if name in model_names():
        return load_application(name, input_size, Path(weights) if weights else None, views)
    if weights is not None:
        raise ClarelError(f"backbone {name} has its own weights; leave --weights out")
    if name == DEFAULT:
        return _default(input_size, views)
    path = Path(name)
    if path.is_dir():
        return load_saved_model(path, input_size, views)
    if path.suffix == ".keras":
        return load_keras_file(path, input_size, views)
    near = difflib.get_close_matches(name, [DEFAULT, *model_names()])
    raise ClarelError(
        f"unknown backbone {name!r}{': is it ' + ' or '.join(near) + '?' if near else ';'} give "
        f"{DEFAULT}, a model of keras.applications, a .keras file or the folder of a SavedModel"
    )


def _default(input_size: int | None, views: Views) -> Backbone:
    size = input_size or efficientnet_lite2.INPUT_SIZE
    network = efficientnet_lite2.build_network(size)

    def features(pixels: tf.Tensor) -> tf.Tensor:
        return network((pixels - 127.0) / 128.0, training=False)

    return Backbone(
        DEFAULT,
        efficientnet_lite2.WEIGHTS_SHA256,
        size,
        efficientnet_lite2.PREPROCESSING,
        features,
        views,
    )
