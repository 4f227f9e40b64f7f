"""Measures of single classes, and the pairs of classes that are most often confused."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.prototypes import Prototypes
from clarel_tf.evaluation.example_records import ClassMeasures, Confusion

# How many pairs are recorded of test images of each kind, and with how many images of a class.
_MOST_CONFUSED = {"unseen": 8, "seen": 4}
_IMAGES_OF_A_CLASS = 3


class AnsweredImages(NamedTuple):
    """The test images of both kinds, and what the rule gives them to.

    Attributes:
      image_ids: str [N].
      labels: int [N], true classes.
      predicted: int [N], the classes that they are given to.
      is_seen: bool [N], whether the true class is a seen one.
    """

    image_ids: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    is_seen: np.ndarray

    @classmethod
    def of_splits(
        cls, seen: Split, unseen: Split, predicted_seen: np.ndarray, predicted_unseen: np.ndarray
    ) -> "AnsweredImages":
        """The answers to two splits, one after the other."""
        return cls(
            np.concatenate([seen.image_ids, unseen.image_ids]),
            np.concatenate([seen.labels, unseen.labels]),
            np.concatenate([predicted_seen, predicted_unseen]),
            np.arange(len(seen) + len(unseen)) < len(seen),
        )


def class_measures(
    answers: AnsweredImages,
    training_labels: np.ndarray,
    prototypes: Prototypes,
    class_names: Sequence[str],
) -> list[ClassMeasures]:
    """Measures of every class with test images, in the order of their labels.

    Args:
      training_labels: int [M], classes of the training images.
      prototypes: of all classes.
    """
    labels, predicted = answers.labels, answers.predicted
    right = labels == predicted
    size = len(class_names)
    images, hits, given, trained = (
        np.bincount(one, minlength=size)
        for one in (labels, labels[right], predicted, training_labels)
    )
    sentences = dict(zip(prototypes.classes.tolist(), prototypes.counts.tolist(), strict=True))
    seen = set(labels[answers.is_seen].tolist())
    mistakes: dict[int, tuple[int, int]] = {}  # label: (class given, number of images)
    for true, other, count in _wrong_pairs(predicted, labels):
        if count > mistakes.get(true, (-1, 0))[1]:
            mistakes[true] = other, count
    measures = []
    for label in np.flatnonzero(images).tolist():
        mistaken_for, count = mistakes.get(label, (-1, 0))
        measures.append(
            ClassMeasures(
                name=class_names[label],
                is_seen=label in seen,
                training_images=int(trained[label]),
                sentences=sentences[label],
                images=int(images[label]),
                accuracy=100.0 * float(hits[label] / images[label]),
                precision=100.0 * float(hits[label] / given[label]) if given[label] else None,
                mistaken_for=class_names[mistaken_for] if count else None,
                mistaken_percent=100.0 * count / int(images[label]),
            )
        )
    return measures


def confused_pairs(
    answers: AnsweredImages,
    training: Split,
    seen_classes: np.ndarray,
    class_names: Sequence[str],
) -> list[Confusion]:
    """The pairs that are most often confused, with some of their images.

    A pair that is confused both ways is recorded once for test images of each kind.

    Args:
      training: may show images of a class that has no test images.
      seen_classes: labels of the classes that the model was trained on.
    """
    totals = np.bincount(answers.labels, minlength=len(class_names))
    found = []
    for kind, of_kind in (("unseen", ~answers.is_seen), ("seen", answers.is_seen)):
        predicted, most = answers.predicted[of_kind], _MOST_CONFUSED[kind]
        pairs = confusions(predicted, answers.labels[of_kind], most)
        for true, other, percent in pairs:
            back = np.count_nonzero((answers.labels == other) & (answers.predicted == true))
            wrong = (answers.labels == true) & (answers.predicted == other) & of_kind
            found.append(
                Confusion(
                    true=class_names[true],
                    predicted=class_names[other],
                    percent=percent,
                    percent_back=100.0 * back / int(totals[other]) if totals[other] else None,
                    true_is_seen=kind == "seen",
                    predicted_is_seen=bool(np.isin(other, seen_classes)),
                    images=answers.image_ids[wrong][:_IMAGES_OF_A_CLASS].tolist(),
                    predicted_images=images_of(other, answers, training, _IMAGES_OF_A_CLASS),
                )
            )
    return found


def confusions(
    predicted: Sequence[int] | np.ndarray, labels: np.ndarray, most: int = 12
) -> list[tuple[int, int, float]]:
    """The pairs of classes most often confused: (true label, predicted, percent of the true).

    Of a pair that is confused both ways, the more frequent way counts.
    """
    images = np.bincount(labels)
    rows = [
        (true, given, 100.0 * count / int(images[true]))
        for true, given, count in _wrong_pairs(np.asarray(predicted), labels)
    ]
    kept: dict[frozenset[int], tuple[int, int, float]] = {}
    for row in sorted(rows, key=lambda row: (-row[2], row[0], row[1])):
        if len(kept) == most:
            break
        kept.setdefault(frozenset(row[:2]), row)
    return list(kept.values())


def _wrong_pairs(predicted: np.ndarray, labels: np.ndarray) -> list[tuple[int, int, int]]:
    """(true label, wrong class, number of images), sorted by both labels."""
    wrong = predicted != labels
    if not wrong.any():
        return []
    pairs = np.stack([labels[wrong], predicted[wrong]], axis=1)
    pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    return [(*pair, count) for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)]


def images_of(label: int, answers: AnsweredImages, training: Split, most: int) -> list[str]:
    """Ids of a few images of a class: test images, right answers first, or else training images."""
    of_class = answers.labels == label
    right = answers.predicted == label
    tested = [answers.image_ids[of_class & chosen] for chosen in (right, ~right)]
    found = np.concatenate([*tested, training.image_ids[training.labels == label]])
    return found[:most].tolist()
