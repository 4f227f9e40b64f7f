"""Retrieval measures: recall of captions and images, and precision at 50 around prototypes.

An equally near wrong item counts as nearer than the right one, so ties never flatter.
"""

import math

import numpy as np

from clarel_tf.models.distances import pairwise_distances_numpy

RECALL_AT = (1, 5, 10)


class RetrievalRecall:
    """Recall of captions by images and of images by captions, within one split.

    A reader of a caption stream: every caption is looked at once, against all images. An image
    finds its text if one of its own captions is among the k nearest of all captions.
    """

    def __init__(self, images: np.ndarray):
        """`images`: float32 [N, E], the embedded images of the split."""
        self._images = images
        most = max(RECALL_AT)
        self._nearest_others = np.full((len(images), most), np.inf, np.float32)
        self._nearest_own = np.full(len(images), np.inf, np.float32)
        self._image_ranks: list[np.ndarray] = []

    def add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        """Takes captions, float32 [b, E], of these images, int64 [b]."""
        if len(instances) and instances[0] < 0:  # sentences of no image
            return
        block = max(1, (1 << 24) // max(len(self._images), 1))
        for start in range(0, len(embeddings), block):
            part = slice(start, start + block)
            self._add(embeddings[part], instances[part])

    def _add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        distances = pairwise_distances_numpy(embeddings, self._images)  # [b, N]
        rows = np.arange(len(instances))
        own = distances[rows, instances]
        nearer = (distances <= own[:, np.newaxis]).sum(axis=1) - 1
        self._image_ranks.append(nearer)
        np.minimum.at(self._nearest_own, instances, own)
        distances[rows, instances] = np.inf
        others = np.concatenate([self._nearest_others, distances.T], axis=1)
        most = self._nearest_others.shape[1]
        self._nearest_others = np.partition(others, most - 1, axis=1)[:, :most]

    def result(self) -> dict[str, dict[str, float]]:
        """Recall at 1, 5 and 10 in percent, by direction; empty without captions of images."""
        if not self._image_ranks:
            return {}
        # Images without captions have nothing to find.
        asked = np.isfinite(self._nearest_own)
        text_ranks = (self._nearest_others <= self._nearest_own[:, np.newaxis]).sum(axis=1)[asked]
        image_ranks = np.concatenate(self._image_ranks)
        return {
            name: {f"recall@{k}": float(100.0 * np.mean(ranks < k)) for k in RECALL_AT}
            for name, ranks in (("image_to_text", text_ranks), ("text_to_image", image_ranks))
        }


def average_precision_at(
    images: np.ndarray,
    labels: np.ndarray,
    prototypes: np.ndarray,
    classes: np.ndarray,
    k: int = 50,
) -> float:
    """AP@k: the share of a class's own images among the k nearest to its prototype, averaged.

    Where there are fewer than k images, all of them are the nearest ones. NaN without images or
    classes.

    Args:
      images: float32 [N, E].
      labels: int [N].
      prototypes: float32 [C, E].
      classes: int [C], label of each prototype.
    """
    if not (len(images) and len(classes)):
        return math.nan
    k = min(k, len(images))
    block = max(1, (1 << 24) // max(len(images), 1))
    precisions: list[np.ndarray] = []
    for start in range(0, len(classes), block):
        part = slice(start, start + block)
        distances = pairwise_distances_numpy(prototypes[part], images)
        is_own = labels == classes[part][:, np.newaxis]
        precisions.append(_precision(distances, is_own, k))
    return float(100.0 * np.mean(np.concatenate(precisions)))


def _precision(distances: np.ndarray, is_own: np.ndarray, k: int) -> np.ndarray:
    """Share of own images among the k nearest of each row, [C]; own ones come last in a tie."""
    limit = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    inside = distances < limit
    at_limit = distances == limit
    own_inside = (inside & is_own).sum(axis=1)
    room = k - inside.sum(axis=1) - (at_limit & ~is_own).sum(axis=1)
    own_at_limit = (at_limit & is_own).sum(axis=1)
    return (own_inside + np.clip(room, 0, own_at_limit)) / k


class NearestCaptions:
    """The nearest captions of a few images, found while the captions of a split pass by."""

    def __init__(self, images: np.ndarray, count: int = 3):
        """`images`: float32 [N, E]."""
        self._images, self._position = images, 0
        self.distances = np.full((len(images), count), np.inf, np.float32)
        self.captions = np.full((len(images), count), -1)  # position in the stream, [N, count]

    def add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        """Takes the next captions of the stream, float32 [b, E]."""
        if len(instances) and instances[0] < 0:  # sentences of no image, at the end
            return
        new = self._position + np.arange(len(embeddings))
        distances = pairwise_distances_numpy(self._images, embeddings)
        distances = np.concatenate([self.distances, distances], axis=1)
        captions = np.concatenate(
            [self.captions, np.broadcast_to(new, (len(self._images), len(new)))], axis=1
        )
        order = np.argsort(distances, axis=1, kind="stable")[:, : self.distances.shape[1]]
        self.distances = np.take_along_axis(distances, order, axis=1)
        self.captions = np.take_along_axis(captions, order, axis=1)
        self._position += len(embeddings)
