"""`Embedder`, the base class of models: embeds images and texts in batches."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.towers import ImageTower, TextTower


class Embedder(keras.Model):
    """Two towers and an image head; a subclass calls `compile_embedders` at the end of `__init__`.

    Attributes:
      image_tower: float32 [B, D] -> float32 [B, E].
      text_tower: string [N] -> int32 [N, T] -> float32 [N, E].
      image_classifier: float32 [B, E] -> float32 [B, K], logits of the K training classes.
    """

    image_tower: ImageTower
    text_tower: TextTower
    image_classifier: keras.layers.Dense

    @property
    def feature_size(self) -> int:
        """D, width of the image features."""
        return self.image_tower.input_size

    @property
    def embedding_size(self) -> int:
        """E, width of the joint space."""
        return self.image_tower.embedding_size

    def embed_images(self, image_features: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Image features, [N, D] -> embeddings, float32 [N, E]."""
        features = np.asarray(image_features, np.float32)
        if features.ndim != 2 or features.shape[1] != self.feature_size:
            raise ClarelError(
                f"image features must have shape [N, {self.feature_size}], "
                f"not {list(features.shape)}"
            )
        return self._in_batches(self._embed_image_batch, features, batch_size)

    def embed_texts(self, texts: Sequence[str | bytes], batch_size: int = 2048) -> np.ndarray:
        """N sentences -> embeddings, float32 [N, E]."""
        if isinstance(texts, (str, bytes)):
            raise ClarelError("embed_texts takes a list of sentences, not a single one")
        encoded = [
            text.encode("utf-8", "replace") if isinstance(text, str) else text for text in texts
        ]
        rows = np.array(encoded, object)
        return self._in_batches(self._embed_text_batch, rows, batch_size)

    def embed_token_ids(self, token_ids: np.ndarray, batch_size: int = 2048) -> np.ndarray:
        """Token ids, int32 [N, T] -> embeddings, float32 [N, E]."""
        return self._in_batches(self._embed_token_batch, token_ids, batch_size)

    def compile_embedders(self) -> None:
        """Compiles one graph for each kind of input, for any batch size."""
        features = tf.TensorSpec([None, self.feature_size], tf.float32)
        tokens = tf.TensorSpec([None, self.text_tower.max_tokens], tf.int32)
        self._embed_image_batch = tf.function(self.image_tower.__call__, [features])
        self._embed_token_batch = tf.function(self.text_tower.__call__, [tokens])
        # It calls the graph of token ids, so that the text tower is traced once.
        self._embed_text_batch = tf.function(
            lambda texts: self._embed_token_batch(
                tf.ensure_shape(self.text_tower.tokenize(texts), tokens.shape)
            ),
            [tf.TensorSpec([None], tf.string)],
        )

    def _in_batches(self, embed: Callable, inputs: np.ndarray, batch_size: int) -> np.ndarray:
        blocks = [np.zeros((0, self.embedding_size), np.float32)]
        for start in range(0, len(inputs), batch_size):
            block = inputs[start : start + batch_size]
            kind = tf.string if block.dtype == object else block.dtype
            blocks.append(embed(tf.constant(block, kind)).numpy())
        return np.concatenate(blocks)
