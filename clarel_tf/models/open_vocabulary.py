"""Extends a model with frozen word vectors to all words of the vector file."""

import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.vocabulary import standardize
from clarel_tf.storage.word_vectors import iterate_vectors


def with_all_words(model: Clarel | Ensemble, word_vectors: str) -> Clarel | Ensemble:
    """A copy of `model` whose vocabulary is that of the vector file it was trained with.

    Words that cannot occur in a standardised sentence (capitals, punctuation) are left out. The
    copy shares the image tower.
    """
    if not model.text_tower.frozen_words:
        raise ClarelError(
            "only a model with frozen word vectors can take words that it was not trained on"
        )
    vectors = _usable_vectors(word_vectors)
    if not vectors:
        raise ClarelError(f"{word_vectors} has no word that a sentence could have")
    if isinstance(model, Ensemble):
        return Ensemble([_with_words(member, vectors, word_vectors) for member in model.members])
    return _with_words(model, vectors, word_vectors)


def _with_words(model: Clarel, vectors: dict[str, np.ndarray], source: str) -> Clarel:
    matrix = np.stack(list(vectors.values()))
    tower = model.text_tower
    if matrix.shape[1] != tower.word_size:
        raise ClarelError(
            f"{source}: vectors are {matrix.shape[1]} wide, but the model was trained with "
            f"{tower.word_size}"
        )
    wider_tower = tower.with_words(list(vectors), matrix)
    wider = Clarel(model.image_tower, wider_tower, model.num_classes, model.loss_settings)
    for name in ("text_classifier", "image_classifier"):
        getattr(wider, name).set_weights(getattr(model, name).get_weights())
    return wider


def _usable_vectors(path: str) -> dict[str, np.ndarray]:
    """The vectors of words that standardise to themselves; the first one of a repeated word."""
    vectors: dict[str, np.ndarray] = {}
    block: dict[bytes, np.ndarray] = {}

    def keep() -> None:
        words = list(block)
        cleaned = standardize(tf.constant(words, tf.string)).numpy() if words else []
        for word, clean in zip(words, cleaned, strict=True):
            if word == clean and b" " not in word:
                vectors.setdefault(word.decode("utf-8"), block[word])
        block.clear()

    for word, vector in iterate_vectors(path):
        block.setdefault(word, vector)
        if len(block) == 50_000:
            keep()
    keep()
    return vectors
