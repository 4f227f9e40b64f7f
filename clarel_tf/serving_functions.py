"""The functions that exported models answer with: plain TensorFlow, core operations only.

Every output has the batch as its first dimension, so that a server may batch requests. Bad numbers
are refused inside the graph: the request gets an error, and the next one is served.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.distances import pairwise_distances
from clarel_tf.model import Clarel

Answer = dict[str, tf.Tensor]


class Calibration(NamedTuple):
    """What a run chose on validation data."""

    alpha: float
    temperature: float
    none_distance: float


def embed_images(model: Clarel, image_features: tf.Tensor) -> tf.Tensor:
    """Image features, float32 [B, D] -> float32 [B, E]; NaN and infinity are refused."""
    checked = tf.debugging.check_numerics(image_features, "image_features must be finite")
    return model.image_tower(checked)


def embed_texts(model: Clarel, text: tf.Tensor) -> tf.Tensor:
    """Sentences, string [S] -> float32 [S, E]."""
    return model.text_tower(model.tokenizer(text))


class PrototypeClassifier:
    """Answers from stored prototypes, from sentences sent along, or from prototypes sent along.

    Stored tensors are variables: they are written once, whatever the number of signatures.
    """

    def __init__(
        self,
        model: Clarel,
        prototypes: np.ndarray,
        class_names: list[str],
        is_seen: np.ndarray,
        calibration: Calibration,
        k: int = 5,
    ):
        """`prototypes`: float32 [C, E]; `is_seen`: bool [C]; `k`: classes in an answer."""
        self._model, self._calibration, self._k = model, calibration, k
        self._prototypes = tf.Variable(prototypes, trainable=False, name="prototypes")
        squares = np.einsum("ij,ij->i", prototypes, prototypes)
        self._squares = tf.Variable(squares, trainable=False, name="prototype_squares")
        self._class_names = tf.constant(class_names)
        self._is_seen = tf.constant(is_seen, tf.float32)

    def classify(self, image_features: tf.Tensor) -> Answer:
        """The k best of the stored classes for each of B images."""
        alpha = tf.fill([tf.shape(image_features)[0]], self._calibration.alpha)
        return self.classify_with_alpha(image_features, alpha)

    def classify_with_alpha(self, image_features: tf.Tensor, alpha: tf.Tensor) -> Answer:
        """The same with an alpha of its own, float32 [B], for each image."""
        distances = self._stored_distances(embed_images(self._model, image_features), alpha)
        return self._answer(distances, self._class_names)

    def classify_with_new_classes(
        self, image_features: tf.Tensor, sentences: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """The stored classes and new ones, each made of the sentences that carry its name.

        Args:
          image_features: float32 [B, D].
          sentences: string [S].
          class_names: string [S], the class that each sentence describes.
        """
        images = embed_images(self._model, image_features)
        alpha = tf.fill([tf.shape(images)[0]], self._calibration.alpha)
        new = self.embed_prototypes(sentences, class_names)
        distances = tf.concat(
            [self._stored_distances(images, alpha), pairwise_distances(images, new["prototype"])],
            axis=1,
        )
        return self._answer(distances, tf.concat([self._class_names, new["class_name"]], axis=0))

    def embed_prototypes(self, sentences: tf.Tensor, class_names: tf.Tensor) -> Answer:
        """The prototypes of the classes that S sentences describe, in the order of first mention.

        Args:
          sentences, class_names: string [S].

        Returns:
          class_name: string [N]; prototype: float32 [N, E].
        """
        tf.debugging.assert_equal(
            tf.size(sentences), tf.size(class_names), "one class name is needed for each sentence"
        )
        names, rows, counts = tf.unique_with_counts(class_names)
        sums = tf.math.unsorted_segment_sum(
            embed_texts(self._model, sentences), rows, tf.size(names)
        )
        return {"class_name": names, "prototype": sums / tf.cast(counts, tf.float32)[:, tf.newaxis]}

    def classify_with_prototypes(
        self, image_features: tf.Tensor, prototypes: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """Only the classes that come with the request: prototypes [N, E], class_names [N]."""
        tf.debugging.assert_equal(
            tf.shape(prototypes)[0], tf.size(class_names), "one name is needed for each prototype"
        )
        prototypes = tf.debugging.check_numerics(prototypes, "prototypes must be finite")
        images = embed_images(self._model, image_features)
        return self._answer(pairwise_distances(images, prototypes), class_names)

    def _stored_distances(self, images: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
        """d_alpha of each image to each stored class, float32 [B, C]."""
        alpha = tf.debugging.check_numerics(alpha, "alpha must be finite")
        distances = pairwise_distances(images, self._prototypes, self._squares)
        return distances * (1.0 + alpha[:, tf.newaxis] * self._is_seen)

    def _answer(self, distances: tf.Tensor, class_names: tf.Tensor) -> Answer:
        """The k nearest of N classes.

        Returns:
          class_name, distance, probability: [B, k], nearest first, k at most N; accepted: bool
          [B], whether the nearest one is near enough to be believed.
        """
        count = tf.minimum(self._k, tf.shape(distances)[1])
        nearest = tf.math.top_k(-distances, count)
        logits = -distances / self._calibration.temperature
        log_total = tf.reduce_logsumexp(logits, axis=1, keepdims=True)
        best = -nearest.values
        return {
            "class_name": tf.gather(class_names, nearest.indices),
            "distance": best,
            "probability": tf.exp(nearest.values / self._calibration.temperature - log_total),
            "accepted": tf.reduce_any(best[:, :1] <= self._calibration.none_distance, axis=1),
        }


class Gallery:
    """Captions and images of a split, to be found by an image or by a sentence."""

    def __init__(
        self,
        model: Clarel,
        captions: list[bytes],
        caption_owners: np.ndarray,
        caption_embeddings: np.ndarray,
        image_ids: list[str],
        image_embeddings: np.ndarray,
        k: int = 5,
    ):
        """M captions, the image number of each, [M, E]; N image ids, [N, E]."""
        self._model, self._k = model, k
        self._captions = tf.constant(captions)
        self._owners = tf.constant(caption_owners)
        self._image_ids = tf.constant(image_ids)
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
