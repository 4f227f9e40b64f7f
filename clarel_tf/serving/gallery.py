"""Retrieval in an exported classifier: the captions and images of a split."""

import numpy as np
import tensorflow as tf

from clarel_tf.models.distances import pairwise_distances
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.answering import Answer
from clarel_tf.serving.embeddings import embed_images, embed_texts


class Gallery:
    """Retrieval of the captions and images of a split."""

    def __init__(
        self,
        model: Embedder,
        captions: list[bytes],
        caption_owners: np.ndarray,
        caption_embeddings: np.ndarray,
        image_ids: list[str],
        image_embeddings: np.ndarray,
        k: int = 5,
    ):
        """M captions, the image number of each, [M, E]; N image ids, [N, E]."""
        self._model, self._k = model, k
        self._captions = tf.Variable(captions, trainable=False, name="caption_texts")
        self._owners = tf.Variable(caption_owners, trainable=False, name="caption_owners")
        self._image_ids = tf.Variable(image_ids, trainable=False, name="image_ids")
        self._caption_embeddings = tf.Variable(caption_embeddings, trainable=False, name="captions")
        self._image_embeddings = tf.Variable(image_embeddings, trainable=False, name="images")

    def retrieve_captions(self, image_features: tf.Tensor) -> Answer:
        """caption, image_id and distance, [B, k], nearest first."""
        images = embed_images(self._model, image_features)
        found, distance = self._nearest(images, self._caption_embeddings)
        owners = tf.gather(self._owners, found)
        return {
            "caption": tf.gather(self._captions, found),
            "image_id": tf.gather(self._image_ids, owners),
            "distance": distance,
        }

    def retrieve_images(self, text: tf.Tensor) -> Answer:
        """image_id and distance, [S, k], nearest first."""
        found, distance = self._nearest(embed_texts(self._model, text), self._image_embeddings)
        return {"image_id": tf.gather(self._image_ids, found), "distance": distance}

    def _nearest(self, queries: tf.Tensor, stored: tf.Variable) -> tuple[tf.Tensor, tf.Tensor]:
        distances = pairwise_distances(queries, stored)
        nearest = tf.math.top_k(-distances, min(self._k, stored.shape[0]))
        return nearest.indices, -nearest.values
