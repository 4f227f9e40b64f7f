"""`Ensemble`: several trained models as one, with concatenated embeddings.

Models that differ only in their seed make partly different mistakes. Their embeddings are
concatenated and divided by the square root of their number. A distance is then the quadratic mean
of the members' distances. The logits of the image head are the mean of the members' logits. So
evaluation, LDA, saving and export work with an ensemble as with one model.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.embedder import Embedder
from clarel_tf.models.towers import ImageTower, TextTower

_PROBES = (
    *("", " ", "a", "A", "bird", "BIRD", "birds", "red", "blue", "flower", "petals", "yellow"),
    *("unheardofword", "zqx", "wing-bar", "bird's", "bird,", ",", "!", "...", "42", "naïve", "鳥"),
    *("a bird", "a  bird", "a\tbird", "a small bird. it is red, with a black-and-white crown!"),
)


class ImagesSideBySide(ImageTower):
    """M image towers with the same input: float32 [N, D] -> float32 [N, M * E]."""

    def __init__(self, towers: Sequence[ImageTower], **kwargs: Any):
        super().__init__(**kwargs)
        _join(self, towers)
        self.input_size = towers[0].input_size

    def call(self, image_features: tf.Tensor, training: bool = False) -> tf.Tensor:
        return _embed_side_by_side(self.towers, image_features)


class TextsSideBySide(TextTower):
    """M text towers with the same tokens: int32 [N, T] -> float32 [N, M * E]."""

    def __init__(self, towers: Sequence[TextTower], **kwargs: Any):
        super().__init__(**kwargs)
        _join(self, towers)
        first = towers[0]
        self.max_tokens, self.vocabulary = first.max_tokens, first.vocabulary
        self.padding_id, self.unknown_id = first.padding_id, first.unknown_id
        self.frozen_words = all(tower.frozen_words for tower in towers)

    def tokenize(self, texts: tf.Tensor) -> tf.Tensor:
        return self.towers[0].tokenize(texts)

    def knows(self, token_ids: tf.Tensor) -> tf.Tensor:
        return self.towers[0].knows(token_ids)

    def call(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        return _embed_side_by_side(self.towers, token_ids)

    def export_resources(self) -> list:
        return [resource for tower in self.towers for resource in tower.export_resources()]


def _join(tower: ImageTower | TextTower, parts: Sequence[keras.layers.Layer]) -> None:
    tower.supports_jit = all(part.supports_jit for part in parts)
    tower.towers = list(parts)
    tower.embedding_size = sum(part.embedding_size for part in parts)
    tower.built = True


def _embed_side_by_side(towers: Sequence[keras.layers.Layer], inputs: tf.Tensor) -> tf.Tensor:
    embeddings = [tower(inputs, training=False) for tower in towers]
    return tf.concat(embeddings, axis=1) / math.sqrt(len(towers))


@keras.saving.register_keras_serializable(package="clarel_tf")
class Ensemble(Embedder):
    """An ensemble of trained models with the same classes, image features and tokens.

    Example:

    >>> small = clarel_tf.ModelConfig(embedding_size=4, word_size=3, filters=(2, 2), lstm_units=2)
    >>> members = [
    ...     clarel_tf.Clarel(*clarel_tf.standard_towers(small, ["a", "bird"], 5), num_classes=3)
    ...     for _ in range(2)
    ... ]
    >>> clarel_tf.Ensemble(members).embed_texts(["a bird"]).shape
    (1, 8)
    """

    def __init__(self, members: Sequence[Clarel | dict[str, Any]], **kwargs: Any):
        """Takes the members, or their configs (`get_config`)."""
        kwargs.setdefault("name", "ensemble")
        super().__init__(**kwargs)
        models = [_as_model(member) for member in members]
        _refuse_differences(models)
        self.members, self.num_classes = models, models[0].num_classes
        self.image_tower = ImagesSideBySide([m.image_tower for m in models], name="image_tower")
        self.text_tower = TextsSideBySide([m.text_tower for m in models], name="text_tower")
        heads = [model.image_classifier for model in models]
        self.image_classifier = keras.layers.Dense(self.num_classes, name="image_classifier")
        self.image_classifier.build((None, self.embedding_size))
        # Embeddings are divided by the square root of the number of members, logits by the number.
        kernels = np.concatenate([head.kernel.numpy() for head in heads])
        biases = [head.bias.numpy() for head in heads]
        self.image_classifier.set_weights(
            [kernels / math.sqrt(len(heads)), np.mean(biases, axis=0)]
        )
        self.built = True
        self.compile_embedders()

    def get_config(self) -> dict[str, Any]:
        return {"members": [model.get_config() for model in self.members], "name": self.name}


def _as_model(member: Any) -> Clarel:
    """A member, or the member that a config describes."""
    if isinstance(member, Clarel):
        return member
    if isinstance(member, dict) and "members" not in member:
        return Clarel.from_config(member)
    kind = Ensemble.__name__ if isinstance(member, dict) else type(member).__name__
    raise ClarelError(
        f"a member of an ensemble must be a Clarel model, not {kind}"
        + ("; give the members of that ensemble (its `members`) instead" * (kind == "Ensemble"))
    )


def _refuse_differences(models: Sequence[Clarel]) -> None:
    if not models:
        raise ClarelError("an ensemble needs a model at least")
    for what, value in {
        "kind of text tower": lambda model: type(model.text_tower),
        "words": lambda model: list(model.text_tower.vocabulary),
        "image features": lambda model: model.feature_size,
        "number of classes": lambda model: model.num_classes,
        "max_tokens": lambda model: model.text_tower.max_tokens,
        "padding_id": lambda model: model.text_tower.padding_id,
        "unknown_id": lambda model: model.text_tower.unknown_id,
        "token ids of the same sentences": lambda model: _probe_ids(model.text_tower),
    }.items():
        if any(value(model) != value(models[0]) for model in models):
            raise ClarelError(f"models that differ in their {what} cannot form an ensemble")


def _probe_ids(tower: TextTower) -> list[list[int]]:
    """Token ids of sentences that tell tokenisers apart; one word each, as a long one is cut."""
    words = [*tower.vocabulary[:16], *tower.vocabulary[-16:], *_PROBES]
    return tower.tokenize(tf.constant(words)).numpy().tolist()
