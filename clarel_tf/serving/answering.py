"""Turns the classes that a search found into an answer: names, probabilities, acceptance."""

import keras
import tensorflow as tf

from clarel_tf.decision.probabilities import probabilities
from clarel_tf.decision.rule import Images
from clarel_tf.decision.selected import Selected
from clarel_tf.decision.strangers import (
    ImageDensity,
    at_selected_alpha,
    doubt_in,
    doubts,
    strangeness,
)
from clarel_tf.errors import ClarelError
from clarel_tf.serving.nearest import Nearest

Answer = dict[str, tf.Tensor]

# The output of an export of a run without validation images; other exports do not have it.
UNCALIBRATED = "uncalibrated"


class Answering:
    """Answers by what was selected for a run.

    Rows of found classes are those of the stored classes, seen ones first, and then those of the
    request.
    """

    def __init__(
        self,
        selected: Selected,
        density: ImageDensity | None,
        head: keras.layers.Dense | None,
        stored: int,
        seen: int,
        k: int,
    ):
        """Takes what was selected, and the parts of the model that rejection looks at.

        Args:
          head: of the image tower, with an output for each seen class.
          stored, seen, k: number of stored classes, of seen ones among them, and of classes in an
            answer.
        """
        if selected.none_of_these.doubt and (head is None or head.units != seen):
            raise ClarelError(f"rejection needs an image head of {seen} classes, the seen ones")
        self._head = head if selected.none_of_these.doubt else None
        self._selected, self._k = selected, k
        self._density = density and density.as_variables()
        self._stored, self._seen = stored, seen

    def answer(
        self,
        found: Nearest,
        images: Images,
        class_names: tf.Tensor,
        alpha: tf.Tensor | None = None,
        threshold: tf.Tensor | None = None,
        k: tf.Tensor | int | None = None,
        numbers: tf.Tensor | None = None,
    ) -> Answer:
        """The answer of a search among N classes.

        Args:
          class_names: string [N].
          alpha: float32 [B], of the request; the selected one by default.
          threshold: float32 [B], of the strangeness of an image; the selected one by default.
          k: classes in the answer, at most N.
          numbers: int32 [N], as `seen_numbers` gives them; by default for stored classes alone.

        Returns:
          class_name, distance, probability: [B, k], nearest first, k at most N; accepted: bool
          [B], true if the image is not stranger than the threshold. Without validation images
          there is no threshold, and uncalibrated, bool [B], says so.
        """
        distances = tf.debugging.check_numerics(
            found.distances, "a distance is not a finite number: features or alpha are too large"
        )
        k = self._k if k is None else k
        strange = self.strangeness(found._replace(distances=distances), images, alpha, numbers)
        stored = self._selected.none_of_these.distance
        limit = stored if threshold is None else threshold[:, tf.newaxis]
        distances = distances[:, :k]
        missing = {}
        if self._selected.lacks_validation:
            missing = {UNCALIBRATED: tf.ones([tf.shape(distances)[0]], tf.bool)}
        return missing | {
            "class_name": tf.gather(class_names, found.rows[:, :k]),
            "distance": distances,
            "probability": self.probability(found, distances, numbers),
            "accepted": tf.reduce_any(strange <= limit, axis=1),
        }

    def seen_numbers(self, extended: tf.Tensor) -> tf.Tensor:
        """Which seen class the stored classes and the N of a request are, int32 [C + N].

        The number of seen classes stands for any other class. An extended class stays the seen
        class that it was.

        Args:
          extended: int32 [N], the stored class that each extends, or -1.
        """
        is_seen = (extended >= 0) & (extended < self._seen)
        stored = tf.minimum(tf.range(self._stored), self._seen)
        return tf.concat([stored, tf.where(is_seen, extended, self._seen)], axis=0)

    def _of_found(self, found: Nearest, numbers: tf.Tensor | None) -> tf.Tensor:
        """Which seen classes were found, int32 [B, n]; stored seen ones come first."""
        return found.rows if numbers is None else tf.gather(numbers, found.rows)

    def strangeness(
        self,
        found: Nearest,
        images: Images,
        alpha: tf.Tensor | None,
        numbers: tf.Tensor | None,
    ) -> tf.Tensor:
        """The strangeness of B images, float32 [B, 1]; arguments as for `answer`."""
        nearest = found.distances
        if alpha is not None:
            of_found = tf.cast(self._of_found(found, numbers) < self._seen, tf.float32)
            chosen = self._selected.alpha
            nearest = at_selected_alpha(nearest, of_found, alpha[:, tf.newaxis], chosen)
        doubt = None
        if self._head is not None:
            # The head has the order of the seen classes; without a class on offer there is no
            # nearest one.
            of_found = self._of_found(found, numbers)
            first = tf.concat([of_found, tf.fill([tf.shape(of_found)[0], 1], self._seen)], 1)
            doubt = doubt_in(doubts(self._head, images.embeddings), first[:, 0])
        none = self._selected.none_of_these
        return strangeness(none, self._density, images.embeddings, nearest, doubt)

    def probability(
        self, found: Nearest, distances: tf.Tensor, numbers: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The probabilities of classes on offer at these distances, float32 [B, n]."""
        return probabilities(
            distances,
            found.distances[:, :1],
            found.sums,
            self._of_found(found, numbers)[:, :1] < self._seen,
            self._selected.temperatures,
        )
