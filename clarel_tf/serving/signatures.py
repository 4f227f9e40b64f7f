"""The functions behind the signatures of exported models, in core TensorFlow operations.

Every output has the batch as its first dimension, so that a server can batch requests. Invalid
numbers are refused inside the graph: the request gets an error, and the server continues.
"""

import numpy as np
import tensorflow as tf

from clarel_tf.decision.probabilities import probabilities
from clarel_tf.decision.rule import DecisionRule, Images, rescaled
from clarel_tf.decision.selected import Selected
from clarel_tf.decision.strangers import ImageDensity, at_selected_alpha, strangeness
from clarel_tf.models.distances import pairwise_distances
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.nearest import Nearest, add_candidates, nearest_in_blocks, no_candidates

Answer = dict[str, tf.Tensor]


def embed_images(model: Embedder, image_features: tf.Tensor) -> tf.Tensor:
    """Image features, float32 [B, D] -> float32 [B, E]; NaN and infinity are refused."""
    checked = tf.debugging.check_numerics(image_features, "image_features must be finite")
    return _with_finite_length(model.image_tower(checked), "image_features are too large")


def embed_texts(model: Embedder, text: tf.Tensor) -> tf.Tensor:
    """Sentences, string [S] -> float32 [S, E]."""
    return model.text_tower(model.text_tower.tokenize(text))


def _with_finite_length(vectors: tf.Tensor, message: str) -> tf.Tensor:
    """`vectors`, [N, E]; an error if a squared length overflows, since distances would be NaN."""
    squares = tf.reduce_sum(tf.square(vectors), axis=1)
    with tf.control_dependencies([tf.debugging.check_numerics(squares, message)]):
        return tf.identity(vectors)


class PrototypeClassifier:
    """Classifies by stored prototypes, and by sentences or prototypes in the request.

    Stored tensors are variables: they are written once for all signatures, and a loader does not
    copy them with the graph, as it does with constants.
    """

    def __init__(
        self,
        model: Embedder,
        prototypes: np.ndarray,
        class_names: list[str],
        is_seen: np.ndarray,
        selected: Selected,
        rule: DecisionRule = DecisionRule(),
        k: int = 5,
        block: int = 8_192,
        density: ImageDensity | None = None,
    ):
        """Takes the stored classes and the decision rule.

        Args:
          prototypes: float32 [C, E], in the order of their labels.
          is_seen: bool [C].
          k: classes in an answer.
          block: classes processed together; a larger block takes more memory.
          density: of the training images, for rejection.
        """
        self._model, self._selected, self._k, self._block = model, selected, k, block
        self._density = density and density.as_variables()
        # Of equally near classes the first one wins, so seen classes come first.
        order = np.argsort(~is_seen, kind="stable")
        self._seen = int(np.count_nonzero(is_seen))
        self._rule = rule.as_variables()
        self._classes = rule.describe(prototypes[order], is_seen[order]).as_variables()
        names = [class_names[row] for row in order]
        self._class_names = tf.Variable(names, trainable=False, name="class_names")

    def classify(self, image_features: tf.Tensor) -> Answer:
        """The k nearest stored classes of each of B images."""
        images = self._rule.look_at(embed_images(self._model, image_features))
        alpha = tf.fill([tf.shape(image_features)[0]], self._selected.alpha)
        return self._answer(self._among_stored(images, alpha), images, self._class_names)

    def classify_with_alpha(self, image_features: tf.Tensor, alpha: tf.Tensor) -> Answer:
        """Like `classify`, with an alpha for each image, float32 [B]."""
        images = self._rule.look_at(embed_images(self._model, image_features))
        found = self._among_stored(images, alpha)
        return self._answer(found, images, self._class_names, alpha)

    def classify_with_new_classes(
        self, image_features: tf.Tensor, sentences: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """The k nearest of the stored classes and the new classes of the request.

        Args:
          image_features: float32 [B, D].
          sentences: string [S].
          class_names: string [S], the new class that each sentence describes.
        """
        images = embed_images(self._model, image_features)
        alpha = tf.fill([tf.shape(images)[0]], self._selected.alpha)
        names, means, counts = self._means_of(sentences, class_names)
        looked_at = self._rule.look_at(images)
        found = self._among_stored(looked_at, alpha)
        distances = self._rule.distances(looked_at, self._rule.describe_new(means, counts))
        found = self._add(found, distances, tf.size(self._class_names))
        return self._answer(found, looked_at, tf.concat([self._class_names, names], axis=0))

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
        with tf.control_dependencies([check]):  # checked first, for a clear message
            class_names = tf.identity(class_names)
        names, rows, counts = tf.unique_with_counts(class_names)
        embedded = embed_texts(self._model, sentences)
        return names, tf.math.unsorted_segment_mean(embedded, rows, tf.size(names)), counts

    def classify_with_prototypes(
        self, image_features: tf.Tensor, prototypes: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """The k nearest of the request's own classes: prototypes [N, E], class_names [N]."""
        check = tf.debugging.assert_equal(
            tf.shape(prototypes)[0], tf.size(class_names), "one name is needed for each prototype"
        )
        with tf.control_dependencies([check]):
            class_names = tf.identity(class_names)
        prototypes = _with_finite_length(prototypes, "prototypes must be finite, and not too large")
        images = self._rule.look_at(embed_images(self._model, image_features))
        distances = self._rule.distances(images, self._rule.describe(prototypes))
        # Behind the stored classes, because no class of a request is a seen one.
        found = self._add(no_candidates(images.embeddings), distances, tf.size(self._class_names))
        return self._answer(found, images, tf.concat([self._class_names, class_names], axis=0))

    def _among_stored(self, images: Images, alpha: tf.Tensor) -> Nearest:
        """The stored classes by d_alpha, for B images; alpha: float32 [B]."""
        alpha = tf.debugging.check_numerics(alpha, "alpha must be finite")[:, tf.newaxis]
        # At -1 all seen classes are at distance 0, and below it the farthest is the nearest.
        tf.debugging.assert_greater(alpha, -1.0, "alpha must be above -1")
        classes = self._classes.read()

        def distances_to(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            part = classes.part(first, end)
            return rescaled(self._rule.distances(images, part), part.is_seen, alpha)

        return nearest_in_blocks(
            images.embeddings,
            self._class_names.shape[0],
            self._block,
            distances_to,
            max(2, self._k),  # rejection looks at the second
            self._selected.temperatures,
        )

    def _add(self, found: Nearest, distances: tf.Tensor, first_row: tf.Tensor | int) -> Nearest:
        temperatures = self._selected.temperatures
        return add_candidates(found, distances, first_row, max(2, self._k), temperatures)

    def _answer(
        self,
        found: Nearest,
        images: Images,
        class_names: tf.Tensor,
        alpha: tf.Tensor | None = None,
        threshold: tf.Tensor | None = None,
    ) -> Answer:
        """The answer of a search among N classes.

        Args:
          class_names: string [N].
          alpha: float32 [B], of the request; the selected one by default.
          threshold: float32 [B], of the strangeness of an image; the selected one by default.

        Returns:
          class_name, distance, probability: [B, k], nearest first, k at most N; accepted: bool
          [B], true if the image is not stranger than the threshold.
        """
        distances = tf.debugging.check_numerics(
            found.distances, "a distance is not a finite number: features or alpha are too large"
        )
        none, nearest = self._selected.none_of_these, distances
        if alpha is not None:
            is_seen = tf.cast(found.rows < self._seen, tf.float32)
            chosen = self._selected.alpha
            nearest = at_selected_alpha(distances, is_seen, alpha[:, tf.newaxis], chosen)
        strange = strangeness(none, self._density, images.embeddings, nearest)
        limit = none.distance if threshold is None else threshold[:, tf.newaxis]
        distances = distances[:, : self._k]
        return {
            "class_name": tf.gather(class_names, found.rows[:, : self._k]),
            "distance": distances,
            "probability": self._probability(found, distances),
            "accepted": tf.reduce_any(strange <= limit, axis=1),
        }

    def _probability(self, found: Nearest, distances: tf.Tensor) -> tf.Tensor:
        """The probabilities of classes on offer at these distances, float32 [B, n]."""
        return probabilities(
            distances,
            found.distances[:, :1],
            found.sums,
            found.rows[:, :1] < self._seen,
            self._selected.temperatures,
        )


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
