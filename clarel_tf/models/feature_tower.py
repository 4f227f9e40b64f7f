"""The standard image tower: precomputed features -> power -> dropout -> linear layer."""

from typing import Any

import keras
import tensorflow as tf

from clarel_tf.models.replicas import RowDropout
from clarel_tf.models.towers import ImageTower


@keras.saving.register_keras_serializable(package="clarel_tf")
class FeatureTower(ImageTower):
    """Embeds image features in the joint space.

    Pooled features of a CNN are mostly small, with a few large values that dominate a linear layer.
    A power below 1 compresses them; signs are kept.

    Example:

    >>> tower = clarel_tf.FeatureTower(input_size=5, embedding_size=4)
    >>> tower(tf.zeros([2, 5])).shape
    TensorShape([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        embedding_size: int = 1024,
        dropout: float = 0.25,
        feature_power: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.input_size, self.embedding_size = input_size, embedding_size
        self.feature_power = feature_power
        self.dropout = RowDropout(dropout, name="dropout")
        self.head = keras.layers.Dense(embedding_size, name="head")

    def build(self, input_shape: Any) -> None:
        self.head.build(input_shape)

    def call(self, image_features: tf.Tensor, training: bool = False) -> tf.Tensor:
        """float32 [B, input_size] -> float32 [B, embedding_size]."""
        if self.feature_power != 1.0:
            strengths = tf.pow(tf.abs(image_features), self.feature_power)
            image_features = tf.sign(image_features) * strengths
        return self.head(self.dropout(image_features, training=training))

    def get_config(self) -> dict[str, Any]:
        own = {
            "input_size": self.input_size,
            "embedding_size": self.embedding_size,
            "dropout": self.dropout.rate,
            "feature_power": self.feature_power,
        }
        return {**super().get_config(), **own}
