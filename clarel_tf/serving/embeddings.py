"""Embeds the images and sentences of a request, in core TensorFlow operations."""

import functools
from collections.abc import Callable

import tensorflow as tf

from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.refusals import of_width


def embed_images(model: Embedder, image_features: tf.Tensor) -> tf.Tensor:
    """Image features, float32 [B, D] -> float32 [B, E]; NaN and infinity are refused."""
    features = of_width(image_features, model.feature_size)
    checked = tf.debugging.check_numerics(features, "image_features must be finite")
    return with_finite_length(model.image_tower(checked), "image_features are too large")


def embed_texts(model: Embedder, text: tf.Tensor) -> tf.Tensor:
    """Sentences, string [S] -> float32 [S, E]."""
    return model.text_tower(model.text_tower.tokenize(text))


def text_graph(model: Embedder) -> Callable[[tf.Tensor], tf.Tensor]:
    """`embed_texts` of a model as a graph: it is traced once for all signatures that call it."""
    spec = tf.TensorSpec([None], tf.string)
    return tf.function(functools.partial(embed_texts, model), [spec], autograph=False)


def with_finite_length(vectors: tf.Tensor, message: str) -> tf.Tensor:
    """`vectors`, [N, E]; an error if a squared length overflows, since distances would be NaN."""
    squares = tf.reduce_sum(tf.square(vectors), axis=1)
    with tf.control_dependencies([tf.debugging.check_numerics(squares, message)]):
        return tf.identity(vectors)
