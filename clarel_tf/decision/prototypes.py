"""Class prototypes: the mean of all embedded captions of a class."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.decision.embedded_splits import EmbeddedSplit

_BLOCK = 4096  # images at a time, so that memory does not grow with their number


class Prototypes(NamedTuple):
    """The prototypes of C classes, as sums and counts, so that captions can be left out.

    Attributes:
      classes: int64 [C], labels, sorted.
      sums: float64 [C, E], sum of the captions of each class.
      counts: int64 [C], number of these captions, at least 1.
    """

    classes: np.ndarray
    sums: np.ndarray
    counts: np.ndarray

    def means(self) -> np.ndarray:
        """float32 [C, E]; every caption of a class counts the same."""
        return (self.sums / self.counts[:, np.newaxis]).astype(np.float32)

    def rows(self, labels: np.ndarray) -> np.ndarray:
        """Row of each label; all must be among the classes."""
        return np.searchsorted(self.classes, labels)


def make_prototypes(splits: Sequence[EmbeddedSplit]) -> Prototypes:
    """Prototypes of all classes of `splits`, from all their captions and descriptions."""
    told = [(split.labels, split.caption_sums, split.caption_counts) for split in splits]
    for described in (split.described for split in splits if split.described is not None):
        told.append((described.labels, described.sums, described.counts))
    classes, rows = np.unique(np.concatenate([part[0] for part in told]), return_inverse=True)
    counts = np.bincount(rows, weights=np.concatenate([part[2] for part in told])).astype(np.int64)
    if (counts == 0).any():
        raise ValueError(f"class {classes[counts == 0][0]} has no caption to make a prototype from")
    sums = np.zeros((len(classes), splits[0].caption_sums.shape[1]))
    start = 0
    for labels, of_part, _ in told:
        np.add.at(sums, rows[start : start + len(labels)], of_part)
        start += len(labels)
    return Prototypes(classes, sums, counts)


class CaptionScatter:
    """Measures how far captions lie from their class mean, in one pass over all captions."""

    def __init__(self) -> None:
        self._squares = 0.0

    def add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        """Receives captions, float32 [b, E]; their instances do not matter."""
        self._squares += float(np.einsum("ij,ij->", embeddings, embeddings, dtype=np.float64))

    def result(self, prototypes: Prototypes) -> float:
        """Mean squared distance of a caption from the true mean of its class (unbiased)."""
        of_means = np.square(prototypes.sums).sum(axis=1) / prototypes.counts
        freedom = int(prototypes.counts.sum()) - len(prototypes.counts)
        return max(0.0, self._squares - float(of_means.sum())) / max(1, freedom)


def means_without_own_captions(
    queries: EmbeddedSplit, prototypes: Prototypes
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """The prototype of each image's class without the image's own captions.

    Computed exactly from sums and counts, without a loop over images.

    Args:
      queries: N images whose captions are all part of `prototypes`.

    Yields:
      (rows of a block; their means, float32 [n, E]; bool [n], false if no other image of the class
      has captions).
    """
    rows = prototypes.rows(queries.labels)
    left = prototypes.counts[rows] - queries.caption_counts
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        sums = prototypes.sums[rows[part]] - queries.caption_sums[part]
        means = sums / np.maximum(left[part], 1)[:, np.newaxis]
        yield part, means.astype(np.float32), left[part] > 0


def own_class_distance(splits: Sequence[EmbeddedSplit], prototypes: Prototypes) -> float:
    """Mean distance of the images of `splits` from the prototypes of their own classes."""
    means, total, images = prototypes.means(), 0.0, 0
    for split in splits:
        rows = prototypes.rows(split.labels)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            total += float(np.linalg.norm(split.images[part] - means[rows[part]], axis=1).sum())
        images += len(rows)
    return total / images
