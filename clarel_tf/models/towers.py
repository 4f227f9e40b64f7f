"""The contract of the two towers: the interface of Keras layers that embed images or texts.

A custom tower is a subclass of `ImageTower` or `TextTower`, registered with Keras so that a saved
model can be loaded. Training, evaluation, saving and export use only this interface. Variables are
created in `__init__` or in `build`, which is called once with the shape of the input: (None,
input_size) or (None, max_tokens). `Clarel` tries both towers once (`tower_trial.py`)
and refuses what breaks the contract.

With several devices a tower sees only the rows of its replica. `replicas.RowDropout` draws the
masks of one device. A batch norm must sum over replicas with `replicas.sum_over_replicas`.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf


class ImageTower(keras.layers.Layer):
    """Embeds images in the joint space: float32 [B, input_size] -> float32 [B, embedding_size].

    A subclass sets both sizes, and defines `call(image_features, training=False)` and `get_config`.

    Attributes:
      input_size: D, width of the image features.
      embedding_size: E, the same as that of the text tower.

    Example:

    ```python
    @keras.saving.register_keras_serializable(package="mine")
    class LinearTower(ImageTower):
        def __init__(self, input_size, embedding_size, **kwargs):
            super().__init__(**kwargs)
            self.input_size, self.embedding_size = input_size, embedding_size
            self.head = keras.layers.Dense(embedding_size)

        def build(self, input_shape):
            self.head.build(input_shape)

        def call(self, image_features, training=False):
            return self.head(image_features)

        def get_config(self):
            sizes = {"input_size": self.input_size, "embedding_size": self.embedding_size}
            return {**super().get_config(), **sizes}
    ```
    """

    input_size: int
    embedding_size: int


class TextTower(keras.layers.Layer):
    """Embeds sentences in the joint space, and defines tokens, padding and unknown words.

    A subclass sets `embedding_size` and `max_tokens`, and defines `tokenize`, `get_config` and
    `call(token_ids, training=False)`: int32 [N, max_tokens] -> float32 [N, embedding_size]. A row
    with padding only means no caption. Its output has no meaning, but must be finite.

    Attributes:
      embedding_size: E, the same as that of the image tower.
      max_tokens: T, token ids of a sentence.
      padding_id: fills a row after its last token; never the first token of a sentence.
      unknown_id: id of a word outside the vocabulary; `word_dropout` inserts it.
      vocabulary: the words of the tower; empty if it has no list of words.
      frozen_words: True if word vectors come from a file and are not trained. Such a tower has
        `word_size` and `with_words`, so its vocabulary can be extended after training.

    Example:

    ```python
    @keras.saving.register_keras_serializable(package="mine")
    class HashTower(TextTower):
        def __init__(self, embedding_size, max_tokens, buckets=1000, **kwargs):
            super().__init__(**kwargs)
            self.embedding_size, self.max_tokens, self.buckets = embedding_size, max_tokens, buckets
            self.vectors = keras.layers.Embedding(2 + buckets, embedding_size)

        def build(self, input_shape):
            self.vectors.build(input_shape)

        def tokenize(self, texts):
            words = tf.strings.split(texts)
            ids = tf.strings.to_hash_bucket_fast(words, self.buckets)
            ids = tf.cast(ids.to_tensor(-2, shape=[None, self.max_tokens]), tf.int32) + 2
            is_empty = ids[:, :1] == self.padding_id
            return tf.concat([tf.where(is_empty, self.unknown_id, ids[:, :1]), ids[:, 1:]], 1)

        def call(self, token_ids, training=False):
            is_word = tf.cast(token_ids != self.padding_id, tf.float32)[:, :, tf.newaxis]
            return tf.reduce_sum(self.vectors(token_ids) * is_word, axis=1)

        def get_config(self):
            names = ("embedding_size", "max_tokens", "buckets")
            return {**super().get_config(), **{name: getattr(self, name) for name in names}}
    ```
    """

    embedding_size: int
    max_tokens: int
    padding_id: int = 0
    unknown_id: int = 1
    vocabulary: Sequence[str] = ()
    frozen_words: bool = False

    def tokenize(self, texts: tf.Tensor) -> tf.Tensor:
        """Sentences, string [N] -> int32 [N, max_tokens], with core TensorFlow operations only.

        It runs inside exported graphs. An empty sentence becomes the token `unknown_id`.
        """
        raise NotImplementedError

    def knows(self, token_ids: tf.Tensor) -> tf.Tensor:
        """True for tokens with a meaning for the tower: int32 [N, T] -> bool [N, T].

        Padding and unknown words are not known.
        """
        return (token_ids != self.padding_id) & (token_ids != self.unknown_id)

    def embed_means(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The mean embedding of the captions of each instance.

        Args:
          token_ids: int32 [B, K, T]; an instance with fewer than K captions has rows of padding.

        Returns:
          float32 [B, embedding_size].
        """
        flat = tf.reshape(token_ids, [-1, token_ids.shape[2]])
        shape = [-1, tf.shape(token_ids)[1], self.embedding_size]
        return self.mean_of_captions(tf.reshape(self(flat, training=training), shape), token_ids)

    def mean_of_captions(self, vectors: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
        """Means over the captions that are not padding: float32 [B, K, W] -> [B, W]."""
        is_caption = tf.cast(token_ids[:, :, :1] != self.padding_id, tf.float32)
        counts = tf.maximum(tf.reduce_sum(is_caption, axis=1), 1.0)
        return tf.reduce_sum(vectors * is_caption, axis=1) / counts

    def export_resources(self) -> list:
        """Layers and tables, besides variables, that an export must track.

        Examples are a lookup layer (built) and a `tf.lookup` table; weights do not belong here.
        """
        return []

    def with_words(self, words: Sequence[str], vectors: np.ndarray) -> "TextTower":
        """A copy with another vocabulary; only for a tower with `frozen_words`.

        Args:
          words: W words.
          vectors: float32 [W, word_size].
        """
        raise NotImplementedError
