"""How many sentences a new class needs: what one class that is only described gets right.

Each unseen class in turn is taken out of the stored prototypes and sent back as a client of the
served classifier would send it: with one sentence, or two, or ten, against all others as they are.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from clarel_tf.decision.blocks import on_blocks
from clarel_tf.decision.rule import rescaled
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.records import NewClassPoint
from clarel_tf.evaluation.zero_shot import EmbeddedQueries

SENTENCE_COUNTS = (1, 2, 5, 10, 50)


def new_class_curve(
    draws: CaptionDraws, queries: EmbeddedQueries, alpha: float, scatter: float
) -> list[NewClassPoint]:
    """Accuracy and precision of a new class, for each number of sentences of `draws`.

    Args:
      scatter: as `CaptionScatter` gives it; 0 leaves distances as they are.
    """
    images = np.concatenate([queries.seen.images, queries.unseen.images])
    labels = np.concatenate([queries.seen.labels, queries.unseen.labels])
    new = np.flatnonzero(~queries.is_seen)  # columns of the classes that are taken out in turn
    column, nearest, second = _two_nearest(images, queries, alpha)
    curve = []
    for index, count in enumerate(draws.counts):
        scores = []
        for draw in range(draws.draws):
            means = draws.prototypes(draw, index)[new]
            excess = (scatter / draws.used(index)[new]).astype(np.float32)
            classes = queries.rule.describe(means, excess=tf.constant(excess))
            hits, taken = np.zeros(len(new)), np.zeros(len(new))
            for start, distances in on_blocks(queries.rule).distances(images, classes):
                rows = np.arange(start, start + len(distances))[:, np.newaxis]
                rival = np.where(column[rows] == new, second[rows], nearest[rows])
                takes = distances < rival
                hits += (takes & (labels[rows] == queries.prototypes.classes[new])).sum(axis=0)
                taken += takes.sum(axis=0)
            sizes = (labels == queries.prototypes.classes[new, np.newaxis]).sum(axis=1)
            scores.append([np.mean(hits / sizes), hits.sum() / max(1.0, taken.sum())])
        curve.append(NewClassPoint(count, **_mean_and_deviation(scores)))
    return curve


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


def _mean_and_deviation(scores: Sequence[Sequence[float]]) -> dict[str, float]:
    """Of (accuracy, precision) of several draws, shares in [0, 1], as percent."""
    named = {}
    for name, values in zip(("accuracy", "precision"), 100.0 * np.array(scores).T, strict=True):
        named[name] = float(values.mean())
        named[f"{name}_std"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return named
