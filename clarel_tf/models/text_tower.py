"""The text tower: words -> two residual blocks -> bidirectional LSTM -> pooling -> linear layer."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.models.packed.layers import PackedResidualBlock, WordResidualBlock
from clarel_tf.models.packed.lstm import PackedBiLSTM
from clarel_tf.models.packed.packing import pack_captions
from clarel_tf.models.replicas import RowDropout
from clarel_tf.models.vocabulary import FIRST_WORD_ID, PADDING_ID


@keras.saving.register_keras_serializable(package="clarel_tf")
class TextTower(keras.layers.Layer):
    """Embeds captions, given as token ids, in the joint space.

    An unknown word has a zero vector. With frozen vectors it keeps that; with trained ones it
    moves only if `min_word_count` or `word_dropout` makes words of the training captions unknown.
    """

    def __init__(
        self,
        vocabulary_size: int,
        word_size: int = 300,
        filters: Sequence[int] = (128, 256),
        lstm_units: int = 512,
        embedding_size: int = 1024,
        dropout: float = 0.25,
        train_words: bool = True,
        momentum: float = 0.95,
        epsilon: float = 1e-6,
        l2: float = 0.001,
        pooling: str = "mean",
        **kwargs,
    ):
        """`vocabulary_size` counts words; the ids of padding and unknown come on top.

        `pooling` is that of `PackedBiLSTM`.
        """
        super().__init__(**kwargs)
        if len(filters) != 2:
            raise ValueError(f"the packed layout is made for 2 residual blocks, not {len(filters)}")
        self._config = {
            "vocabulary_size": vocabulary_size,
            "word_size": word_size,
            "filters": tuple(filters),
            "lstm_units": lstm_units,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "train_words": train_words,
            "momentum": momentum,
            "epsilon": epsilon,
            "l2": l2,
            "pooling": pooling,
        }
        # The shapes of a packed batch depend on its captions, which XLA cannot compile.
        self.supports_jit = False
        self.blocks = [
            kind(count, momentum, epsilon, l2, name=f"block_{i}")
            for i, (kind, count) in enumerate(
                zip((WordResidualBlock, PackedResidualBlock), filters, strict=True)
            )
        ]
        self.lstm = PackedBiLSTM(lstm_units, pooling, name="lstm")
        self.dropout = RowDropout(dropout, name="dropout")
        self.head = keras.layers.Dense(embedding_size, name="head")

    def build(self, input_shape=None):
        size = self._config["vocabulary_size"]
        width = self._config["word_size"]
        self.words = self.add_weight(
            name="words",
            shape=(FIRST_WORD_ID + size, width),
            initializer=lambda shape, dtype: tf.concat(
                [
                    tf.zeros([FIRST_WORD_ID, width], dtype),
                    keras.random.uniform([size, width], -0.25, 0.25, dtype),
                ],
                axis=0,
            ),
            trainable=self._config["train_words"],
        )
        for block in self.blocks:
            block.build((None, width))
            width = block.filters
        self.lstm.build((None, width))
        self.head.build((None, self.lstm.output_width))

    def set_word_vectors(self, matrix: np.ndarray) -> None:
        """Puts vectors, float32 [vocabulary_size, word_size], behind the words."""
        zeros = np.zeros((FIRST_WORD_ID, matrix.shape[1]), np.float32)
        self.words.assign(np.concatenate([zeros, matrix]))

    def call(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """int32 [N, T], padded with 0 on the right -> float32 [N, embedding_size].

        A row of zeros stands for no caption; what comes out there means nothing.
        """
        return self.head(self._read(token_ids, training))

    def embed_means(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The mean embedding of the captions of each instance.

        Args:
          token_ids: int32 [B, K, T]; an instance with fewer than K captions has rows of zeros.

        Returns:
          float32 [B, embedding_size].
        """
        captions = tf.shape(token_ids)[1]
        read = self._read(tf.reshape(token_ids, [-1, token_ids.shape[2]]), training)
        read = tf.reshape(read, [-1, captions, read.shape[1]])
        is_caption = tf.cast(token_ids[:, :, :1] != PADDING_ID, tf.float32)
        counts = tf.maximum(tf.reduce_sum(is_caption, axis=1), 1.0)
        # The head is linear, so the mean may be taken before it: K times less work.
        return self.head(tf.reduce_sum(read * is_caption, axis=1) / counts)

    def _read(self, token_ids: tf.Tensor, training: bool) -> tf.Tensor:
        """int32 [N, T] -> float32 [N, W], what the head is given: 2 * lstm_units, or 4 times."""
        captions = pack_captions(token_ids)
        words, rows = tf.unique(captions.token_ids)
        is_word = tf.cast(words[:, tf.newaxis] != PADDING_ID, tf.float32)
        vectors = tf.gather(self.words, words) * is_word
        masks, pools = captions.masks, captions.pools
        x = self.blocks[0](vectors, rows, masks[0], pools[0], training=training)
        x = self.blocks[1](x, masks[1], pools[1], training=training)
        x = self.lstm(x, captions.steps, training=training)
        return self.dropout(x, training=training)

    def get_config(self):
        return {**super().get_config(), **self._config}
