"""Counts the images that a new class of a request takes, with real and with empty descriptions.

Each unseen class in turn is taken out of the stored prototypes and sent back as a client of the
served classifier would send it: with one sentence, or two, or ten, against all others as they are.
Empty descriptions are added to all stored classes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from clarel_tf.data.split import Split
from clarel_tf.decision.blocks import on_blocks
from clarel_tf.decision.inputs import Classes
from clarel_tf.decision.rule import rescaled
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.empty_descriptions import Description
from clarel_tf.evaluation.gzsl import harmonic_mean
from clarel_tf.evaluation.trust_records import EmptyDescriptionPoint, NewClassPoint
from clarel_tf.evaluation.zero_shot import EmbeddedQueries
from clarel_tf.models.embedder import Embedder

SENTENCE_COUNTS = (1, 2, 5, 10, 50)


def few_caption_draws(splits: Sequence[Split], width: int, seed: int = 0) -> CaptionDraws:
    """Draws of few captions of every class of `splits`, in the order of their embedding."""
    labels = [split.caption_labels() for split in splits]
    classes = np.unique(np.concatenate([split.classes() for split in splits]))
    return CaptionDraws(np.concatenate(labels), classes, width, seed=seed, counts=SENTENCE_COUNTS)


class NewClassTrial:
    """Adds classes to the stored ones, and counts the images that they take."""

    def __init__(self, queries: EmbeddedQueries, alpha: float):
        """`queries` with a rule that has a `DescriptionModel`."""
        self._queries = queries
        self._blocks = on_blocks(queries.rule)  # the same for every share
        self._means: dict[tuple[Description, ...], np.ndarray] = {}  # of descriptions, by share too
        self._images = np.concatenate([queries.seen.images, queries.unseen.images])
        self._labels = np.concatenate([queries.seen.labels, queries.unseen.labels])
        self._column, self._nearest, self._second = _two_nearest(self._images, queries, alpha)

    def with_share(self, share: float) -> "NewClassTrial":
        """The same images and classes with another share of reference images."""
        rule = self._queries.rule
        assert rule.descriptions is not None  # who measures new classes has a model of them
        other = object.__new__(NewClassTrial)
        other.__dict__.update(self.__dict__)
        other._queries = self._queries._replace(
            rule=rule.with_descriptions(rule.descriptions._replace(share=share))
        )
        return other

    def real(self, draws: CaptionDraws) -> list[NewClassPoint]:
        """Recall and precision of unseen classes, for each number of sentences of `draws`.

        Nothing if no unseen class has images.
        """
        classes = self._queries.prototypes.classes
        # Columns of the classes taken out in turn.
        new = np.flatnonzero(~self._queries.is_seen & np.isin(classes, self._labels))
        if not len(new):
            return []
        sizes = (self._labels == classes[new, np.newaxis]).sum(axis=1)
        curve = []
        for index, count in enumerate(draws.counts):
            scores = []
            for draw in range(draws.draws):
                described = self._queries.rule.describe_new(
                    draws.prototypes(draw, index)[new],
                    draws.used(index)[new],
                    tf.constant(new, tf.int32),
                )
                hits, taken = np.zeros(len(new)), np.zeros(len(new))
                for rows, takes in self._takes(described, new):
                    hits += (takes & (self._labels[rows] == classes[new])).sum(axis=0)
                    taken += takes.sum(axis=0)
                scores.append([np.mean(hits / sizes), hits.sum() / max(1.0, taken.sum())])
            curve.append(_point(count, scores))
        return curve

    def empty(
        self, model: Embedder, descriptions: Sequence[Description]
    ) -> list[EmptyDescriptionPoint]:
        """Percent of all images that empty descriptions take, by kind and number of sentences."""
        if not len(self._images):
            return []
        counts = np.array([len(one.sentences) for one in descriptions])
        means = self._means.get(tuple(descriptions))
        if means is None:
            flat = [sentence for one in descriptions for sentence in one.sentences]
            starts = np.cumsum(counts) - counts
            means = np.add.reduceat(model.embed_texts(flat), starts, axis=0) / counts[:, np.newaxis]
            self._means[tuple(descriptions)] = means
        described = self._queries.rule.describe_new(means.astype(np.float32), counts)
        taken = np.zeros(len(counts))
        for _, takes in self._takes(described, np.full(len(counts), -1)):
            taken += takes.sum(axis=0)
        shares = 100.0 * taken / len(self._images)
        groups: dict[tuple[str, int], list[float]] = {}
        for one, share in zip(descriptions, shares.tolist(), strict=True):
            groups.setdefault((one.kind, len(one.sentences)), []).append(share)
        return [
            EmptyDescriptionPoint(kind, count, float(np.mean(values)), max(values))
            for (kind, count), values in groups.items()
        ]

    def _takes(
        self, described: Classes, replaced: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields (rows, int [n, 1]; bool [n, C], whether each class takes each image)."""
        for start, distances in self._blocks.distances(self._images, described):
            rows = np.arange(start, start + len(distances))[:, np.newaxis]
            rival = np.where(
                self._column[rows] == replaced, self._second[rows], self._nearest[rows]
            )
            yield rows, distances < rival


def _two_nearest(
    images: np.ndarray, queries: EmbeddedQueries, alpha: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nearest stored class of each image by d_alpha, its distance, and that of the second.

    Returns:
      (column, int [N]; distance, float32 [N]; distance of the second, infinite if there is none).
    """
    is_seen = queries.is_seen.astype(np.float32)
    column = np.empty(len(images), np.int64)
    nearest, second = np.empty((2, len(images)), np.float32)
    for start, distances in queries.distance_blocks(images):
        distances = rescaled(distances, is_seen, np.float32(alpha))
        rows, block = slice(start, start + len(distances)), np.arange(len(distances))
        column[rows] = distances.argmin(axis=1)
        nearest[rows] = distances[block, column[rows]]
        distances[block, column[rows]] = np.inf
        second[rows] = distances.min(axis=1)
    return column, nearest, second


def _point(sentences: int, scores: Sequence[Sequence[float]]) -> NewClassPoint:
    """The mean of (recall, precision) of several draws, shares in [0, 1], as percent."""
    values = 100.0 * np.array(scores)
    recall, precision = (float(mean) for mean in values.mean(axis=0))
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(2)
    return NewClassPoint(
        sentences=sentences,
        recall=recall,
        recall_std=float(spread[0]),
        precision=precision,
        precision_std=float(spread[1]),
        harmonic_mean=harmonic_mean(recall, precision),
    )
