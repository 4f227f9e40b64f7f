"""The decision rule: distances from embedded images to classes. It is stated only here.

    d(z, y) = |z - p(y)|                       Euclidean distance to the prototype of class y,
                                               corrected if it has few sentences
                                               (`descriptions.py`)
              - head_weight * log P(y | z)     image head, seen classes only
              - score(z, y)                    linear discriminants (LDA)
              and never below EPSILON
    d_alpha(z, y) = (1 + alpha) * d(z, y)      for a seen class; d(z, y) for any other
    answer = argmin d_alpha

Of equally near classes a seen one comes first, then the one with the lower label; classes that come
with a request come last.

Evaluation calls these functions on blocks of images, and export puts them into the graph. They
accept arrays, tensors and variables.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.decision.descriptions import DescriptionModel, Offer, ReferenceRivals
from clarel_tf.decision.discriminants import Discriminants, stored
from clarel_tf.decision.inputs import Classes, Images
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.models.distances import EPSILON, distances_to_true_means, pairwise_distances


class DecisionRule:
    """The decision rule with its image head and discriminants.

    Attributes:
      discriminants: of the seen classes, or None.
      descriptions: for classes of a request; without it they are taken as they are.
    """

    def __init__(
        self,
        head: keras.layers.Layer | None = None,
        head_weight: float = 0.0,
        discriminants: Discriminants | None = None,
        descriptions: DescriptionModel | None = None,
    ):
        """Takes the terms besides the distance; without them it is the paper's rule.

        Args:
          head: float32 [B, E] -> logits, float32 [B, K], of the K seen classes.
          head_weight: factor on log-probabilities, in units of distance.
        """
        self._head, self._head_weight = head if head_weight else None, head_weight
        # Tensors, because an array would become a constant of every graph.
        self.discriminants = discriminants and discriminants.as_tensors()
        self.descriptions = descriptions
        self._references: Images | None = None  # of an export: the same for every request

    @classmethod
    def of_run(
        cls,
        settings: RuleSettings,
        head: keras.layers.Layer | None,
        discriminants: Discriminants | None,
        is_seen: np.ndarray,
    ) -> "DecisionRule":
        """The rule by the settings of a run; refuses parts that do not belong together.

        Args:
          head: of the model that was trained on the seen classes.
          discriminants: of the seen classes.
          is_seen: bool [C], of the stored classes.
        """
        seen = int(np.count_nonzero(is_seen))
        if settings.head_evidence and (head is None or head.units != seen):
            units = "no" if head is None else head.units
            raise ClarelError(
                f"the image head has {units} classes, but {seen} of the classes are seen ones"
            )
        if settings.discriminant_evidence and discriminants is None:
            raise ClarelError("discriminant_evidence needs discriminants, and there are none")
        if not settings.discriminant_evidence:
            discriminants = None
        if discriminants is not None and len(discriminants.prototypes) != seen:
            raise ClarelError(
                f"the discriminants have {len(discriminants.prototypes)} classes, but {seen} of "
                "the classes are seen ones"
            )
        return cls(head, settings.head_evidence, discriminants)

    @property
    def is_of_the_paper(self) -> bool:
        """True if only the distances to the prototypes decide, as in the paper."""
        return self._head is None and self.discriminants is None

    @property
    def asks_head(self) -> bool:
        """True if the image head contributes to the distance."""
        return self._head is not None

    def as_variables(self) -> "DecisionRule":
        """A copy with variables, for an exported graph."""
        discriminants = self.discriminants and self.discriminants.as_variables()
        descriptions = self.descriptions and self.descriptions.as_variables()
        made = DecisionRule(self._head, self._head_weight, discriminants, descriptions)
        if self.descriptions is not None:
            looked_at = self.look_at(self.descriptions.references)
            names = ("reference_images", "reference_head_terms", "reference_scores")
            made._references = Images(*map(stored, looked_at, names))
        return made

    def with_descriptions(self, descriptions: DescriptionModel) -> "DecisionRule":
        """A copy that corrects for few and for empty sentences of new classes."""
        return DecisionRule(self._head, self._head_weight, self.discriminants, descriptions)

    def describe(
        self, prototypes: Any, is_seen: np.ndarray | None = None, excess: Any = None
    ) -> Classes:
        """The inputs of the rule for C classes.

        Args:
          prototypes: float32 [C, E].
          is_seen: bool [C], in the order of the head's outputs; None if no class is seen.
          excess: float32 [C], see `Classes`.
        """
        prototypes = tf.convert_to_tensor(prototypes, tf.float32)
        count = tf.shape(prototypes)[0]
        seen = tf.zeros([count]) if is_seen is None else tf.constant(is_seen, tf.float32)
        columns = mixtures = halves = None
        if self._head is not None and is_seen is not None:
            of_head = np.where(is_seen, np.cumsum(is_seen) - 1, np.count_nonzero(is_seen))
            columns = tf.constant(of_head, tf.int32)
        if self.discriminants is not None:
            mixtures = self.discriminants.mixtures(prototypes, excess)
            halves = self.discriminants.halves(mixtures)
        squares = tf.reduce_sum(tf.square(prototypes), axis=1)
        return Classes(prototypes, squares, seen, columns, excess, mixtures, halves)

    def describe_new(
        self, means: Any, counts: Any, replaced: Any = None, offer: Offer | None = None
    ) -> Classes:
        """The inputs of the rule for C classes of a request, see `descriptions.py`.

        Args:
          means: float32 [C, E], means of the embedded sentences of each class.
          counts: [C], number of these sentences.
          replaced: int32 [C], the stored class that each class takes the place of, if any does.
          offer: the stored classes on offer; by default all.
        """
        means, model = tf.convert_to_tensor(means, tf.float32), self.descriptions
        if model is None:
            return self.describe(means)
        counts = tf.cast(counts, tf.float32)
        specificity = model.specificity(means, counts)
        classes = self.describe(means, excess=specificity * model.scatter / counts)
        distances = self.distances(self._reference_images(), classes)
        return classes._replace(offset=model.offsets(distances, specificity, replaced, offer))

    def with_rivals(
        self, rivals: ReferenceRivals, classes: Classes, columns: Any, alpha: Any
    ) -> ReferenceRivals:
        """`rivals` with C more stored classes on offer, whose numbers are `columns`, int32 [C]."""
        assert self.descriptions is not None  # who asks for rivals describes classes
        distances = self.distances(self._reference_images(), classes)
        distances = rescaled(distances, classes.is_seen, alpha)
        return rivals.among_more(distances, columns, self.descriptions.own)

    def _reference_images(self) -> Images:
        if self._references is not None:
            return self._references
        assert self.descriptions is not None
        return self.look_at(self.descriptions.references)

    def move(self, classes: Classes, prototypes: Any) -> Classes:
        """Stored classes with other prototypes, float32 [C, E]; what their images say stays."""
        moved = self.describe(prototypes)
        return moved._replace(is_seen=classes.is_seen, head_columns=classes.head_columns)

    def look_at(self, embeddings: Any) -> Images:
        """The inputs of the rule for B images, float32 [B, E]."""
        embeddings = tf.convert_to_tensor(embeddings, tf.float32)
        by_head = scores = None
        if self._head is not None:
            log_probabilities = tf.nn.log_softmax(self._head(embeddings))
            by_head = tf.pad(-self._head_weight * log_probabilities, [[0, 0], [0, 1]])
        if self.discriminants is not None:
            scores = self.discriminants.scores(embeddings)
        return Images(embeddings, by_head, scores)

    def distances(self, images: Images, classes: Classes) -> tf.Tensor:
        """The distance d of every image to every class, float32 [B, C]."""
        distances = pairwise_distances(images.embeddings, classes.prototypes, classes.squares)
        if classes.excess is not None:
            distances = distances_to_true_means(distances, classes.excess)
        if classes.head_columns is not None:
            distances += tf.gather(images.by_head, classes.head_columns, axis=1)
        if classes.mixtures is not None:
            assert self.discriminants is not None  # the mixtures are theirs
            score = tf.matmul(images.scores, classes.mixtures, transpose_b=True) - classes.halves
            distances -= self.discriminants.weight * score
        if classes.offset is not None:
            distances += classes.offset
        # For a negative distance alpha would have the opposite effect.
        by_distance = classes.head_columns is None and classes.mixtures is None
        return distances if by_distance else tf.maximum(distances, EPSILON)


def rescaled(distances: Any, is_seen: Any, alpha: Any) -> Any:
    """d_alpha: distances, [B, C], to seen classes (`is_seen`, 1 or 0, [C]) times 1 + alpha."""
    return distances * (1.0 + alpha * is_seen)
