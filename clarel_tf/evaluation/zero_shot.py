"""Zero-shot evaluation: embeddings, prototypes, distances in blocks, then plain NumPy."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.alpha import NearestClasses
from clarel_tf.decision.discriminants import Discriminants
from clarel_tf.decision.embedded_splits import EmbeddedSplit, embed_split
from clarel_tf.decision.image_head import HeadEvidence
from clarel_tf.decision.prototypes import (
    Prototypes,
    distances_without_own_captions,
    make_prototypes,
)
from clarel_tf.decision.rule import DecisionRule
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.gzsl import alpha_curve, gzsl_scores, per_class_accuracy
from clarel_tf.models.distances import EPSILON, pairwise_distances_numpy
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

    def gzsl(self, alpha: float) -> dict[str, float]:
        """u, s and H against all classes."""
        return gzsl_scores(*self, alpha)._asdict()

    def alpha_curve(self) -> list[dict[str, float]]:
        """u, s and H over the whole range of alpha that changes anything."""
        return alpha_curve(*self)


class EmbeddedQueries(NamedTuple):
    """A model's view of one evaluation: who is asked, and what the classes are made of.

    Attributes:
      seen, unseen: query images of trained and of new classes.
      prototypes: of all classes.
      is_seen: bool [C], true for the classes that the model was trained on.
      head: the image head for these classes, if it is asked.
      discriminants: of these classes, if they are asked.
    """

    seen: EmbeddedSplit
    unseen: EmbeddedSplit
    prototypes: Prototypes
    is_seen: np.ndarray
    head: HeadEvidence | None = None
    discriminants: Discriminants | None = None

    @property
    def asks_more_than_captions(self) -> bool:
        """Whether `captions_alone` is something else."""
        return bool(self.head or self.discriminants)

    def captions_alone(self) -> "EmbeddedQueries":
        """The same by the rule of the paper, and nothing besides."""
        return self._replace(head=None, discriminants=None)

    def evaluate(self, leave_own_out: bool = False) -> Evaluation:
        """Nearest classes of all queries.

        Args:
          leave_own_out: take an image's own captions out of its class's prototype. (Discriminants
            stay as they were fitted, with all captions of the known classes.)
        """
        means = self.prototypes.means()
        sides = []
        for split in (self.seen, self.unseen):
            own = None
            if leave_own_out:
                own = distances_without_own_captions(split, self.prototypes, self.discriminants)
            sides += [self.nearest(split, means, own), split.labels]
        return Evaluation(*sides)

    def nearest(
        self, split: EmbeddedSplit, means: np.ndarray, own: np.ndarray | None = None
    ) -> NearestClasses:
        """Nearest classes of a split; `own`, float [N], replaces the distance to the own class."""
        sides = []
        for chosen in (self.is_seen, ~self.is_seen):
            classes = self.prototypes.classes[chosen]
            best = np.empty(len(split.labels), np.int64)
            distance = np.empty(len(split.labels))
            for start, distances in self._discriminated_blocks(split.images, means[chosen]):
                block = np.arange(len(distances))
                if own is not None:
                    labels = split.labels[start + block]
                    column = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
                    here = block[classes[column] == labels]
                    distances[here, column[here]] = own[start + here]
                if self.head and chosen is self.is_seen:
                    self.head.add_to(distances, split.images[start + block])
                np.maximum(distances, EPSILON, out=distances)  # alpha would turn round below 0
                best[start + block] = distances.argmin(axis=1)
                distance[start + block] = distances[block, best[start + block]]
            sides += [classes[best], distance]
        return NearestClasses(*sides)

    def distance_blocks(self, images: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """As the function of that name: images, [N, E], against all prototypes, by the rule."""
        for start, distances in self._discriminated_blocks(images, self.prototypes.means()):
            if self.head:
                known = distances[:, self.is_seen]
                self.head.add_to(known, images[start : start + len(known)])
                distances[:, self.is_seen] = known
            yield start, np.maximum(distances, EPSILON, out=distances)

    def _discriminated_blocks(
        self, images: np.ndarray, means: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Blocks of distances to any classes, with the part of the discriminants in them."""
        mixtures = self.discriminants and self.discriminants.mixtures(means)
        for start, distances in distance_blocks(images, means):
            if self.discriminants:
                here = images[start : start + len(distances)]
                distances -= self.discriminants.evidence(here, mixtures)
            yield start, distances


def distance_blocks(
    a: np.ndarray, b: np.ndarray, elements: int = 1 << 24
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (first row, distances [n, M]) for blocks of rows of a, [N, E], against b, [M, E].

    A block has about `elements` distances, so memory does not grow with N.
    """
    step = max(1, elements // max(len(b), 1))
    for start in range(0, len(a), step):
        yield start, pairwise_distances_numpy(a[start : start + step], b)


def embed_queries(
    model: Embedder,
    seen: Split,
    unseen: Split,
    support: Sequence[Split],
    rule: DecisionRule = DecisionRule(),
) -> EmbeddedQueries:
    """Embeds everything that an evaluation needs.

    Args:
      seen: query images of classes that the model was trained on.
      unseen: query images of classes that it was not trained on.
      support: further splits whose captions help to make the prototypes; those of the query images
        always do, as in the paper.
      rule: what decides besides the captions.
    """
    embedded = [embed_split(model, split) for split in (seen, unseen, *support)]
    return queries_from(*embedded, model=model, rule=rule)


def queries_from(
    seen: EmbeddedSplit,
    unseen: EmbeddedSplit,
    *support: EmbeddedSplit,
    model: Embedder | None = None,
    rule: DecisionRule = DecisionRule(),
) -> EmbeddedQueries:
    """Puts embedded splits together.

    Args:
      model: that embedded them; only its image head is looked at, if that is asked.
      rule: what decides besides the captions; discriminants are fitted to the support, which has
        to be the training split then.
    """
    prototypes = make_prototypes([seen, unseen, *support])
    is_seen = ~np.isin(prototypes.classes, unseen.labels)
    head = HeadEvidence.of(model, rule.head_evidence) if rule.head_evidence else None
    if head and len(head.bias) != np.count_nonzero(is_seen):
        raise ClarelError(
            f"the image head knows {len(head.bias)} classes, but "
            f"{np.count_nonzero(is_seen)} of the classes are seen ones"
        )
    discriminants = None
    if rule.discriminant_evidence:
        images = np.concatenate([seen.images[:0], *(split.images for split in support)])
        labels = np.concatenate([seen.labels[:0], *(split.labels for split in support)])
        if not np.array_equal(np.unique(labels), prototypes.classes[is_seen]):
            raise ClarelError("discriminants need images of every seen class, and of no other")
        known = prototypes.means()[is_seen]
        discriminants = Discriminants.fit(images, labels, known, rule.discriminant_evidence)
    return EmbeddedQueries(seen, unseen, prototypes, is_seen, head, discriminants)
