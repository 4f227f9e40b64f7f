"""Several trained models as one: their embeddings side by side.

Models that differ in their seed alone err in part each in its own way. Side by side, divided by the
root of their number, their embeddings are those of one model with a wider joint space: a distance
is the quadratic mean of the members' distances, the logits of the image head are the mean of
theirs. So everything that works with one model works with several: evaluation, discriminants,
files, export.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.embedder import Embedder


class SideBySide(keras.layers.Layer):
    """M towers with the same input: [N, ...] -> float32 [N, M * E]."""

    def __init__(self, towers: Sequence[keras.layers.Layer], **kwargs):
        super().__init__(**kwargs)
        self.supports_jit = all(tower.supports_jit for tower in towers)
        self.towers = list(towers)
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        embeddings = [tower(inputs, training=False) for tower in self.towers]
        return tf.concat(embeddings, axis=1) / math.sqrt(len(self.towers))


@keras.saving.register_keras_serializable(package="clarel_tf")
class Ensemble(Embedder):
    """Trained models of the same classes, images and words; it is not trained itself."""

    def __init__(self, members: Sequence[Clarel | dict[str, Any]], **kwargs):
        """Takes the members, or what their `get_config` gave."""
        kwargs.setdefault("name", "ensemble")
        super().__init__(**kwargs)
        models = [Clarel(**member) if isinstance(member, dict) else member for member in members]
        _refuse_differences(models)
        first, count = models[0], len(models)
        self.members = models
        self.vocabulary, self.frozen_words = first.vocabulary, first.frozen_words
        self.feature_size, self.num_classes = first.feature_size, first.num_classes
        width = sum(model.model_settings.embedding_size for model in models)
        self.model_settings = dataclasses.replace(first.model_settings, embedding_size=width)
        self.tokenizer = first.tokenizer
        self.image_tower = SideBySide([model.image_tower for model in models], name="image_tower")
        self.text_tower = SideBySide([model.text_tower for model in models], name="text_tower")
        heads = [model.image_classifier for model in models]
        self.image_classifier = keras.layers.Dense(self.num_classes, name="image_classifier")
        self.image_classifier.build((None, width))
        # Embeddings are divided by the root of the number of members, and logits by the number.
        kernels = np.concatenate([head.kernel.numpy() for head in heads])
        self.image_classifier.set_weights(
            [kernels / math.sqrt(count), np.mean([head.bias.numpy() for head in heads], axis=0)]
        )
        self.built = True
        self.compile_embedders()

    def get_config(self) -> dict[str, Any]:
        return {"members": [model.get_config() for model in self.members], "name": self.name}


def _refuse_differences(models: Sequence[Clarel]) -> None:
    if not models:
        raise ClarelError("an ensemble needs a model at least")
    for what, value in {
        "words": lambda model: model.vocabulary,
        "image features": lambda model: model.feature_size,
        "number of classes": lambda model: model.num_classes,
        "max_tokens": lambda model: model.model_settings.max_tokens,
    }.items():
        if any(value(model) != value(models[0]) for model in models):
            raise ClarelError(f"models that differ in their {what} cannot be put side by side")
