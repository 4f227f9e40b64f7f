"""The image tower: precomputed features -> dropout -> linear layer."""

import keras
import tensorflow as tf

from clarel_tf.replicas import RowDropout


@keras.saving.register_keras_serializable(package="clarel_tf")
class ImageTower(keras.layers.Layer):
    """Embeds image features in the joint space."""

    def __init__(self, embedding_size: int = 1024, dropout: float = 0.25, **kwargs):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.dropout = RowDropout(dropout, name="dropout")
        self.head = keras.layers.Dense(embedding_size, name="head")

    def build(self, input_shape):
        self.head.build(input_shape)

    def call(self, image_features: tf.Tensor, training: bool = False) -> tf.Tensor:
        """float32 [B, D] -> float32 [B, embedding_size]."""
        return self.head(self.dropout(image_features, training=training))

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "dropout": self.dropout.rate}
        return {**super().get_config(), **own}
