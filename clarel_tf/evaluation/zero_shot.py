"""Zero-shot evaluation: the nearest classes of all query images, by the decision rule."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.alpha import NearestClasses
from clarel_tf.decision.blocks import BlockRule, OwnDistances, on_blocks
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.descriptions import DescriptionModel
from clarel_tf.decision.discriminants import Discriminants
from clarel_tf.decision.embedded_splits import EmbeddedSplit, embed_split
from clarel_tf.decision.inputs import Classes
from clarel_tf.decision.prototypes import (
    Prototypes,
    make_prototypes,
    means_without_own_captions,
)
from clarel_tf.decision.rule import DecisionRule
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.gzsl import (
    alpha_curve,
    area_under,
    gzsl_scores,
    per_class_accuracy,
    seen_unseen_curve,
)
from clarel_tf.evaluation.records import AlphaPoint, GzslScores, Scores, ZslScores
from clarel_tf.models.embedder import Embedder


class Evaluation(NamedTuple):
    """What all zero-shot measures are computed from.

    Attributes:
      seen_images, unseen_images: nearest classes of the query images of each kind.
      seen_labels, unseen_labels: int [N], their true classes.
    """

    seen_images: NearestClasses
    seen_labels: np.ndarray
    unseen_images: NearestClasses
    unseen_labels: np.ndarray

    def zsl(self) -> float:
        """Top-1 of the unseen images against the unseen classes alone, averaged per class."""
        return per_class_accuracy(self.unseen_images.unseen, self.unseen_labels)

    def gzsl(self, alpha: float) -> GzslScores:
        """u, s and H against all classes."""
        return gzsl_scores(*self, alpha)

    def scores(self, alpha: float) -> Scores:
        """ZSL, u, s and H at this alpha and at 0, and AUSUC; NaN without images to measure it."""
        return Scores(
            zsl=ZslScores(self.zsl()),
            gzsl=self.gzsl(alpha),
            gzsl_alpha0=self.gzsl(0.0),
            ausuc=area_under(*seen_unseen_curve(*self)),
        )

    def alpha_curve(self) -> list[AlphaPoint]:
        """u, s and H over the whole range of alpha that changes anything."""
        return alpha_curve(*self)


class EmbeddedQueries(NamedTuple):
    """The embedded query images of an evaluation, the class prototypes, and the decision rule.

    Attributes:
      seen, unseen: query images of seen and of unseen classes.
      prototypes: of all classes.
      is_seen: bool [C], true for the classes that the model was trained on.
      rule: the decision rule.
    """

    seen: EmbeddedSplit
    unseen: EmbeddedSplit
    prototypes: Prototypes
    is_seen: np.ndarray
    rule: DecisionRule = DecisionRule()

    def captions_alone(self) -> "EmbeddedQueries":
        """The same with the paper's rule: distances to prototypes alone."""
        return self._replace(rule=DecisionRule())

    def with_descriptions(self, descriptions: DescriptionModel) -> "EmbeddedQueries":
        """The same with a rule that corrects for few and for empty sentences of new classes."""
        return self._replace(rule=self.rule.with_descriptions(descriptions))

    def evaluate(self, leave_own_out: bool = False) -> Evaluation:
        """Nearest classes of all queries.

        Args:
          leave_own_out: take an image's own captions out of its class's prototype. (Discriminants
            stay as they were fitted, with all captions of the seen classes.)
        """
        return self.evaluate_with(self.prototypes.means(), leave_own_out)

    def evaluate_with(self, means: np.ndarray, leave_own_out: bool = False) -> Evaluation:
        """The same with other prototypes of the classes, float32 [C, E]."""
        asked, classes = on_blocks(self.rule), self.rule.describe(means, self.is_seen)
        nearest = [
            self._nearest(asked, classes, split, leave_own_out)
            for split in (self.seen, self.unseen)
        ]
        return Evaluation(nearest[0], self.seen.labels, nearest[1], self.unseen.labels)

    def _nearest(
        self, asked: BlockRule, classes: Classes, split: EmbeddedSplit, leave_own_out: bool
    ) -> NearestClasses:
        rows = self.prototypes.rows(split.labels)
        own = self._own_distances(asked, classes, split, rows) if leave_own_out else None
        sides = []
        for side in (np.flatnonzero(self.is_seen), np.flatnonzero(~self.is_seen)):
            replaced = None
            if not len(side):  # data without unseen classes
                sides += [np.full(len(rows), -1), np.full(len(rows), np.inf)]
                continue
            if own is not None:
                column = np.minimum(np.searchsorted(side, rows), len(side) - 1)
                replaced = OwnDistances(np.where(side[column] == rows, column, -1), own)
            best, distance = asked.nearest(split.images, classes.select(side), replaced)
            # In double precision, so that an alpha of any type gives the same answer.
            sides += [self.prototypes.classes[side][best], distance.astype(np.float64)]
        return NearestClasses(*sides)

    def _own_distances(
        self, asked: BlockRule, classes: Classes, split: EmbeddedSplit, rows: np.ndarray
    ) -> np.ndarray:
        """d of each image to its class made without its captions, float32 [N]; maybe infinite."""
        columns = classes.head_columns
        columns = np.zeros(len(rows)) if columns is None else columns.numpy()[rows]
        own = np.empty(len(rows), np.float32)
        for part, means, has_others in means_without_own_captions(split, self.prototypes):
            distances = asked.of_pairs(split.images[part], means, columns[part])
            own[part] = np.where(has_others, distances, np.inf)
        return own

    def distance_blocks(self, images: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (first row, d [n, C]) for blocks of images, [N, E], against all classes."""
        classes = self.rule.describe(self.prototypes.means(), self.is_seen)
        return on_blocks(self.rule).distances(images, classes)


def embed_queries(
    model: Embedder,
    seen: Split,
    unseen: Split,
    support: Sequence[Split],
    settings: RuleSettings = RuleSettings(),
) -> EmbeddedQueries:
    """Embeds the query images and the captions of an evaluation.

    Args:
      seen: query images of classes that the model was trained on.
      unseen: query images of classes that it was not trained on.
      support: further splits whose captions help to make the prototypes; those of the query images
        always do, as in the paper.
      settings: of the rule.
    """
    embedded = [embed_split(model, split) for split in (seen, unseen, *support)]
    return queries_from(*embedded, model=model, settings=settings)


def queries_from(
    seen: EmbeddedSplit,
    unseen: EmbeddedSplit,
    *support: EmbeddedSplit,
    model: Embedder | None = None,
    settings: RuleSettings = RuleSettings(),
    stored: ClassStore | None = None,
) -> EmbeddedQueries:
    """Puts embedded splits together.

    Args:
      model: that embedded them; only its image head is looked at, if that is asked.
      settings: of the rule; discriminants are fitted to the support, which has to be the training
        split then.
      stored: prototypes and discriminants of an earlier evaluation of the same splits.
    """
    prototypes = stored.prototypes if stored else make_prototypes([seen, unseen, *support])
    is_seen = ~np.isin(prototypes.classes, unseen.classes())
    if not is_seen.any():
        raise ClarelError("all classes are unseen; an evaluation needs seen ones")
    discriminants = stored.discriminants if stored else None
    if settings.discriminant_evidence and discriminants is None:
        images = np.concatenate([seen.images[:0], *(split.images for split in support)])
        labels = np.concatenate([seen.labels[:0], *(split.labels for split in support)])
        if not np.array_equal(np.unique(labels), prototypes.classes[is_seen]):
            raise ClarelError("discriminants need images of every seen class, and of no other")
        of_seen = prototypes.means()[is_seen]
        strength = settings.discriminant_evidence
        discriminants = Discriminants.fit(images, labels, of_seen, strength)
    head = model.image_classifier if model is not None else None
    rule = DecisionRule.of_run(settings, head, discriminants, is_seen)
    return EmbeddedQueries(seen, unseen, prototypes, is_seen, rule)
