"""The functions that exported models answer with: plain TensorFlow, core operations only.

Every output has the batch as its first dimension, so that a server may batch requests. Bad numbers
are refused inside the graph: the request gets an error, and the next one is served.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.decision.discriminants import Discriminants
from clarel_tf.models.distances import EPSILON, distances_to_true_means, pairwise_distances
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.evidence import ServedEvidence
from clarel_tf.serving.nearest import Nearest, add_candidates, nearest_in_blocks, no_candidates

Answer = dict[str, tf.Tensor]


class Calibration(NamedTuple):
    """What a run chose on validation data, and what decides besides the captions."""

    alpha: float
    temperature: float
    none_distance: float
    head_evidence: float = 0.0
    discriminants: Discriminants | None = None


def embed_images(model: Embedder, image_features: tf.Tensor) -> tf.Tensor:
    """Image features, float32 [B, D] -> float32 [B, E]; NaN and infinity are refused."""
    checked = tf.debugging.check_numerics(image_features, "image_features must be finite")
    return _with_finite_length(model.image_tower(checked), "image_features are too large")


def embed_texts(model: Embedder, text: tf.Tensor) -> tf.Tensor:
    """Sentences, string [S] -> float32 [S, E]."""
    return model.text_tower(model.tokenizer(text))


def _with_finite_length(vectors: tf.Tensor, message: str) -> tf.Tensor:
    """Vectors, [N, E], unless a squared length overflows: their distances would be NaN."""
    squares = tf.reduce_sum(tf.square(vectors), axis=1)
    with tf.control_dependencies([tf.debugging.check_numerics(squares, message)]):
        return tf.identity(vectors)


class PrototypeClassifier:
    """Answers from stored prototypes, from sentences sent along, or from prototypes sent along.

    Stored tensors are variables: they are written once, whatever the number of signatures, and a
    loader does not copy them about with the graph, as it does with constants.
    """

    def __init__(
        self,
        model: Embedder,
        prototypes: np.ndarray,
        class_names: list[str],
        is_seen: np.ndarray,
        calibration: Calibration,
        k: int = 5,
        block: int = 8_192,
        caption_scatter: float = 0.0,
    ):
        """Takes what it answers from.

        Args:
          prototypes: float32 [C, E].
          is_seen: bool [C].
          k: classes in an answer.
          block: classes that are looked at together; more of them take more memory.
          caption_scatter: mean squared distance of a caption from the mean of its class; a class of
            few sentences would lose against the stored ones without it.
        """
        self._caption_scatter = caption_scatter
        self._model, self._calibration, self._k, self._block = model, calibration, k, block
        self._prototypes = tf.Variable(prototypes, trainable=False, name="prototypes")
        squares = np.einsum("ij,ij->i", prototypes, prototypes)
        self._squares = tf.Variable(squares, trainable=False, name="prototype_squares")
        self._class_names = tf.Variable(class_names, trainable=False, name="class_names")
        self._is_seen = tf.Variable(is_seen.astype(np.float32), trainable=False, name="is_seen")
        self._evidence = ServedEvidence(
            model, prototypes, is_seen, calibration.head_evidence, calibration.discriminants
        )

    def classify(self, image_features: tf.Tensor) -> Answer:
        """The k best of the stored classes for each of B images."""
        alpha = tf.fill([tf.shape(image_features)[0]], self._calibration.alpha)
        return self.classify_with_alpha(image_features, alpha)

    def classify_with_alpha(self, image_features: tf.Tensor, alpha: tf.Tensor) -> Answer:
        """The same with an alpha of its own, float32 [B], for each image."""
        found = self._among_stored(embed_images(self._model, image_features), alpha)
        return self._answer(found, self._class_names)

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
        names, means, counts = self._means_of(sentences, class_names)
        distances = pairwise_distances(images, means)
        excess = self._caption_scatter / tf.cast(counts, tf.float32)
        distances = distances_to_true_means(distances, excess)
        distances = self._less(distances, self._evidence.of_classes(images, means, excess))
        found = self._add(self._among_stored(images, alpha), distances, tf.size(self._class_names))
        return self._answer(found, tf.concat([self._class_names, names], axis=0))

    def embed_prototypes(self, sentences: tf.Tensor, class_names: tf.Tensor) -> Answer:
        """The prototypes of the classes that S sentences describe, in the order of first mention.

        Args:
          sentences, class_names: string [S].

        Returns:
          class_name: string [N]; prototype: float32 [N, E].
        """
        names, means, _ = self._means_of(sentences, class_names)
        return {"class_name": names, "prototype": means}

    def _means_of(
        self, sentences: tf.Tensor, class_names: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(names, string [N]; means, float32 [N, E]; sentences in each, int32 [N])."""
        check = tf.debugging.assert_equal(
            tf.size(sentences), tf.size(class_names), "one class name is needed for each sentence"
        )
        with tf.control_dependencies([check]):  # before what would fail with another message
            class_names = tf.identity(class_names)
        names, rows, counts = tf.unique_with_counts(class_names)
        embedded = embed_texts(self._model, sentences)
        return names, tf.math.unsorted_segment_mean(embedded, rows, tf.size(names)), counts

    def classify_with_prototypes(
        self, image_features: tf.Tensor, prototypes: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """Only the classes that come with the request: prototypes [N, E], class_names [N]."""
        check = tf.debugging.assert_equal(
            tf.shape(prototypes)[0], tf.size(class_names), "one name is needed for each prototype"
        )
        with tf.control_dependencies([check]):
            class_names = tf.identity(class_names)
        prototypes = _with_finite_length(prototypes, "prototypes must be finite, and not too large")
        images = embed_images(self._model, image_features)
        distances = pairwise_distances(images, prototypes)
        distances = self._less(distances, self._evidence.of_classes(images, prototypes))
        return self._answer(self._add(no_candidates(images), distances, 0), class_names)

    def _among_stored(self, images: tf.Tensor, alpha: tf.Tensor) -> Nearest:
        """The stored classes by d_alpha; images: float32 [B, E], alpha: float32 [B]."""
        alpha = tf.debugging.check_numerics(alpha, "alpha must be finite")[:, tf.newaxis]
        # At -1 all seen classes are at distance 0, and below it the farthest is the nearest.
        tf.debugging.assert_greater(alpha, -1.0, "alpha must be above -1")
        prototypes = tf.convert_to_tensor(self._prototypes)
        squares = tf.convert_to_tensor(self._squares)
        evidence = self._evidence.of_stored(images)

        def distances_to(first, end) -> tf.Tensor:
            distances = pairwise_distances(images, prototypes[first:end], squares[first:end])
            distances = self._less(distances, evidence(first, end))
            return distances * (1.0 + alpha * self._is_seen[first:end])

        count = self._prototypes.shape[0]
        temperature = self._calibration.temperature
        return nearest_in_blocks(images, count, self._block, distances_to, self._k, temperature)

    def _less(self, distances: tf.Tensor, evidence: tf.Tensor) -> tf.Tensor:
        """Distances less what speaks for the classes; never below 0, where alpha turns round."""
        if not self._evidence.is_asked:
            return distances
        return tf.maximum(distances - evidence, EPSILON)

    def _add(self, found: Nearest, distances: tf.Tensor, first_row: tf.Tensor | int) -> Nearest:
        return add_candidates(found, distances, first_row, self._k, self._calibration.temperature)

    def _answer(self, found: Nearest, class_names: tf.Tensor) -> Answer:
        """What was found among N classes, with their names, string [N].

        Returns:
          class_name, distance, probability: [B, k], nearest first, k at most N; accepted: bool
          [B], whether the nearest one is near enough to be believed.
        """
        distances = tf.debugging.check_numerics(found.distances, "alpha is too large")
        logits = (distances[:, :1] - distances) / self._calibration.temperature
        near_enough = distances[:, :1] <= self._calibration.none_distance
        return {
            "class_name": tf.gather(class_names, found.rows),
            "distance": distances,
            "probability": tf.exp(logits) / found.total,
            "accepted": tf.reduce_any(near_enough, axis=1),
        }


class Gallery:
    """Captions and images of a split, to be found by an image or by a sentence."""

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
