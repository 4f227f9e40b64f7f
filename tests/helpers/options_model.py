"""A classifier saved with `classify_with_options` alone, and requests to it for `ask_cpp`."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from clarel_tf.serving.export import write_saved_model
from clarel_tf.serving.signatures import PrototypeClassifier

TEXTS = ("among", "sentences", "class_names", "replaces", "extends")


def save_with_options(classifier: PrototypeClassifier, model, path: Path) -> None:
    spec = {
        "image_features": tf.TensorSpec([None, model.feature_size], tf.float32),
        "alpha": tf.TensorSpec([None], tf.float32),
        "k": tf.TensorSpec([None], tf.int32),
        **{name: tf.TensorSpec([None], tf.string) for name in TEXTS},
        "threshold": tf.TensorSpec([None], tf.float32),
    }
    specs = [tf.TensorSpec(one.shape, one.dtype, name) for name, one in spec.items()]
    write_saved_model(path, {"options": (classifier.classify_with_options, specs)}, model)


def request(images: np.ndarray, new: dict[str, list[str]] | None = None, **options):
    """A call for `ask_cpp`; `new`: class name -> sentences."""
    new = new or {}
    inputs = {
        "image_features": images,
        "alpha": np.zeros(0, np.float32),
        "k": np.zeros(0, np.int32),
        "among": [],
        "sentences": [text for own in new.values() for text in own],
        "class_names": [name for name, own in new.items() for _ in own],
        "replaces": [],
        "extends": [],
        "threshold": np.zeros(0, np.float32),
    }
    return "options", inputs | options
