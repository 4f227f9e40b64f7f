"""The standard text tower.

words -> two residual blocks -> bidirectional LSTM -> pooling -> linear layer
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.models.packed.layers import PackedResidualBlock, WordResidualBlock
from clarel_tf.models.packed.lstm import PackedBiLSTM
from clarel_tf.models.packed.packing import pack_captions
from clarel_tf.models.replicas import RowDropout
from clarel_tf.models.towers import TextTower
from clarel_tf.models.vocabulary import FIRST_WORD_ID, PADDING_ID, UNKNOWN_ID, Tokenizer


@keras.saving.register_keras_serializable(package="clarel_tf")
class CaptionTower(TextTower):
    """Splits captions into words and embeds them in the joint space.

    An unknown word has a zero vector. Frozen vectors keep it at zero. With trained vectors it is
    trained too, if `min_word_count` or `word_dropout` makes words of the training captions unknown.

    Example:

    >>> tower = clarel_tf.CaptionTower(["a", "red", "bird"], max_tokens=4, word_size=3,
    ...                                filters=(2, 2), lstm_units=2, embedding_size=4)
    >>> tower.tokenize(tf.constant(["a red bird", "a zebra"])).numpy().tolist()
    [[2, 3, 4, 0], [2, 1, 0, 0]]
    """

    padding_id = PADDING_ID
    unknown_id = UNKNOWN_ID

    def __init__(
        self,
        vocabulary: Sequence[str],
        max_tokens: int = 30,
        word_size: int = 300,
        filters: Sequence[int] = (128, 256),
        lstm_units: int = 512,
        embedding_size: int = 1024,
        dropout: float = 0.25,
        frozen_words: bool = False,
        momentum: float = 0.95,
        epsilon: float = 1e-6,
        l2: float = 0.001,
        pooling: str = "mean",
        **kwargs: Any,
    ):
        """Makes the layers; `build` makes their weights.

        Args:
          vocabulary: words, as `build_vocabulary` returns them.
          max_tokens: T; a caption is cut after that many words.
          frozen_words: keep the vectors of words as `set_word_vectors` sets them.
          pooling: see `PackedBiLSTM`.
        """
        super().__init__(**kwargs)
        if len(filters) != 2:
            raise ValueError(f"the packed layout is made for 2 residual blocks, not {len(filters)}")
        self.vocabulary, self.max_tokens = list(vocabulary), max_tokens
        self.word_size, self.embedding_size = word_size, embedding_size
        self.frozen_words, self.l2 = frozen_words, l2
        self._config = {
            "max_tokens": max_tokens,
            "word_size": word_size,
            "filters": tuple(filters),
            "lstm_units": lstm_units,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "frozen_words": frozen_words,
            "momentum": momentum,
            "epsilon": epsilon,
            "l2": l2,
            "pooling": pooling,
        }
        # XLA cannot compile it: the shapes of a packed batch depend on its captions.
        self.supports_jit = False
        self._vectors: np.ndarray | None = None
        self.tokenizer = Tokenizer(self.vocabulary, max_tokens, name="tokenizer")
        self.blocks = [
            kind(count, momentum, epsilon, l2, name=f"block_{i}")
            for i, (kind, count) in enumerate(
                zip((WordResidualBlock, PackedResidualBlock), filters, strict=True)
            )
        ]
        self.lstm = PackedBiLSTM(lstm_units, pooling, name="lstm")
        self.dropout = RowDropout(dropout, name="dropout")
        self.head = keras.layers.Dense(embedding_size, name="head")

    def build(self, input_shape: Any = None) -> None:
        size, width = len(self.vocabulary), self.word_size
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
            trainable=not self.frozen_words,
        )
        for block in self.blocks:
            block.build((None, width))
            width = block.filters
        self.lstm.build((None, width))
        self.head.build((None, self.lstm.output_width))
        if self._vectors is not None:
            self._assign_words(self._vectors)
            self._vectors = None

    def set_word_vectors(self, matrix: np.ndarray) -> None:
        """Sets the vectors of the words, float32 [words, word_size], now or in `build`."""
        if self.built:
            self._assign_words(matrix)
        else:
            self._vectors = matrix

    def _assign_words(self, matrix: np.ndarray) -> None:
        zeros = np.zeros((FIRST_WORD_ID, matrix.shape[1]), np.float32)
        self.words.assign(np.concatenate([zeros, matrix]))

    def with_words(self, words: Sequence[str], vectors: np.ndarray) -> "CaptionTower":
        """A copy with another vocabulary: W words and their vectors, float32 [W, word_size]."""
        copy = CaptionTower.from_config({**self.get_config(), "vocabulary": list(words)})
        copy.build()
        for old, new in zip(self.variables, copy.variables, strict=True):
            if old is not self.words:
                new.assign(old)
        copy.set_word_vectors(vectors)
        return copy

    def tokenize(self, texts: tf.Tensor) -> tf.Tensor:
        """Sentences, string [N] -> int32 [N, max_tokens], padded with 0 on the right."""
        return self.tokenizer(texts)

    def knows(self, token_ids: tf.Tensor) -> tf.Tensor:
        """True for words with an id and, if vectors are frozen, with a vector, bool [N, T]."""
        known = super().knows(token_ids)
        if not self.frozen_words:
            return known
        words, rows = tf.unique(tf.reshape(token_ids, [-1]))
        has_vector = tf.reduce_any(tf.gather(self.words, words) != 0.0, axis=1)
        return known & tf.reshape(tf.gather(has_vector, rows), tf.shape(token_ids))

    def export_resources(self) -> list:
        """The lookup table of the words; the tokeniser has no other state."""
        self.tokenize(tf.constant([""]))  # TensorFlow cannot track a layer that was never called
        return [self.tokenizer.lookup]

    def call(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """int32 [N, T], padded with 0 on the right -> float32 [N, embedding_size].

        A row of zeros means no caption; its output has no meaning.
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
        # The head is linear, so taking the mean before it gives the same with K times less work.
        return self.head(self.mean_of_captions(read, token_ids))

    def _read(self, token_ids: tf.Tensor, training: bool) -> tf.Tensor:
        """The input of the head: int32 [N, T] -> float32 [N, W]; W is 2 or 4 times lstm_units."""
        captions = pack_captions(token_ids)
        words, rows = tf.unique(captions.token_ids)
        is_word = tf.cast(words[:, tf.newaxis] != PADDING_ID, tf.float32)
        vectors = tf.gather(self.words, words) * is_word
        masks, pools = captions.masks, captions.pools
        x = self.blocks[0](vectors, rows, masks[0], pools[0], training=training)
        x = self.blocks[1](x, masks[1], pools[1], training=training)
        x = self.lstm(x, captions.steps, training=training)
        return self.dropout(x, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config, "vocabulary": list(self.vocabulary)}
