"""The functions behind the signatures of the exported classifier, in core TensorFlow operations.

Every output has the batch as its first dimension, so that a server can batch requests. Invalid
numbers are refused inside the graph: the request gets an error, and the server continues.
"""

import numpy as np
import tensorflow as tf

from clarel_tf.decision.rule import DecisionRule
from clarel_tf.decision.selected import Selected
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.answering import Answer, Answering
from clarel_tf.serving.class_search import ClassSearch
from clarel_tf.serving.described import describe
from clarel_tf.serving.embeddings import embed_images, with_finite_length
from clarel_tf.serving.nearest import no_candidates
from clarel_tf.serving.refusals import refuse_unless


class PrototypeClassifier:
    """Classifies by stored prototypes, and by sentences or prototypes in the request."""

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
        counts: np.ndarray | None = None,
        density: ImageDensity | None = None,
    ):
        """Takes the stored classes and the decision rule.

        Args:
          prototypes: float32 [C, E], in the order of their labels.
          is_seen: bool [C].
          k: classes in an answer.
          block: classes processed together; a larger block takes more memory.
          counts: int [C], captions behind each prototype; 1 by default.
          density: of the training images, for rejection.
        """
        self._model, self._selected, self._k = model, selected, k
        self._search = ClassSearch(
            prototypes, class_names, is_seen, selected, rule, k, block, counts
        )
        self._rule, self._names = self._search.rule, self._search.names
        self._class_names = self._names.names
        stored, seen = len(class_names), int(np.count_nonzero(is_seen))
        self._answering = Answering(selected, density, model.image_classifier, stored, seen, k)
        # One graph for all signatures that read sentences: tracing a text tower takes time.
        texts = tf.TensorSpec([None], tf.string)
        self._described = tf.function(
            lambda *texts: describe(model, *texts), [texts, texts], autograph=False
        )

    def classify(self, image_features: tf.Tensor) -> Answer:
        """The k nearest stored classes of each of B images."""
        images = self._rule.look_at(embed_images(self._model, image_features))
        alpha = tf.fill([tf.shape(image_features)[0]], self._selected.alpha)
        return self._answering.answer(
            self._search.among_stored(images, alpha), images, self._class_names
        )

    def classify_with_alpha(self, image_features: tf.Tensor, alpha: tf.Tensor) -> Answer:
        """Like `classify`, with an alpha for each image, float32 [B]."""
        images = self._rule.look_at(embed_images(self._model, image_features))
        found = self._search.among_stored(images, alpha)
        return self._answering.answer(found, images, self._class_names, alpha)

    def classify_with_new_classes(
        self, image_features: tf.Tensor, sentences: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """The k nearest of the stored classes and the new classes of the request.

        Args:
          image_features: float32 [B, D].
          sentences: string [S].
          class_names: string [S], the new class that each sentence describes.
        """
        images = self._rule.look_at(embed_images(self._model, image_features))
        alpha = tf.fill([tf.shape(image_features)[0]], self._selected.alpha)
        new = self._described(sentences, class_names)
        found = self._search.among_stored(images, alpha)
        distances = self._rule.distances(images, self._rule.describe_new(new.means, new.counts))
        found = self._search.add(found, distances, tf.size(self._class_names))
        names = tf.concat([self._class_names, new.names], axis=0)
        return self._answering.answer(found, images, names)

    def classify_with_options(
        self,
        image_features: tf.Tensor,
        alpha: tf.Tensor,
        k: tf.Tensor,
        among: tf.Tensor,
        sentences: tf.Tensor,
        class_names: tf.Tensor,
        replaces: tf.Tensor,
        extends: tf.Tensor,
        threshold: tf.Tensor,
    ) -> Answer:
        """The nearest classes, with every option; one that is empty is left out.

        Args:
          image_features: float32 [B, D].
          alpha: float32 [B] or [0], instead of the stored one.
          k: int32 [B] or [0]; the answer has as many classes as the largest of them says.
          among: string [M], the stored classes on offer.
          sentences: string [S].
          class_names: string [S], the class of the request that each sentence describes. These
            classes are on offer besides those of `among`.
          replaces: those that take the place of the stored class with the same name.
          extends: those whose sentences are added to the captions of that stored class.
          threshold: float32 [B] or [0], instead of the stored one: an image is accepted if its
            strangeness is at most this.

        Returns:
          An answer with the strangeness of each image, [B]. For each of the N classes of the
          request, in the order of their first sentences, it has new_class_name,
          new_class_rank (1 is the nearest of all classes on offer),
          new_class_distance, new_class_probability and new_class_known_words (the share of its
          words that the model knows), [B, N].
        """
        images = self._rule.look_at(embed_images(self._model, image_features))
        count = tf.shape(image_features)[0]
        alpha = _or_default(alpha, self._selected.alpha, count, "alpha")
        k = _or_default(k, self._k, count, "k")
        with tf.control_dependencies([refuse_unless(tf.reduce_all(k > 0), "k must be at least 1")]):
            k = tf.reduce_max(tf.concat([k, [1]], axis=0))
        new = self._described(sentences, class_names)
        relations = self._names.relations(new.names, replaces, extends)
        distances = tf.cond(
            tf.size(new.names) > 0,
            lambda: self._search.distances_to(new, relations, images, alpha, among),
            lambda: tf.zeros([count, 0]),
        )
        offered = self._names.offered(among, relations)
        found = self._search.among_stored(images, alpha, k, offered, distances)
        before = found.before
        found = self._search.add(found, distances, tf.size(self._class_names), k)
        names = tf.concat([self._class_names, new.names], axis=0)
        limit = _or_default(threshold, self._selected.none_of_these.distance, count, "threshold")
        numbers = self._answering.seen_numbers(relations.extended)
        answer = self._answering.answer(found, images, names, alpha, limit, k, numbers)
        strange = self._answering.strangeness(found, images, alpha, numbers)
        # Of equally near ones the class that was mentioned first.
        place = tf.argsort(tf.argsort(distances, axis=1, stable=True), axis=1)
        shape = tf.shape(distances)
        return answer | {
            "strangeness": strange[:, 0],
            "new_class_name": tf.broadcast_to(new.names, shape),
            "new_class_rank": before + place + 1,
            "new_class_distance": distances,
            "new_class_probability": self._answering.probability(found, distances, numbers),
            "new_class_known_words": tf.broadcast_to(new.known, shape),
        }

    def embed_prototypes(self, sentences: tf.Tensor, class_names: tf.Tensor) -> Answer:
        """The prototypes of the classes that S sentences describe, in the order of first mention.

        Args:
          sentences, class_names: string [S].

        Returns:
          class_name: string [N]; prototype: float32 [N, E].
        """
        new = self._described(sentences, class_names)
        return {"class_name": new.names, "prototype": new.means}

    def classify_with_prototypes(
        self, image_features: tf.Tensor, prototypes: tf.Tensor, class_names: tf.Tensor
    ) -> Answer:
        """The k nearest of the request's own classes: prototypes [N, E], class_names [N]."""
        check = tf.debugging.assert_equal(
            tf.shape(prototypes)[0], tf.size(class_names), "one name is needed for each prototype"
        )
        with tf.control_dependencies([check]):
            class_names = tf.identity(class_names)
        prototypes = with_finite_length(prototypes, "prototypes must be finite, and not too large")
        images = self._rule.look_at(embed_images(self._model, image_features))
        distances = self._rule.distances(images, self._rule.describe(prototypes))
        # Behind the stored classes, because no class of a request is a seen one.
        found = self._search.add(
            no_candidates(images.embeddings), distances, tf.size(self._class_names)
        )
        names = tf.concat([self._class_names, class_names], axis=0)
        return self._answering.answer(found, images, names)


def _or_default(value: tf.Tensor, default: float, count: tf.Tensor, name: str) -> tf.Tensor:
    """An option with a value for each of `count` images, or with none: then the default, [B]."""
    chosen = tf.cond(
        tf.equal(tf.size(value), 0),
        lambda: tf.fill([count], tf.cast(default, value.dtype)),
        lambda: value,
    )
    message = f"one {name} is needed for each image, or none at all"
    with tf.control_dependencies([refuse_unless(tf.equal(tf.size(chosen), count), message)]):
        return tf.identity(chosen)
