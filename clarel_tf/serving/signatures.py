"""The functions behind the signatures of the exported classifier, in core TensorFlow operations.

Every output has the batch as its first dimension, so that a server can batch requests. Invalid
numbers are refused inside the graph: the request gets an error, and the server continues.
"""

import numpy as np
import tensorflow as tf

from clarel_tf.decision.rule import DecisionRule, Images, rescaled
from clarel_tf.decision.selected import Selected
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.answering import Answer, Answering
from clarel_tf.serving.described import Described, describe
from clarel_tf.serving.embeddings import embed_images, with_finite_length
from clarel_tf.serving.nearest import Nearest, add_candidates, nearest_in_blocks, no_candidates
from clarel_tf.serving.offers import Offers
from clarel_tf.serving.refusals import refuse_unless
from clarel_tf.serving.stored_names import Relations, StoredNames


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
        self._model, self._selected, self._k, self._block = model, selected, k, block
        # Of equally near classes the first one wins, so seen classes come first.
        order = np.argsort(~is_seen, kind="stable")
        seen = int(np.count_nonzero(is_seen))
        head = model.image_classifier
        self._answering = Answering(selected, density, head, len(order), seen, k)
        self._rule = rule.as_variables()
        self._classes = rule.describe(prototypes[order], is_seen[order]).as_variables()
        counts = np.ones(len(order)) if counts is None else counts
        self._names = StoredNames([class_names[row] for row in order])
        self._class_names = self._names.names
        self._counts = tf.Variable(counts[order].astype(np.float32), trainable=False)
        self._columns = tf.Variable(order.astype(np.int32), trainable=False)
        self._offers = Offers(
            *(self._rule, self._names, self._classes, self._columns, selected.alpha, block)
        )
        # One graph for all signatures that read sentences: tracing a text tower takes time.
        texts = tf.TensorSpec([None], tf.string)
        self._described = tf.function(
            lambda *texts: describe(model, *texts), [texts, texts], autograph=False
        )

    def classify(self, image_features: tf.Tensor) -> Answer:
        """The k nearest stored classes of each of B images."""
        images = self._rule.look_at(embed_images(self._model, image_features))
        alpha = tf.fill([tf.shape(image_features)[0]], self._selected.alpha)
        return self._answering.answer(self._among_stored(images, alpha), images, self._class_names)

    def classify_with_alpha(self, image_features: tf.Tensor, alpha: tf.Tensor) -> Answer:
        """Like `classify`, with an alpha for each image, float32 [B]."""
        images = self._rule.look_at(embed_images(self._model, image_features))
        found = self._among_stored(images, alpha)
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
        found = self._among_stored(images, alpha)
        distances = self._rule.distances(images, self._rule.describe_new(new.means, new.counts))
        found = self._add(found, distances, tf.size(self._class_names))
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
            lambda: self._distances_to(new, relations, images, alpha, among),
            lambda: tf.zeros([count, 0]),
        )
        offered = self._names.offered(among, relations)
        found = self._among_stored(images, alpha, k, offered, distances)
        before = found.before
        found = self._add(found, distances, tf.size(self._class_names), k)
        names = tf.concat([self._class_names, new.names], axis=0)
        limit = _or_default(threshold, self._selected.none_of_these.distance, count, "threshold")
        is_seen = self._answering.are_seen(relations.extended)
        answer = self._answering.answer(found, images, names, alpha, limit, k, is_seen)
        strange = self._answering.strangeness(found, images, alpha, is_seen)
        # Of equally near ones the class that was mentioned first.
        place = tf.argsort(tf.argsort(distances, axis=1, stable=True), axis=1)
        shape = tf.shape(distances)
        return answer | {
            "strangeness": strange[:, 0],
            "new_class_name": tf.broadcast_to(new.names, shape),
            "new_class_rank": before + place + 1,
            "new_class_distance": distances,
            "new_class_probability": self._answering.probability(found, distances, is_seen),
            "new_class_known_words": tf.broadcast_to(new.known, shape),
        }

    def _distances_to(
        self,
        new: Described,
        relations: Relations,
        images: Images,
        alpha: tf.Tensor,
        among: tf.Tensor,
    ) -> tf.Tensor:
        """d_alpha of B images to N classes of the request, float32 [B, N]."""
        is_replaced = relations.replaced >= 0
        columns = tf.gather(self._columns, tf.maximum(relations.replaced, 0))
        replaced = tf.where(is_replaced, columns, -1)
        offer = self._offers.of_request(among, relations)
        described = self._rule.describe_new(new.means, new.counts, replaced, offer)
        distances = self._rule.distances(images, described)
        # An extended class is the stored class with another prototype.
        rows = tf.maximum(relations.extended, 0)
        classes = self._classes.read().select(rows)
        before, added = tf.gather(self._counts, rows), tf.cast(new.counts, tf.float32)
        share = (added / (before + added))[:, tf.newaxis]
        prototypes = (1.0 - share) * classes.prototypes + share * new.means
        moved = self._rule.move(classes, prototypes)
        extended = rescaled(
            self._rule.distances(images, moved), moved.is_seen, alpha[:, tf.newaxis]
        )
        distances = tf.where(relations.extended >= 0, extended, distances)
        return tf.debugging.check_numerics(distances, "a distance is not a finite number")

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
        found = self._add(no_candidates(images.embeddings), distances, tf.size(self._class_names))
        names = tf.concat([self._class_names, class_names], axis=0)
        return self._answering.answer(found, images, names)

    def _among_stored(
        self,
        images: Images,
        alpha: tf.Tensor,
        k: tf.Tensor | int | None = None,
        offered: tf.Tensor | None = None,
        watched: tf.Tensor | None = None,
    ) -> Nearest:
        """The stored classes by d_alpha, for B images.

        Args:
          alpha: float32 [B].
          offered: int32 [n], rows of the classes on offer; all by default.
          watched: see `nearest_in_blocks`.
        """
        is_valid = tf.reduce_all(tf.math.is_finite(alpha) & (alpha > -1.0))
        # At -1 all seen classes are at distance 0, and below it the farthest is the nearest.
        checks = [
            refuse_unless(is_valid, "alpha must be a finite number above -1"),
            refuse_unless(
                tf.equal(tf.size(alpha), tf.shape(images.embeddings)[0]),
                "one alpha is needed for each image",
            ),
        ]
        with tf.control_dependencies(checks):
            alpha = tf.identity(alpha)[:, tf.newaxis]
        classes = self._classes.read()

        def distances_to(first: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            if offered is None:
                part = classes.part(first, end)
            else:
                part = classes.select(offered[first:end])
            return rescaled(self._rule.distances(images, part), part.is_seen, alpha)

        found = nearest_in_blocks(
            images.embeddings,
            self._class_names.shape[0] if offered is None else tf.size(offered),
            self._block,
            distances_to,
            tf.maximum(2, self._k if k is None else k),  # rejection looks at the second
            self._selected.temperatures,
            watched,
        )
        if offered is None:
            return found
        return found._replace(rows=tf.gather(offered, found.rows))

    def _add(
        self,
        found: Nearest,
        distances: tf.Tensor,
        first_row: tf.Tensor | int,
        k: tf.Tensor | int | None = None,
    ) -> Nearest:
        k = tf.maximum(2, self._k if k is None else k)
        return add_candidates(found, distances, first_row, k, self._selected.temperatures)


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
